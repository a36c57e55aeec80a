package netstate

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"pgregory.net/rapid"
)

// markOf is the alias of a veth whose peer is in a namespace.
func markOf(netns string) string {
	return VethMark{NI: "x", Adapter: "a#0", Netns: netns, Peer: "eth0", MTU: 1500}.String()
}

// network draws the desired state of one network as netinst shapes it: a bridge and its host state, and adapters whose
// ports need their chains.
func network(t *rapid.T) State {
	b := func(label string) bool { return rapid.Bool().Draw(t, label) }
	n := func(label string) int { return rapid.IntRange(0, 2).Draw(t, label) }
	s := State{}
	if b("nothing") && b("really nothing") {
		return s
	}
	chain := func(name string, jumps ...Chain) Chain {
		c := Chain{Family: IPv4, Table: "filter", Name: name, Rules: []string{fmt.Sprint("rule ", n("rule of "+name))}}
		for _, j := range jumps {
			c.Rules = append(c.Rules, "-j "+j.Name)
		}
		return c
	}
	bridgeTable := Chain{Family: BridgeFamily, Name: "es1", Rules: []string{fmt.Sprint("line ", n("line"))}}
	var judges []Chain
	for k := 1; k <= 4; k++ {
		if !b(fmt.Sprint("adapter ", k)) {
			continue
		}
		if b(fmt.Sprint("foreign ", k)) {
			c := chain(fmt.Sprintf("ES1-%dE", k))
			judges = append(judges, c)
			s.Add(c, Port{Link: fmt.Sprint("vm", k), Master: "es1", Foreign: true,
				After: []ID{bridgeTable.ID(), c.ID(), {KindChain, "ipv4/filter/ES1-FWD"}}})
			continue
		}
		link, c := fmt.Sprintf("es1a%d", k), chain(fmt.Sprintf("ES1-%dE", k))
		judges = append(judges, c)
		s.Add(
			Link{Name: link, Type: Veth, MTU: 1400 + n("mtu"), Alias: markOf(fmt.Sprint(n("netns")))},
			Port{Link: link, Master: "es1", After: []ID{bridgeTable.ID(), c.ID(), {KindChain, "ipv4/filter/ES1-FWD"}}},
			File{Path: fmt.Sprintf("ni/1/conf/hosts/%d", k), Content: fmt.Sprint(n("host"))},
			c,
		)
	}
	for vni := uint32(256); vni <= 257; vni++ {
		if !b(fmt.Sprint("tunnel ", vni)) {
			continue
		}
		link := fmt.Sprint("es1v", vni)
		s.Add(
			Link{Name: link, Type: VXLAN, MTU: 1400 + n("mtu"), Vxlan: &Tunnel{VNI: vni,
				Remote: netip.AddrFrom4([4]byte{192, 0, 2, byte(n("remote"))}), Lost: lost(b("lost"))}},
			Port{Link: link, Master: "es1", Isolated: b("isolated"),
				After: []ID{bridgeTable.ID(), {KindChain, "ipv4/filter/ES1-FWD"}}},
		)
	}
	fwd := chain("ES1-FWD", judges...)
	s.Add(
		bridgeTable, fwd,
		Sysctl{Key: "net/ipv4/ip_forward", Value: "1"},
		File{Path: "ni/1/conf", Dir: true}, File{Path: "ni/1/conf/dnsmasq.conf", Content: fmt.Sprint(n("conf"))},
		Link{Name: "es1", Type: Bridge, MAC: fmt.Sprint(n("mac")), MTU: 1500 - n("bridge mtu"), Alias: "edgespan ni x"},
		Port{Link: "es1", After: []ID{fwd.ID(), bridgeTable.ID()}},
		Address{Link: "es1", Prefix: fmt.Sprintf("10.1.%d.%d/24", n("subnet"), n("gateway"))},
		Route{Table: 20001, Dst: "10.1.0.0/24", Type: Unicast, Dev: "es1"},
		Route{Table: 20001, Dst: "0.0.0.0/0", Type: Unicast, Dev: "eth0", Via: fmt.Sprint("192.0.2.", n("via"))},
		Rule{Priority: 20001, From: "10.1.0.0/24", Table: 20001 + n("table")},
		Process{
			Name: "ni/1/dnsmasq", Argv: []string{"dnsmasq"}, Digest: fmt.Sprint(n("digest")), Reload: fmt.Sprint(n("reload")),
			After: []ID{{KindPort, "es1"}},
		},
	)
	if b("port's gateway") {
		way := Route{Table: 20001, Dst: "0.0.0.0/0"}.ID()
		s.Add(Rule{Priority: 22001, OIF: fmt.Sprint("eth", n("oif")), DPort: 53, Table: 20001, After: way})
	}
	return s
}

// lost is how a tunnel is observed that leads nowhere.
func lost(ok bool) string {
	if ok {
		return "no route"
	}
	return ""
}

// damaged draws what a crash, or another process, may leave of a network: any part of it that a kernel can hold.
func damaged(t *rapid.T) State {
	s := network(t)
	for _, id := range s.IDs() {
		if rapid.IntRange(0, 3).Draw(t, "lost "+id.String()) == 0 {
			delete(s, id)
		}
	}
	for again := true; again; {
		again = false
		for id, o := range maps.Clone(s) {
			if !stands(s, o) {
				delete(s, id)
				again = true
			}
		}
	}
	return s
}

// stands reports whether a kernel could hold o together with s. A process outlives what it depends on.
func stands(s State, o Object) bool {
	if o.ID().Kind == KindProcess {
		return true
	}
	return !slices.ContainsFunc(o.Needs(), func(n ID) bool { return ours(n) && s[n] == nil })
}

// ours reports whether edgespan meets a need: a port of a foreign interface is not ours.
func ours(n ID) bool { return n.Kind != KindPort || n.Name != "eth0" }

// do applies an op to s as a kernel would: removing a link removes its port, addresses and routes, and removing a port
// its routes.
func do(s State, op Op) {
	for _, it := range op.Items {
		if it.Want != nil {
			s[it.ID()] = it.Want
			continue
		}
		id := it.ID()
		delete(s, id)
		if id.Kind == KindLink {
			delete(s, ID{KindPort, id.Name})
		}
		for k, o := range s {
			switch x := o.(type) {
			case Address:
				if id.Kind == KindLink && x.Link == id.Name {
					delete(s, k)
				}
			case Route:
				if (id.Kind == KindLink || id.Kind == KindPort) && x.Dev == id.Name {
					delete(s, k)
				}
			}
		}
	}
}
