package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// AddLink creates a link, down and in no bridge. The peer of a veth is created inside its namespace at once, so its
// name never conflicts with one of edgespan's names; a namespace that does not exist yet is an error that wraps
// netstate.ErrWaiting. If a step fails, nothing is left behind.
func (k *Kernel) AddLink(ctx context.Context, l netstate.Link) error {
	if _, ok := linkOwner(l.Name, l.Alias); !ok {
		return fmt.Errorf("link name %q: not an edgespan name", l.Name)
	}
	if _, err := k.find(l.Name); err == nil {
		if l.Type == netstate.Tap {
			return fmt.Errorf("interface name %s is in use by another link: %w", l.Name, unix.EEXIST)
		}
		return fmt.Errorf("link %s: %w", l.Name, unix.EEXIST)
	}
	var err error
	switch l.Type {
	case netstate.Bridge:
		err = k.addBridge(l)
	case netstate.Veth:
		err = k.addVeth(ctx, l)
	case netstate.Tap:
		err = k.addTap(l)
	case netstate.VXLAN:
		err = k.addVxlan(l)
	default:
		err = fmt.Errorf("unknown type %q", l.Type)
	}
	if err != nil {
		return fmt.Errorf("create link %s: %w", l.Name, err)
	}
	// Set the alias last: after a crash, an incomplete link has no alias, so it differs from the desired link and is
	// created again.
	if err := k.finish(l); err != nil {
		return fmt.Errorf("set up link %s: %w", l.Name, k.undo(l.Name, err))
	}
	return nil
}

func (k *Kernel) finish(l netstate.Link) error {
	made, err := k.find(l.Name)
	if err != nil {
		return err
	}
	// Otherwise every new link wakes every dnsmasq with its link-local address.
	err = k.change(func() error {
		return k.h.LinkSetIP6AddrGenMode(indexed(made.index, l.Name), nl.IN6_ADDR_GEN_MODE_NONE)
	})
	if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("set addr_gen_mode: %w", err)
	}
	if l.Type == netstate.Bridge { // the kernel's defaults for new bridges differ
		if err := errors.Join(k.correctBridge(made, l.Attrs), k.ignoreRouters(l.Name)); err != nil {
			return err
		}
	}
	return k.setLink(made.index, l)
}

// ignoreRouters makes a link accept no router advertisement: the kernel hands the node those that its own server sends,
// and while the link does not forward, it would make an address and a route of the prefix in them.
func (k *Kernel) ignoreRouters(link string) error {
	return proc.SetIn(k.path, "/proc/sys/net/ipv6/conf/"+link+"/accept_ra", "0")
}

func (k *Kernel) addBridge(l netstate.Link) error {
	mac, err := net.ParseMAC(l.MAC)
	if err != nil {
		return err
	}
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	data.AddRtAttr(nl.IFLA_BR_NF_CALL_IPTABLES, nl.Uint8Attr(1))
	data.AddRtAttr(nl.IFLA_BR_NF_CALL_IP6TABLES, nl.Uint8Attr(1))
	return k.do(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, nl.NewIfInfomsg(unix.AF_UNSPEC),
		nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(l.Name)),
		nl.NewRtAttr(unix.IFLA_ADDRESS, mac), info)
}

func (k *Kernel) addVeth(ctx context.Context, l netstate.Link) error {
	if l.Peer == nil {
		return errors.New("a veth needs a peer")
	}
	mac, err := net.ParseMAC(l.MAC)
	if err != nil {
		return err
	}
	peerMAC, err := net.ParseMAC(l.Peer.MAC)
	if err != nil {
		return err
	}
	ns, err := k.openNetns(ctx, l.Peer.Netns)
	if err != nil {
		return err
	}
	defer ns.Close()
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("veth"))
	peer := info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.VETH_INFO_PEER, nil)
	nl.NewIfInfomsgChild(peer, unix.AF_UNSPEC)
	peer.AddRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(l.Peer.Name))
	peer.AddRtAttr(unix.IFLA_ADDRESS, peerMAC)
	peer.AddRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(l.Peer.MTU)))
	peer.AddRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(ns.Fd())))
	err = k.do(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, nl.NewIfInfomsg(unix.AF_UNSPEC),
		nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(l.Name)),
		nl.NewRtAttr(unix.IFLA_ADDRESS, mac),
		nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(l.MTU))), info)
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("interface name %s is in use in namespace %s: %w", l.Peer.Name, l.Peer.Netns, err)
	}
	return err
}

// ChangeLink changes a link's MAC, MTU, alias and, for a bridge, attributes in place, and applies changed peer settings
// to the peer of a veth. The kernel keeps an MTU set on a bridge when ports join, but not one given at its creation.
func (k *Kernel) ChangeLink(ctx context.Context, l netstate.Link) error {
	have, err := k.linkByName(l.Name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", l.Name, err)
	}
	switch {
	case l.Type == netstate.Bridge:
		err = k.setBridge(have.Attrs().Index, l.Attrs)
	case l.Type == netstate.Veth && l.Peer != nil:
		err = k.changePeer(ctx, have, l)
	}
	if err != nil {
		return fmt.Errorf("change link %s: %w", l.Name, err)
	}
	return k.setLink(have.Attrs().Index, l)
}

func (k *Kernel) setLink(index int, l netstate.Link) error {
	mac, err := net.ParseMAC(l.MAC)
	if err != nil {
		return err
	}
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	err = k.do(unix.RTM_SETLINK, 0, msg,
		nl.NewRtAttr(unix.IFLA_ADDRESS, mac),
		nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(l.MTU))),
		nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(l.Alias)))
	if err != nil {
		return fmt.Errorf("change link %s: %w", l.Name, err)
	}
	return nil
}

// RemoveLinks removes edgespan's links and returns once the kernel reports them gone. A missing link is no error.
func (k *Kernel) RemoveLinks(ctx context.Context, names []string) error {
	return k.remove(ctx, names, "an edgespan link", func(l netlink.Link) bool {
		_, ok := linkOwner(l.Attrs().Name, l.Attrs().Alias)
		return ok
	})
}

// remove removes links that are of the kind what, as isOwn tells.
func (k *Kernel) remove(ctx context.Context, names []string, what string, isOwn func(netlink.Link) bool) error {
	var links []netlink.Link
	var errs []error
	for _, name := range names {
		l, err := k.linkByName(name)
		switch {
		case isNotFound(err):
		case err != nil:
			errs = append(errs, fmt.Errorf("find link %s: %w", name, err))
		case !isOwn(l):
			errs = append(errs, fmt.Errorf("link %q: not %s", name, what))
		default:
			links = append(links, l)
		}
	}
	return errors.Join(append(errs, k.reaper.reap(ctx, links))...)
}

// SetPort puts a link into its bridge, if it has one, and sets it up.
func (k *Kernel) SetPort(p netstate.Port) error {
	if p.Foreign {
		return k.enslave(p)
	}
	found, err := k.find(p.Link)
	if err != nil {
		return fmt.Errorf("find link %s: %w", p.Link, err)
	}
	l := indexed(found.index, p.Link)
	master := 0
	if p.Master != "" {
		m, err := k.find(p.Master)
		if err != nil {
			return fmt.Errorf("find bridge %s: %w", p.Master, err)
		}
		master = m.index
	}
	joined := found.master == master
	if !joined {
		if err := k.change(func() error { return k.h.LinkSetMasterByIndex(l, master) }); err != nil {
			return fmt.Errorf("put link %s into bridge %s: %w", p.Link, p.Master, err)
		}
	}
	if master != 0 && (p.Isolated || found.kind == netstate.VXLAN) { // before the first frame passes
		if err := k.h.LinkSetIsolated(l, p.Isolated); err != nil {
			return fmt.Errorf("set isolated %v of link %s: %w", p.Isolated, p.Link, err)
		}
	}
	if master != 0 {
		if err := k.guard(l, p, joined); err != nil {
			return err
		}
		if err := k.joinVLANs(l, p, master); err != nil {
			return err
		}
		if err := k.setStation(found, p); err != nil {
			return err
		}
	} else if err := k.leaveVLANs(l); err != nil {
		return err
	}
	if err := k.change(func() error { return k.h.LinkSetUp(l) }); err != nil {
		return fmt.Errorf("set link %s up: %w", p.Link, err)
	}
	if master != 0 && found.kind == netstate.VXLAN {
		return k.unlearn(p.Master, master)
	}
	return nil
}

// ClearPort sets a link down and releases a foreign one from its bridge. A missing link is no error.
func (k *Kernel) ClearPort(p netstate.Port) error {
	if p.Foreign {
		return k.release(p)
	}
	name := p.Link
	l, err := k.find(name)
	if isNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	if _, ok := linkOwner(name, l.alias); !ok {
		return fmt.Errorf("link %q: not an edgespan link", name)
	}
	if err := k.rest(indexed(l.index, name)); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("set link %s down: %w", name, err)
	}
	return nil
}

// rest sets a link down. A bridge port that is down is disabled and passes nothing. Removing it from the bridge would
// cost a wait of 16 ms in the kernel, and the link is deleted soon.
func (k *Kernel) rest(l netlink.Link) error { return k.h.LinkSetDown(l) }

// LinkIndex returns the kernel's index of a link, 0 if no link has this name.
func (k *Kernel) LinkIndex(name string) (int, error) {
	l, err := k.find(name)
	if isNotFound(err) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("find link %s: %w", name, err)
	}
	return l.index, nil
}

// LinkMTU returns a link's MTU, 0 if no link has this name.
func (k *Kernel) LinkMTU(name string) (int, error) {
	l, err := k.find(name)
	if isNotFound(err) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("find link %s: %w", name, err)
	}
	return l.mtu, nil
}

// linkByName returns a link with all its attributes.
func (k *Kernel) linkByName(name string) (netlink.Link, error) {
	return retry(func() (netlink.Link, error) { return k.h.LinkByName(name) })
}

func isNotFound(err error) bool {
	var none netlink.LinkNotFoundError
	return errors.As(err, &none) || errors.Is(err, unix.ENODEV)
}
