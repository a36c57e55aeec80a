package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// addVxlan creates one end of a tunnel. A tunnel whose remote end is unreachable, or whose number another link of the
// host uses, is an error that wraps netstate.ErrWaiting.
func (k *Kernel) addVxlan(l netstate.Link) error {
	t := l.Vxlan
	if t == nil {
		return errors.New("a tunnel needs its ends")
	}
	addrs, err := retry(func() ([]netlink.Addr, error) { return k.h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	if why := k.lost(t, addrs); why != "" {
		return fmt.Errorf("%s: %w", why, netstate.ErrWaiting)
	}
	mac, err := net.ParseMAC(l.MAC)
	if err != nil {
		return err
	}
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("vxlan"))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	data.AddRtAttr(nl.IFLA_VXLAN_ID, nl.Uint32Attr(t.VNI))
	local, remote := nl.IFLA_VXLAN_LOCAL, nl.IFLA_VXLAN_GROUP
	if t.Local.Is6() {
		local, remote = nl.IFLA_VXLAN_LOCAL6, nl.IFLA_VXLAN_GROUP6
	}
	data.AddRtAttr(local, t.Local.AsSlice())
	data.AddRtAttr(remote, t.Remote.AsSlice())
	data.AddRtAttr(nl.IFLA_VXLAN_PORT, binary.BigEndian.AppendUint16(nil, t.Port))
	// Don't learn from incoming packets where to send replies: there is only one remote end.
	data.AddRtAttr(nl.IFLA_VXLAN_LEARNING, nl.Uint8Attr(0))
	err = k.do(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, nl.NewIfInfomsg(unix.AF_UNSPEC),
		nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(l.Name)),
		nl.NewRtAttr(unix.IFLA_ADDRESS, mac),
		nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(l.MTU))), info)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("number %d on UDP port %d is taken%s: %w", t.VNI, t.Port, k.conflictingTunnel(t),
			netstate.ErrWaiting)
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("this kernel has no VXLAN (module vxlan): %w", err)
	}
	return err
}

// unlearnAgain lists the delays after which a bridge forgets stations again: the other ends of a cluster change some
// moments later, and until then a station may appear behind the old tunnel.
var unlearnAgain = []time.Duration{time.Second, 4 * time.Second, 16 * time.Second}

// unlearn makes a bridge forget behind which port it learned a station. When a tunnel is added or may no longer forward
// packets of another, the path to a station changes, and frames would take the old path and be lost until the station
// sends or five minutes pass.
func (k *Kernel) unlearn(bridge string, index int) error {
	flush := func() error {
		info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
		info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
		info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.IFLA_BR_FDB_FLUSH, nil)
		msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
		msg.Index = int32(index)
		return k.do(unix.RTM_NEWLINK, 0, msg, info)
	}
	for _, later := range unlearnAgain {
		// The bridge or this process may be gone by then, so one path must be learned again.
		time.AfterFunc(later, func() { _ = flush() })
	}
	if err := flush(); err != nil {
		return fmt.Errorf("let bridge %s forget stations: %w", bridge, err)
	}
	return nil
}

// conflictingTunnel returns the name of the host's link that uses a tunnel's number and port.
func (k *Kernel) conflictingTunnel(t *netstate.Tunnel) string {
	links, err := retry(k.h.LinkList)
	if err != nil {
		return ""
	}
	for _, l := range links {
		if v, ok := l.(*netlink.Vxlan); ok && v.VxlanId == int(t.VNI) && v.Port == int(t.Port) {
			return " by " + v.Name
		}
	}
	return ""
}

// lost returns why a tunnel's remote end is unreachable on the host now, "" if it is reachable. It considers routes of
// the host's own tables through foreign links.
func (k *Kernel) lost(t *netstate.Tunnel, addrs []netlink.Addr) string {
	held := false
	for _, a := range addrs {
		p, ok := prefix(a.IPNet)
		held = held || ok && p.Addr() == t.Local
	}
	if !held {
		return t.NoAddress()
	}
	routes, err := k.h.RouteGetWithOptions(t.Remote.AsSlice(), &netlink.RouteGetOptions{SrcAddr: t.Local.AsSlice()})
	for _, r := range routes {
		if err == nil && r.LinkIndex != 0 && (r.Type == unix.RTN_UNICAST || r.Type == unix.RTN_LOCAL) {
			return ""
		}
	}
	why := t.NoRoute()
	if err != nil && !errors.Is(err, unix.ENETUNREACH) {
		why += " (" + err.Error() + ")"
	}
	return why
}

// underlay holds the state that tunnels are compared with, and the flags of bridge ports. It is listed once per
// observation, and not at all without tunnels and spanning tree: edgespan isolates only tunnels, and guards only ports
// of bridges with spanning tree.
type underlay struct {
	k     *Kernel
	addrs []netlink.Addr
	ports map[int]portFlags // by link index
	vlans map[int][]netstate.VLANMember
	// spanning means that the network's bridge runs spanning tree.
	spanning bool
}

// portFlags are flags of a bridge port. Cut means that it is guarded and disabled while its link has a carrier.
type portFlags struct{ isolated, guarded, cut bool }

func (u *underlay) observe(ctx context.Context) (err error) {
	if u.ports != nil {
		return nil
	}
	addrs, err := u.k.addrs.Get(ctx)
	if u.addrs = addrs.all; err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	if u.ports, err = u.k.portFlags.Get(ctx); err != nil {
		return fmt.Errorf("list bridge ports: %w", err)
	}
	return nil
}

// tunnelOf returns the settings a VXLAN link was created with.
func (k *Kernel) tunnelOf(v *netlink.Vxlan, addrs []netlink.Addr) *netstate.Tunnel {
	t := &netstate.Tunnel{VNI: uint32(v.VxlanId), Local: addrOf(v.SrcAddr), Remote: addrOf(v.Group), Port: uint16(v.Port)}
	if t.Lost = k.lost(t, addrs); v.Learning {
		t.Lost = "address learning is on"
	}
	return t
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// listPortFlags returns the ports of all bridges that have a flag, by link index.
func (k *Kernel) listPortFlags() (map[int]portFlags, error) {
	return retry(func() (map[int]portFlags, error) {
		msgs, err := k.rt.request(unix.RTM_GETLINK, unix.NLM_F_DUMP, nl.NewIfInfomsg(unix.AF_BRIDGE)).
			Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
		if err != nil {
			return nil, err
		}
		found := map[int]portFlags{}
		for _, m := range msgs {
			attrs, err := nl.ParseRouteAttr(m[unix.SizeofIfInfomsg:])
			if err != nil {
				return nil, fmt.Errorf("parse bridge port: %w", err)
			}
			for _, a := range attrs {
				if a.Attr.Type&^unix.NLA_F_NESTED != unix.IFLA_PROTINFO {
					continue
				}
				msg := nl.DeserializeIfInfomsg(m)
				f := flagsOf(a.Value)
				if f.cut = f.cut && f.guarded && msg.Flags&unix.IFF_LOWER_UP != 0; f != (portFlags{}) {
					found[int(msg.Index)] = f
				}
			}
		}
		return found, nil
	})
}

func flagsOf(protinfo []byte) (f portFlags) {
	eachAttr(protinfo, func(kind uint16, value []byte) {
		on := len(value) > 0 && value[0] != 0
		switch kind {
		case nl.IFLA_BRPORT_ISOLATED:
			f.isolated = on
		case nl.IFLA_BRPORT_GUARD:
			f.guarded = on
		case nl.IFLA_BRPORT_STATE: // BR_STATE_DISABLED is 0 (linux/if_bridge.h)
			f.cut = !on
		}
	})
	return f
}
