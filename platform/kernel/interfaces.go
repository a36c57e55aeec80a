package kernel

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Interfaces lists the foreign interfaces, that is, all except edgespan's links, by name.
func (k *Kernel) Interfaces() ([]netstate.Interface, error) {
	links, err := whileUnchanged(k, k.h.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	addrs, err := whileUnchanged(k, func() ([]netlink.Addr, error) { return k.h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	routes, err := k.listRoutes(unix.AF_UNSPEC, 0, unix.RT_TABLE_MAIN)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	defaults, others := defaultsByLink(routes), routesByLink(routes)
	list := []netstate.Interface{} // never nil: nil means unchanged
	for _, l := range links {
		a := l.Attrs()
		if _, own := linkOwner(a.Name, a.Alias); own || !isForeign(a.Name) && a.Name != netstate.Loopback {
			continue
		}
		i := netstate.Interface{
			Name: a.Name, Index: a.Index, MTU: a.MTU, DefaultRoutes: defaults[a.Index],
			Up:           a.Flags&net.FlagUp != 0 && a.RawFlags&unix.IFF_LOWER_UP != 0,
			PointToPoint: a.RawFlags&(unix.IFF_POINTOPOINT|unix.IFF_NOARP) != 0,
		}
		for _, r := range others[a.Index] {
			i.Routes = append(i.Routes, netstate.HostRoute{Dst: r.dst, Dev: a.Name, Via: r.gw})
		}
		for _, ad := range addrs {
			if p, ok := prefix(ad.IPNet); ok && ad.LinkIndex == a.Index {
				i.Addresses = append(i.Addresses, p)
			}
		}
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b netstate.Interface) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Addresses returns every address of the host, including those of edgespan's links, or none if they can't be listed.
func (k *Kernel) Addresses() map[netip.Addr]bool {
	addrs, _ := retry(func() ([]netlink.Addr, error) { return k.h.AddrList(nil, netlink.FAMILY_ALL) })
	own := map[netip.Addr]bool{}
	for _, a := range addrs {
		if p, ok := prefix(a.IPNet); ok {
			own[p.Addr()] = true
		}
	}
	return own
}

func isForeign(name string) bool {
	_, own := LinkNumber(name)
	return !own && name != "lo" && !strings.HasPrefix(name, doomedPrefix)
}

// defaultsByLink returns the default routes by link index, best metric first. It leaves out routes that the kernel has
// disabled because their link is gone or down.
func defaultsByLink(routes []route) map[int][]netstate.DefaultRoute {
	routes = slices.Clone(routes)
	slices.SortStableFunc(routes, func(a, b route) int { return cmp.Compare(a.metric, b.metric) })
	by := map[int][]netstate.DefaultRoute{}
	for _, r := range routes {
		if r.dst.Bits() != 0 || r.kind != unix.RTN_UNICAST {
			continue
		}
		hops := r.more
		if len(hops) == 0 {
			hops = []nexthop{{r.oif, r.gw, r.flags}}
		}
		for _, hop := range hops {
			d := netstate.DefaultRoute{
				IPv6: r.dst.Addr().Is6(), Gateway: hop.gw, OnLink: hop.flags&unix.RTNH_F_ONLINK != 0, Metric: r.metric,
			}
			same := func(o netstate.DefaultRoute) bool { return o.IPv6 == d.IPv6 && o.Gateway == d.Gateway }
			if hop.flags&unix.RTNH_F_DEAD == 0 && !slices.ContainsFunc(by[hop.oif], same) {
				by[hop.oif] = append(by[hop.oif], d)
			}
		}
	}
	return by
}

// routesByLink returns the IPv4 unicast routes by link index without default routes, at most netstate.MaxHostRoutes.
// Routes without a gateway come first; a host has few of them.
func routesByLink(routes []route) map[int][]route {
	var found []route
	for _, r := range routes {
		if r.family != unix.AF_INET || r.kind != unix.RTN_UNICAST || r.dst.Bits() == 0 {
			continue
		}
		for _, hop := range r.more {
			found = append(found, route{dst: r.dst, gw: hop.gw, oif: hop.oif})
		}
		if len(r.more) == 0 {
			found = append(found, route{dst: r.dst, gw: r.gw, oif: r.oif})
		}
	}
	slices.SortFunc(found, func(a, b route) int {
		if a.gw.IsValid() != b.gw.IsValid() {
			return a.gw.Compare(b.gw) // the zero address sorts first
		}
		return cmp.Or(a.dst.Addr().Compare(b.dst.Addr()), cmp.Compare(a.dst.Bits(), b.dst.Bits()), cmp.Compare(a.oif, b.oif),
			a.gw.Compare(b.gw))
	})
	by := map[int][]route{}
	for _, r := range found[:min(len(found), netstate.MaxHostRoutes)] {
		by[r.oif] = append(by[r.oif], r)
	}
	return by
}
