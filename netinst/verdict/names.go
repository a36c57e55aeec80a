package verdict

import (
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst"
)

// Which addresses a host has is up to DNS, so a rule with a host decides surely only about a packet whose sender has
// looked up a name (Packet.Name), and about addresses that the network's DNS server gives by itself: static ones, and
// those of apps. Of other packets the answer says on which rules it depends.

// under reports whether a name is a host or below it.
func under(name, host netinst.Hostname) bool {
	return name == host || strings.HasSuffix(string(name), "."+string(host))
}

// hostOf reports whether a rule's host has a remote end; known is false if that depends on DNS.
func (n *network) hostOf(r *netinst.ACLRule, e ends) (has, known bool) {
	switch {
	case r.Host == "":
		return true, true
	case n.isSwitch():
		return false, true
	case e.name != "" && under(e.name, r.Host), n.givesHost(r.Host, e.remote):
		return true, true
	}
	return false, e.name != ""
}

// givesHost reports whether the network's DNS server gives an address for a host by itself.
func (n *network) givesHost(host netinst.Hostname, a netip.Addr) bool {
	in := func(name netinst.Hostname) bool {
		domain := n.Config.DNS.Domain
		return under(name, host) || domain != "" && under(name+"."+netinst.Hostname(domain), host)
	}
	for name, addrs := range n.Config.DNS.Hosts {
		if in(name) && slices.Contains(addrs, a) {
			return true
		}
	}
	x := n.byIP[a]
	return x != nil && x.Config.Spec.Hostname != "" && in(x.Config.Spec.Hostname)
}

// staticAddresses are the addresses of the network's static names.
func (n *network) staticAddresses() (list []netip.Prefix) {
	for _, addrs := range n.Config.DNS.Hosts {
		for _, a := range addrs {
			list = append(list, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return list
}

// namesHost reports whether a rule of an adapter is for a host that has a name.
func (n *network) namesHost(key netinst.AdapterKey, name netinst.Hostname) bool {
	a := n.byKey[key]
	return a != nil && slices.ContainsFunc(a.Config.Spec.ACL, func(r netinst.ACLRule) bool {
		return r.Host != "" && r.Direction != netinst.Ingress && under(name, r.Host)
	})
}

// toName answers for an IPv4 packet of an app to a name of which nothing else is known: it takes the default route, and
// rules that name addresses may match it.
func (w *World) toName(p Packet) Answer {
	n := w.members[p.Adapter]
	if n == nil || n.byKey[p.Adapter] == nil {
		return deny(NotActive)
	}
	i := slices.IndexFunc(n.routes, func(r way) bool { return r.Destination == anywhere && r.port != nil })
	switch {
	case n.withdrawn:
		return deny(WithdrawnSubnet)
	case i < 0:
		return deny(NoRoute)
	}
	r := &n.routes[i]
	p.Src = w.AddressOf(p.Adapter)
	out := n.decide(n.byKey[p.Adapter], netinst.Egress, p.outgoing(r.port, false))
	if !out.Allows {
		x := denied(out)
		x.Route = &r.Route
		return x
	}
	return n.leaves(r, p, out)
}

// compareNames compares what an adapter sends to the names of its rules' hosts.
func (c *comparison) compareNames(key netinst.AdapterKey) {
	var hosts []netinst.Hostname
	for _, w := range []*World{c.before, c.after} {
		if n := w.members[key]; n != nil && n.byKey[key] != nil {
			for _, r := range n.byKey[key].Config.Spec.ACL {
				if r.Host != "" {
					hosts = append(hosts, r.Host)
				}
			}
		}
	}
	slices.Sort(hosts)
	for _, h := range slices.Compact(hosts) {
		x, y := Packet{From: App, Adapter: key, Name: h}, Packet{From: App, Adapter: key, Name: h}
		x.Src, y.Src = c.before.AddressOf(key), c.after.AddressOf(key)
		opens, closes := c.cells(x, y)
		if len(opens) > 0 {
			c.classes = append(c.classes, FlowClass{Opens: true, From: App, Adapter: key, To: Outside, Host: h, Flows: opens})
		}
		if len(closes) > 0 {
			c.classes = append(c.classes, FlowClass{From: App, Adapter: key, To: Outside, Host: h, Flows: closes})
		}
	}
}
