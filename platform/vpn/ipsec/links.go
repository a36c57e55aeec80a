package ipsec

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// innerTun is how kernel-libipsec names its tun device. The device leaves charon's namespace; a link of this name
	// takes its place there, since charon makes routes to it.
	innerTun = "ipsec0"
	// outside is the link in charon's namespace that has the address by which the peer is reached.
	outside = "outside"
)

// host opens the namespace of the host.
func (t *Tunnels) host() (*netlink.Handle, netns.NsHandle, error) {
	path := t.netns
	if path == "" {
		path = "/proc/self/ns/net" // that of the main thread
	}
	return openAt(path)
}

// inner opens the namespace of a charon.
func inner(pid int) (*netlink.Handle, netns.NsHandle, error) {
	return openAt(fmt.Sprintf("/proc/%d/ns/net", pid))
}

func openAt(path string) (*netlink.Handle, netns.NsHandle, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, netns.None(), fmt.Errorf("open namespace: %w", err)
	}
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, netns.None(), errors.Join(fmt.Errorf("open netlink: %w", err), ns.Close())
	}
	if err := h.SetSocketTimeout(askTime); err != nil {
		h.Close()
		return nil, netns.None(), errors.Join(err, ns.Close())
	}
	return h, ns, nil
}

// prepareView makes the link outside, in the namespace of the calling thread.
func prepareView() error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	if lo, err := h.LinkByName("lo"); err == nil {
		_ = h.LinkSetUp(lo) // charon does without it
	}
	return addInner(h, outside)
}

// addInner makes a link that leads nowhere. A bridge is one that each kernel of a node has.
func addInner(h *netlink.Handle, name string) error {
	l := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	l.Name = name
	if err := h.LinkAdd(l); err != nil {
		return fmt.Errorf("make link %s: %w", name, err)
	}
	if err := quiet(h, l); err != nil {
		return err
	}
	return h.LinkSetUp(l)
}

// quiet keeps a link from getting addresses by itself.
func quiet(h *netlink.Handle, l netlink.Link) error {
	err := h.LinkSetIP6AddrGenMode(l, nl.IN6_ADDR_GEN_MODE_NONE)
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) { // a kernel without IPv6
		return nil
	}
	return err
}

// makeLink makes the link of a tunnel whose charon has just started. It stays down until setUp.
func (t *Tunnels) makeLink(r record) error {
	h, ns, err := t.host()
	if err != nil {
		return err
	}
	defer ns.Close()
	defer h.Close()
	if r.By == byKernel {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = r.Link
		if err := h.LinkAdd(&netlink.Xfrmi{LinkAttrs: attrs, Ifid: r.Mark}); err != nil {
			return fmt.Errorf("make link %s: %w", r.Link, err)
		}
		return nil
	}
	in, inNS, err := inner(r.Pid)
	if err != nil {
		return err
	}
	defer inNS.Close()
	defer in.Close()
	tun, err := in.LinkByName(innerTun)
	if err != nil {
		return fmt.Errorf("find the device of kernel-libipsec: %w", err)
	}
	err = errors.Join(in.LinkSetDown(tun), in.LinkSetName(tun, r.Link), in.LinkSetNsFd(tun, int(ns)))
	if err != nil {
		return fmt.Errorf("take link %s over: %w", r.Link, err)
	}
	if err := addInner(in, innerTun); err != nil {
		return err
	}
	return addLocals(in, r.Peer.Locals)
}

// addLocals gives charon addresses within the local ends of children, without which it makes no route and so no child.
func addLocals(in *netlink.Handle, locals []netip.Addr) error {
	l, err := in.LinkByName(innerTun)
	if err != nil {
		return err
	}
	for _, a := range locals {
		if err := in.AddrReplace(l, address(a)); err != nil {
			return fmt.Errorf("add address %s for charon: %w", a, err)
		}
	}
	return nil
}

func address(a netip.Addr) *netlink.Addr {
	flags := 0
	if a.Is6() {
		flags = unix.IFA_F_NODAD
	}
	return &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}, Flags: flags}
}

// setUp gives the link its MTU and alias and sets it up.
func (t *Tunnels) setUp(r record) error {
	h, ns, err := t.host()
	if err != nil {
		return err
	}
	defer ns.Close()
	defer h.Close()
	l, err := h.LinkByName(r.Link)
	if err != nil {
		return fmt.Errorf("find link %s: %w", r.Link, err)
	}
	// A router advertisement of the peer would lead the node's own IPv6 packets into the tunnel.
	err = errors.Join(quiet(h, l), proc.SetIn(t.netns, "/proc/sys/net/ipv6/conf/"+r.Link+"/accept_ra", "0"),
		h.LinkSetMTU(l, r.MTU), h.LinkSetAlias(l, netstate.VPNAlias(r.Number)), h.LinkSetUp(l))
	if err != nil {
		return fmt.Errorf("set link %s up: %w", r.Link, err)
	}
	if r.By == byProcess {
		in, inNS, err := inner(r.Pid)
		if err != nil {
			return err
		}
		defer inNS.Close()
		defer in.Close()
		return addLocals(in, r.Peer.Locals)
	}
	return nil
}

// linkState is what is observed of a link: up only if it is edgespan's.
func (t *Tunnels) linkState(r record) (mtu int, up bool) {
	h, ns, err := t.host()
	if err != nil {
		return 0, false
	}
	defer ns.Close()
	defer h.Close()
	l, err := h.LinkByName(r.Link)
	if err != nil {
		return 0, false
	}
	return l.Attrs().MTU, l.Attrs().Flags&net.FlagUp != 0 && l.Attrs().Alias == netstate.VPNAlias(r.Number)
}

// linkFree refuses a name that a foreign link has, and removes a link of an ended charon.
func (t *Tunnels) linkFree(r record) error {
	if err := t.dropKernel(r.Number, r.Link); err != nil {
		return err
	}
	name := r.Link
	// The kernel removes a tun device a moment after its process has ended.
	for end := time.Now().Add(askTime); ; time.Sleep(5 * time.Millisecond) {
		h, ns, err := t.host()
		if err != nil {
			return err
		}
		_, err = h.LinkByName(name)
		h.Close()
		_ = ns.Close() // only read
		var missing netlink.LinkNotFoundError
		switch {
		case errors.As(err, &missing):
			return nil
		case err != nil:
			return fmt.Errorf("find link %s: %w", name, err)
		case time.Now().After(end):
			return fmt.Errorf("interface name %s is in use by another link", name)
		}
	}
}

// hasLink reports whether the link of a tunnel is that of its charon, by an error.
func (t *Tunnels) hasLink(r record) error {
	if r.By == byKernel {
		h, ns, err := t.host()
		if err != nil {
			return err
		}
		defer ns.Close()
		defer h.Close()
		l, err := h.LinkByName(r.Link)
		if x, ok := l.(*netlink.Xfrmi); err == nil && ok && x.Ifid == r.Mark {
			return nil
		}
		return fmt.Errorf("link %s is missing", r.Link)
	}
	// The kernel names the device of a tun in the state of its file.
	folder := fmt.Sprintf("/proc/%d/fdinfo", r.Pid)
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(folder + "/" + f.Name())
		if err == nil && strings.Contains(string(text), "iff:\t"+r.Link+"\n") {
			return nil
		}
	}
	return fmt.Errorf("link %s is missing", r.Link)
}

// setView gives charon the address, or none, that packets to a peer leave by, as the only one that it sees.
func setView(pid int, v4, v6 netip.Addr) error {
	h, ns, err := inner(pid)
	if err != nil {
		return err
	}
	defer ns.Close()
	defer h.Close()
	l, err := h.LinkByName(outside)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		family int
		want   netip.Addr
		all    string
	}{{unix.AF_INET, v4, "0.0.0.0/0"}, {unix.AF_INET6, v6, "::/0"}} {
		have, err := h.AddrList(l, x.family)
		if err != nil {
			return err
		}
		stands := slices.ContainsFunc(have, func(a netlink.Addr) bool { return addrOf(a) == x.want })
		if x.want.IsValid() && !stands { // each change makes charon think about its path
			if err := h.AddrReplace(l, address(x.want)); err != nil {
				return fmt.Errorf("add address %s for charon: %w", x.want, err)
			}
			_, all, _ := net.ParseCIDR(x.all)
			way := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: all, Src: x.want.AsSlice(), Scope: netlink.SCOPE_LINK}
			if err := h.RouteReplace(way); err != nil {
				return fmt.Errorf("add route for charon: %w", err)
			}
		}
		for _, a := range have {
			if addrOf(a) == x.want {
				continue
			}
			if err := h.AddrDel(l, &a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
				return fmt.Errorf("remove address %s of charon: %w", a.IP, err)
			}
		}
	}
	return nil
}

func addrOf(a netlink.Addr) netip.Addr {
	ip, _ := netip.AddrFromSlice(a.IP) // the kernel's are right
	return ip.Unmap()
}

// source is the address that packets with a mark to a peer leave by.
func source(h *netlink.Handle, to netip.Addr, mark uint32) (netip.Addr, error) {
	routes, err := h.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{Mark: mark})
	if err != nil {
		return netip.Addr{}, err
	}
	for _, r := range routes {
		if a, ok := netip.AddrFromSlice(r.Src); ok && (r.Type == unix.RTN_UNICAST || r.Type == unix.RTN_LOCAL) {
			return a.Unmap(), nil
		}
	}
	return netip.Addr{}, unix.ENETUNREACH
}
