package netinst

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"edgespan/netinst/netstate"
)

// readRules reads policy rules as the kernel does: by priority, past what a rule without a target leads to. It returns
// the first of the tables with routes, 0 for none, and how many rules it has read.
func readRules(rules []netstate.Rule, src, dst netip.Addr) (table, read int) {
	rules = slices.Clone(rules)
	slices.SortStableFunc(rules, func(a, b netstate.Rule) int { return a.Priority - b.Priority })
	is := func(prefix string, a netip.Addr) bool {
		return prefix == "" || netip.MustParsePrefix(prefix).Contains(a)
	}
	for i := 0; i < len(rules); i++ {
		r := rules[i]
		read++
		if !is(r.From, src) || !is(r.To, dst) {
			continue
		}
		if r.Table != 0 {
			return r.Table, read
		}
		to := slices.IndexFunc(rules, func(t netstate.Rule) bool { return t.Priority == r.Goto })
		if r.Goto != 0 && to >= 0 {
			i = to - 1
		}
	}
	return 0, read
}

func rulesOf(s netstate.State) (out []netstate.Rule) {
	for _, id := range s.IDs() {
		if r, ok := s[id].(netstate.Rule); ok {
			out = append(out, r)
		}
	}
	return out
}

func ownRules(n HostNetwork) []netstate.Rule {
	p := n.Subnet.String()
	return []netstate.Rule{{Priority: ruleFromBase + n.Number, From: p, Table: Table(n.Number)},
		{Priority: ruleToBase + n.Number, To: p, Table: Table(n.Number)}}
}

// The tree leads to the table that all rules without it lead to, for any set of networks, at each step from one set to
// another, and also while a network has no rules of its own yet.
func TestTheTreeLeadsWhereTheRulesDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := 0
		drawn := func(label string) (ns []HostNetwork) {
			for _, bits := range rapid.SliceOfN(rapid.IntRange(8, 30), 0, 40).Draw(t, label) {
				a := binary.BigEndian.AppendUint32(nil, 10<<24|rapid.Uint32Range(0, 1<<22).Draw(t, "address"))
				p := netip.PrefixFrom(netip.AddrFrom4([4]byte(a)), max(bits, 20)).Masked()
				if !slices.ContainsFunc(ns, func(n HostNetwork) bool { return n.Subnet.Overlaps(p) }) {
					number++
					ns = append(ns, HostNetwork{Number: number, Subnet: p})
				}
			}
			return ns
		}
		stay, leave, come := drawn("stay"), drawn("leave"), drawn("come")
		var own []netstate.Rule
		for _, n := range stay {
			own = append(own, ownRules(n)...)
		}
		have := HostState(append(slices.Clone(stay), leave...))
		addrs := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.127.0.1")}
		for _, n := range stay {
			addrs = append(addrs, n.Subnet.Addr())
		}
		verify := func(tree []netstate.Rule) {
			all := slices.Concat(tree, own)
			for _, a := range addrs {
				// Not between two networks: such a packet may meet the rule of either for a moment, and is dropped.
				for _, b := range []netip.Addr{addrs[0], addrs[1], a} {
					for _, pair := range [][2]netip.Addr{{a, b}, {b, a}} {
						want, _ := readRules(own, pair[0], pair[1])
						if got, _ := readRules(all, pair[0], pair[1]); got != want {
							t.Fatalf("from %s to %s: table %d, want %d\n%v", pair[0], pair[1], got, want, all)
						}
					}
				}
			}
		}
		for _, op := range netstate.Diff(have, HostState(append(slices.Clone(stay), come...))) {
			if op.Kind != netstate.KindRule {
				continue
			}
			verify(rulesOf(have))
			if it := op.Items[0]; it.Want != nil {
				have.Add(it.Want)
			} else {
				delete(have, it.ID())
			}
		}
		verify(rulesOf(have))
	})
}

func TestTheTreeIsFlat(t *testing.T) {
	for _, c := range []struct{ networks, toApp, ofNone int }{
		{4, 8, 8}, {5, 16, 5}, {100, 21, 5}, {300, 28, 5}, {999, 46, 5},
	} {
		var ns []HostNetwork
		var rules []netstate.Rule
		for n := 1; n <= c.networks; n++ {
			ns = append(ns, HostNetwork{Number: n, Subnet: netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", n/256, n%256))})
			rules = append(rules, ownRules(ns[n-1])...)
		}
		rules = append(rules, rulesOf(HostState(ns))...)
		world, node := netip.MustParseAddr("198.51.100.9"), netip.MustParseAddr("192.0.2.10")
		highest := 0
		for _, n := range ns {
			for _, way := range [][2]netip.Addr{{n.Subnet.Addr(), world}, {world, n.Subnet.Addr()}} {
				table, read := readRules(rules, way[0], way[1])
				if highest = max(highest, read); table != Table(n.Number) {
					t.Fatalf("%d networks: from %s to %s by table %d", c.networks, way[0], way[1], table)
				}
			}
		}
		if _, read := readRules(rules, node, world); highest > c.toApp || read > c.ofNone {
			t.Errorf("%d networks: a packet of an app meets up to %d rules, of none %d; want %d and %d", c.networks, highest, read,
				c.toApp, c.ofNone)
		}
	}
}

// A prefix as long as a level of the tree is not below a branch of its own.
func TestThePathToAPrefix(t *testing.T) {
	for p, want := range map[string]int{"10.0.0.0/8": 1, "10.0.0.0/11": 2, "10.0.0.0/12": 2, "10.1.0.0/16": 4,
		"10.1.4.0/22": 7, "10.1.5.0/24": 8, "10.1.5.64/28": 9, "10.1.5.64/30": 10} {
		path := pathTo(prefix(p), treeFromBase, 20005)
		if last := path[len(path)-1]; len(path) != want || last.To != p || last.Goto != 20005 {
			t.Errorf("%s: %d rules, want %d: %+v", p, len(path), want, path)
		}
	}
}

// Up to fewAdapters, each adapter has a rule of its own, and with one more there is a tree.
func TestFewAdaptersNeedNoTree(t *testing.T) {
	for n, flat := range map[int]bool{1: true, fewAdapters: true, fewAdapters + 1: false} {
		var as []Adapter
		for i := range n {
			as = append(as, adapter(appA, i, i+1, fmt.Sprint("10.1.0.", i*8+2), "a"))
		}
		nw, _ := newNetwork(input(as...))
		links, branches := nw.toAdapters("EGR", "-i ", "", "E")
		if (len(links) == n) != flat || (len(branches) == 0) != flat {
			t.Errorf("%d adapters by their links: %q, %d branches", n, links, len(branches))
		}
		addresses, branches := nw.toAddresses("ING", "I")
		if (len(addresses) == n) != flat || (len(branches) == 0) != flat {
			t.Errorf("%d adapters by their addresses: %q, %d branches", n, addresses, len(branches))
		}
	}
}
