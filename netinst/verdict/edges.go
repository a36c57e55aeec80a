package verdict

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"edgespan/netinst"
)

// special are the ranges of IPv4 that are treated apart whatever the config: "this network", loopback, multicast and
// what follows.
var special = []netip.Prefix{
	zeroNet, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("224.0.0.0/4"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.PrefixFrom(everybody, 32),
}

// special6 are those of IPv6: the unspecified address, loopback, link-local and multicast.
var special6 = []netip.Prefix{netip.MustParsePrefix("::/128"), netip.MustParsePrefix("::1/128"),
	netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8")}

// prefixes returns the subnets, gateways and own addresses of a world, with the broadcast addresses.
func (w *World) prefixes() (list []netip.Prefix) {
	one := func(a netip.Addr) {
		list = append(list, netip.PrefixFrom(a, a.BitLen()))
	}
	for _, subnets := range []map[netip.Prefix]*network{w.subnets, w.shared} {
		for p := range subnets {
			list = append(list, p)
			if p.Addr().Is4() {
				one(last(p))
			}
		}
	}
	for a := range w.gateways {
		one(a)
	}
	for a := range w.own {
		one(a)
	}
	for _, p := range w.ports {
		for _, own := range addresses(p) {
			one(last(own))
		}
	}
	return list
}

// edges returns the first addresses of ranges that a world treats apart for every network.
func (w *World) edges() []netip.Addr { return edgesOf(slices.Concat(w.prefixes(), special, special6)) }

// edgesOf returns the first address of each prefix, and the first one after it.
func edgesOf(prefixes []netip.Prefix) (list []netip.Addr) {
	for _, p := range prefixes {
		list = append(list, p.Masked().Addr())
		if next := last(p).Next(); next.IsValid() {
			list = append(list, next)
		}
	}
	return list
}

// changedPrefixes returns what only one of two worlds has.
func changedPrefixes(a, b *World) (list []netip.Prefix) {
	has := map[netip.Prefix]int{}
	for i, w := range []*World{a, b} {
		for _, p := range w.prefixes() {
			has[p] |= 1 << i
		}
	}
	for p, in := range has {
		if in != 3 {
			list = append(list, p)
		}
	}
	return list
}

// ranges splits the addresses with which an adapter may have flows where rules, routes and networks of either world
// begin and end. Same says that nothing of its network changed.
func (c *comparison) ranges(key netinst.AdapterKey, same bool) []span {
	starts := slices.Clone(c.global)
	starts = append(starts, c.all().Addr())
	for _, w := range []*World{c.before, c.after} {
		if n := w.members[key]; n != nil {
			starts = append(starts, edgesOf(n.prefixesOf(key))...)
		}
	}
	starts = slices.DeleteFunc(starts, func(a netip.Addr) bool { return a.Is6() != c.six })
	slices.SortFunc(starts, netip.Addr.Compare)
	starts = slices.Compact(starts)
	var list []span
	for i, first := range starts {
		s := span{Range: Range{First: first, Last: last(c.all())}}
		if i+1 < len(starts) {
			s.Last = starts[i+1].Prev()
		}
		s.same = same && !slices.ContainsFunc(c.changed, func(p netip.Prefix) bool { return p.Contains(first) })
		list = append(list, s)
	}
	return list
}

// prefixesOf returns what an adapter's rules and its network's routes name, and the adapters' addresses.
func (n *network) prefixesOf(key netinst.AdapterKey) (list []netip.Prefix) {
	if a := n.byKey[key]; a != nil {
		for _, r := range a.Config.Spec.ACL {
			if r.IP.IsValid() {
				list = append(list, r.IP.Masked())
			}
			if r.Set != nil {
				list = append(list, r.Set.Entries...)
			}
		}
	}
	list = append(list, n.staticAddresses()...)
	for _, r := range n.routes {
		list = append(list, r.Destination)
	}
	for a := range n.byIP {
		if a.IsValid() {
			list = append(list, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return list
}

// sameNetwork reports whether a network treats packets alike in two worlds, apart from what concerns all networks.
func sameNetwork(a, b *network) bool {
	if a == nil || b == nil {
		return false
	}
	switch x, y := a.Config, b.Config; {
	case !reflect.DeepEqual(x.DNS.Hosts, y.DNS.Hosts) || x.DNS.Domain != y.DNS.Domain,
		x.Type != y.Type || x.IPv4 != y.IPv4 || x.IPv6 != y.IPv6 || a.hasIPv6 != b.hasIPv6,
		x.SpoofGuard != y.SpoofGuard || a.withdrawn != b.withdrawn,
		len(a.routes) != len(b.routes), len(a.byKey) != len(b.byKey), !reflect.DeepEqual(a.uses, b.uses),
		!reflect.DeepEqual(a.uses6, b.uses6):
		return false
	}
	for i, r := range a.routes {
		if !reflect.DeepEqual(r.Route, b.routes[i].Route) {
			return false
		}
	}
	for _, label := range slices.Concat(slices.Collect(maps.Keys(a.uses)), slices.Collect(maps.Keys(a.uses6))) {
		p, q := *a.world.ports[label], *b.world.ports[label]
		p.Generation, q.Generation = 0, 0
		if !reflect.DeepEqual(p, q) {
			return false
		}
	}
	for key, x := range a.byKey {
		y := b.byKey[key]
		if y == nil || x.Lease.IP != y.Lease.IP || x.Config.Spec.Hostname != y.Config.Spec.Hostname ||
			a.passes6() && a.address6Of(x) != b.address6Of(y) ||
			x.Config.Spec.DHCPServer != y.Config.Spec.DHCPServer || x.Config.Spec.Observe != y.Config.Spec.Observe ||
			!slices.Equal(x.ObservedAddresses, y.ObservedAddresses) ||
			!reflect.DeepEqual(x.Config.Spec.ACL, y.Config.Spec.ACL) {
			return false
		}
	}
	return true
}
