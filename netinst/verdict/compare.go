package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst"
)

// FlowClass is a class of flows that a change allows or denies: who sends them, to whom, and which.
type FlowClass struct {
	Opens     bool // they were denied; otherwise they were allowed
	From      Place
	Adapter   netinst.AdapterKey // of From App, and of To App if the sender is no app
	Port      string             // of From Outside: the label of the port by which they arrive
	To        Place
	ToAdapter netinst.AdapterKey // of an app that sends to To App
	// Mapped is the address of the node to which they are sent, of flows that a port map leads to Adapter; otherwise
	// invalid.
	Mapped netip.Addr
	// Host is the name of the remote end, of flows to a host of rules; "" for others.
	Host netinst.Hostname
	// Remote are the addresses of the end that is no app; between two apps the receiver's of IPv6, nil for IPv4. Addresses
	// to which no such flow exists, such as those of other networks, may lie in between.
	Remote []Range
	Flows  []Flow
}

// Range is a range of addresses, inclusive.
type Range struct{ First, Last netip.Addr }

// Flow are flows of one protocol: "tcp", "udp", "icmp" (ping), a number, "other" (each that no rule names) or "any".
type Flow struct {
	Proto              string
	SrcPorts, DstPorts []netinst.PortRange // nil: all
}

// maxLookups bounds how often a comparison looks at a rule: a second or two of one processor at worst.
const maxLookups = 300_000_000

// lookupsOf is the cost of an evaluation without rules.
const lookupsOf = 100

// comparison is a comparison in progress.
type comparison struct {
	before, after *World
	global        []netip.Addr       // first addresses of ranges that differ for every network
	changed       []netip.Prefix     // that only one world has among its subnets, gateways and own addresses
	left          int                // lookups
	six           bool               // the flows compared now are of IPv6
	to            netinst.AdapterKey // if set, a packet is allowed that reaches this adapter
	cost          int                // of an evaluation of the current adapter, in lookups
	classes       []FlowClass
}

// Compare returns the classes of flows between apps and others that only one of two worlds allows. They follow from
// both worlds' answers for one packet of each region in which neither can tell packets apart: the space of addresses
// and ports is split where rules, routes and networks begin and end. Not compared are the ports of DHCP that apps send
// to, which rules do not decide about, broadcasts, and kinds of ICMP other than ping. complete is false if that was too
// much, and classes are missing.
func Compare(before, after *World) (classes []FlowClass, complete bool) {
	c := &comparison{before: before, after: after, left: maxLookups}
	c.global = slices.Concat(before.edges(), after.edges())
	c.changed = append(changedPrefixes(before, after), changedMaps(before, after)...)
	keys := maps.Clone(before.members)
	maps.Copy(keys, after.members)
	order := slices.SortedFunc(maps.Keys(keys), func(a, b netinst.AdapterKey) int {
		return cmp.Or(cmp.Compare(a.AppUUID.String(), b.AppUUID.String()), cmp.Compare(a.Index, b.Index))
	})
	for _, key := range order {
		same := sameNetwork(before.members[key], after.members[key])
		if same && len(c.changed) == 0 {
			continue
		}
		c.six = false
		c.compareAdapter(key, same)
		if c.six = c.hasIPv6(key); c.six {
			c.compareAdapter(key, same)
		}
		if c.left <= 0 {
			return c.classes, false
		}
	}
	return c.classes, true
}

// compareAdapter compares the flows from and to one adapter; same says that nothing of its network changed.
func (c *comparison) compareAdapter(key netinst.AdapterKey, same bool) {
	c.cost = lookupsOf
	for _, w := range []*World{c.before, c.after} {
		if n := w.members[key]; n != nil && n.byKey[key] != nil {
			c.cost += costOf(n.byKey[key].Config.Spec.ACL)
		}
	}
	ranges := c.ranges(key, same)
	c.collect(ranges, FlowClass{From: App, Adapter: key}, func(a netip.Addr) (x, y Packet) {
		return Packet{From: App, Adapter: key, Src: c.address(c.before, key), Dst: a},
			Packet{From: App, Adapter: key, Src: c.address(c.after, key), Dst: a}
	})
	to := func(from Place, port string) func(a netip.Addr) (x, y Packet) {
		p := Packet{From: from, Port: port}
		if from == Node || c.mayOverlap(key) {
			p.Adapter = key
		}
		return func(a netip.Addr) (x, y Packet) {
			x, y = p, p
			x.Src, y.Src = a, a
			x.Dst, y.Dst = c.address(c.before, key), c.address(c.after, key)
			return x, y
		}
	}
	for _, label := range c.portsOf(key) {
		c.collect(ranges, FlowClass{From: Outside, Port: label, Adapter: key, To: App}, to(Outside, label))
	}
	if !c.six {
		c.compareMaps(key, ranges)
	}
	if !same && !c.six {
		c.compareNames(key)
	}
	var own []span
	for _, a := range c.nodeAddresses(key) {
		own = append(own, span{Range: Range{a, a}})
	}
	c.collect(own, FlowClass{From: Node, Adapter: key, To: App}, to(Node, ""))
}

// compareMaps compares the flows from outside that port maps lead to an adapter.
func (c *comparison) compareMaps(key netinst.AdapterKey, ranges []span) {
	c.to = key
	defer func() { c.to = netinst.AdapterKey{} }()
	var done []portMap
	for _, w := range []*World{c.before, c.after} {
		for _, m := range w.mapsTo(key) {
			if slices.ContainsFunc(done, func(o portMap) bool { return o.port == m.port && o.addr == m.addr }) {
				continue
			}
			done = append(done, m)
			who := FlowClass{From: Outside, Port: m.port, Adapter: key, To: App, Mapped: m.addr}
			c.collect(ranges, who, func(a netip.Addr) (x, y Packet) {
				p := Packet{From: Outside, Port: m.port, Src: a, Dst: m.addr}
				return p, p
			})
		}
	}
}

// costOf is the cost of looking at rules: a set is a tree.
func costOf(acl []netinst.ACLRule) (cost int) {
	for _, r := range acl {
		if cost++; r.Set != nil {
			cost += 30
		}
	}
	return cost
}

// all are the addresses of the version of IP that is compared now.
func (c *comparison) all() netip.Prefix {
	if c.six {
		return anywhere6
	}
	return anywhere
}

// hasIPv6 reports whether an adapter has IPv6 in either world.
func (c *comparison) hasIPv6(key netinst.AdapterKey) bool {
	return c.before.Address6Of(key).IsValid() || c.after.Address6Of(key).IsValid()
}

// mayOverlap reports whether an adapter's address may be that of others in either world.
func (c *comparison) mayOverlap(key netinst.AdapterKey) bool {
	a, b := c.before.members[key], c.after.members[key]
	return a != nil && a.mayOverlap() || b != nil && b.mayOverlap()
}

// address is that of an adapter in a world, of the version that is compared now.
func (c *comparison) address(w *World, key netinst.AdapterKey) netip.Addr {
	if c.six {
		return w.Address6Of(key)
	}
	return w.AddressOf(key)
}

// portsOf returns the labels of the ports that an adapter's network uses in either world.
func (c *comparison) portsOf(key netinst.AdapterKey) []string {
	labels := map[string]bool{}
	for _, w := range []*World{c.before, c.after} {
		if n := w.members[key]; n != nil {
			maps.Copy(labels, n.usesFor(c.address(w, key)))
		}
	}
	return slices.Sorted(maps.Keys(labels))
}

// nodeAddresses returns the addresses from which the node may send to an adapter: the gateway's and the ports'.
func (c *comparison) nodeAddresses(key netinst.AdapterKey) []netip.Addr {
	own := map[netip.Addr]bool{}
	for _, w := range []*World{c.before, c.after} {
		n := w.members[key]
		if n == nil || n.isSwitch() {
			continue
		}
		own[n.Config.IPv4.Gateway], own[n.Config.IPv6.Gateway] = true, true
		for _, p := range w.ports {
			for _, a := range p.Addresses {
				own[a.Addr()] = true
			}
		}
	}
	maps.DeleteFunc(own, func(a netip.Addr, _ bool) bool {
		return !a.IsValid() || a.Is6() != c.six || a.IsLinkLocalUnicast()
	})
	return slices.SortedFunc(maps.Keys(own), netip.Addr.Compare)
}

// span is a range of remote addresses that no world tells apart, and the flows with it that change.
type span struct {
	Range

	same   bool // no flow with it changes
	to     Place
	app    netinst.AdapterKey
	opens  []Flow
	closes []Flow
}

// collect compares the packets of each range, and adds the classes of those that change.
func (c *comparison) collect(ranges []span, who FlowClass, packets func(netip.Addr) (x, y Packet)) {
	for i := range ranges {
		s := &ranges[i]
		x, y := packets(s.First)
		s.opens, s.closes = nil, nil
		s.to, s.app = who.To, netinst.AdapterKey{}
		switch {
		case who.To == "":
			s.to, s.app = c.destination(y)
		case who.From == Outside && c.before.forgedFor(who.Adapter, x.Src) && c.after.forgedFor(who.Adapter, y.Src):
			s.to = ""
		}
		if s.same || s.to == Segment || !x.Dst.IsValid() && !y.Dst.IsValid() {
			continue
		}
		s.opens, s.closes = c.cells(x, y)
	}
	for _, opens := range []bool{true, false} {
		c.merge(ranges, who, opens)
	}
}

// merge joins ranges with the same flows into classes. Ranges between two of them where no packet of this kind can go
// do not separate them.
func (c *comparison) merge(ranges []span, who FlowClass, opens bool) {
	at := map[string]int{} // the class of a kind of flows
	latest := map[string]int{}
	for i, s := range ranges {
		flows := s.closes
		if opens {
			flows = s.opens
		}
		if len(flows) == 0 {
			continue
		}
		id := fmt.Sprint(s.to, s.app, flows)
		k, known := at[id]
		if !known {
			x := who
			x.Opens, x.To, x.Flows, x.ToAdapter = opens, s.to, flows, s.app
			k = len(c.classes)
			at[id], c.classes = k, append(c.classes, x)
		}
		x := &c.classes[k]
		open := s.to == Outside || who.From == Outside // the end that is no app may have any address
		switch {
		case x.From == App && x.To == App && s.app != (netinst.AdapterKey{}) && !c.six:
		case known && !others(ranges[latest[id]+1:i], s.to):
			x.Remote[len(x.Remote)-1].Last = s.Last
		default:
			x.Remote = append(x.Remote, s.Range)
			if r := &x.Remote[len(x.Remote)-1]; open && !others(ranges[:i], s.to) {
				r.First = c.all().Addr()
			}
		}
		latest[id] = i
		if n := len(x.Remote); n > 0 && open && !others(ranges[i+1:], s.to) {
			x.Remote[n-1].Last = last(c.all())
		}
	}
}

// others reports whether flows of a kind exist with one of these ranges.
func others(ranges []span, to Place) bool {
	return slices.ContainsFunc(ranges, func(b span) bool { return b.to == to })
}

// destination says where packets of an app to an address go, whatever the rules say: by the world after the change, or
// before it if the app is gone.
func (c *comparison) destination(p Packet) (Place, netinst.AdapterKey) {
	for _, w := range []*World{c.after, c.before} {
		n := w.members[p.Adapter]
		if n == nil || n.byKey[p.Adapter] == nil {
			continue
		}
		if to, app := n.destination(p.Dst); to != "" {
			return to, app
		}
	}
	return "", netinst.AdapterKey{}
}

func (n *network) destination(a netip.Addr) (Place, netinst.AdapterKey) {
	subnet := n.Config.IPv4.Subnet
	if a.Is6() {
		subnet = n.Config.IPv6.Subnet
	}
	switch {
	case a.Is6() && (!n.passes6() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast()):
		return "", netinst.AdapterKey{} // rules do not decide about them
	case a == everybody || a.IsMulticast() || !n.isSwitch() && a.Is4() && a == last(subnet):
		return Segment, netinst.AdapterKey{}
	case n.byIP[a] != nil:
		return App, n.byIP[a].Config.Key()
	case n.isSwitch():
		return Outside, netinst.AdapterKey{}
	case a == n.Config.IPv4.Gateway || n.world.isNode(a):
		return Node, netinst.AdapterKey{}
	case subnet.Contains(a) || a.IsLoopback() || zeroNet.Contains(a):
		return "", netinst.AdapterKey{}
	}
	r := n.wayTo(a)
	switch {
	case r != nil && r.port == nil && n.byIP[r.Gateway] != nil:
		return App, netinst.AdapterKey{} // through an app that routes
	case r != nil && r.port != nil && n.world.subnetOf(a) == nil:
		return Outside, netinst.AdapterKey{}
	}
	return "", netinst.AdapterKey{}
}

// String is the range as a prefix if it is one, "anywhere" if it is all, else "first-last".
func (r Range) String() string {
	for bits := range r.First.BitLen() + 1 {
		if p := netip.PrefixFrom(r.First, bits); p.Masked().Addr() == r.First && last(p) == r.Last {
			switch {
			case bits == 0 && p.Addr().Is6():
				return "anywhere (IPv6)"
			case bits == 0:
				return "anywhere"
			case p.IsSingleIP():
				return r.First.String()
			}
			return p.String()
		}
	}
	return r.First.String() + "-" + r.Last.String()
}

// String is as "tcp 80,443-445 from 1024-65535", without the ports that are all.
func (f Flow) String() string {
	text := f.Proto
	if f.DstPorts != nil {
		text += " " + portsText(f.DstPorts)
	}
	if f.SrcPorts != nil {
		text += " from " + portsText(f.SrcPorts)
	}
	return text
}

func portsText(list []netinst.PortRange) string {
	var words []string
	for _, r := range list {
		word := fmt.Sprint(r.First)
		if r.Last != r.First {
			word += fmt.Sprintf("-%d", r.Last)
		}
		words = append(words, word)
	}
	return strings.Join(words, ",")
}
