package netinst

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"edgespan/netinst/netstate"
)

func setOf(name string, entries ...string) *AddressSet {
	var ps []netip.Prefix
	for _, e := range entries {
		ps = append(ps, prefix(e))
	}
	return NewAddressSet(name, ps)
}

// setPlan spells the ops of a plan that touch sets and chains.
func setPlan(a, b Input) string {
	var lines []string
	for _, op := range netstate.Diff(DesiredState(a).State, DesiredState(b).State) {
		if op.Kind == netstate.KindSet || op.Kind == netstate.KindChain {
			lines = append(lines, op.String())
		}
	}
	return strings.Join(lines, "\n")
}

func TestRulesThatNameASet(t *testing.T) {
	office := setOf("office", "192.0.2.0/24", "10.0.0.0/8", "2001:db8::/32")
	in := input(adapter(appA, 0, 1, "10.1.0.128", "a",
		ACLRule{Direction: Both, Action: Drop, IP: prefix("10.9.0.0/16"), Protocol: "tcp", Set: office,
			LocalPort: []PortRange{{80, 80}}},
		ACLRule{Direction: Egress, Action: Allow, Set: office}))
	s := DesiredState(in).State
	name := "es1-" + office.Digest
	if len(name) > 31 {
		t.Errorf("the kernel takes no name of %d octets", len(name))
	}
	set, _ := s[netstate.ID{Kind: netstate.KindSet, Name: name}].(netstate.Set)
	if d := cmp.Diff("ipv4\n10.0.0.0/8\n192.0.2.0/24", set.Text()); d != "" {
		t.Error(d)
	}
	for part, want := range map[string]string{
		"1E": "-d 10.9.0.0/16 -p tcp -m set --match-set NAME dst -m tcp --sport 80 -j DROP\n" +
			"-m set --match-set NAME dst -g ES1-1L\n-j DROP",
		"1I": "-s 10.9.0.0/16 -p tcp -m set --match-set NAME src -m tcp --dport 80 -j DROP\n-j DROP",
	} {
		c := s[chainID(tableFilter, "ES1-"+part)]
		if d := cmp.Diff(strings.ReplaceAll(want, "NAME", name), c.Text()); d != "" {
			t.Errorf("%s (-want +got):\n%s", part, d)
		}
		if !slices.Contains(c.Needs(), set.ID()) {
			t.Errorf("%s does not need its set", part)
		}
	}
}

// Rules of IPv6 have the same sets with the addresses of IPv6, which their chains need, also of hosts: dnsmasq adds each
// address to the sets of both families.
func TestRulesOfIPv6ThatNameASet(t *testing.T) {
	office := setOf("office", "192.0.2.0/24", "2001:db8::/32", "2001:db9::1/128")
	in := input6(adapter(appA, 0, 1, "10.1.0.128", "a", ACLRule{Direction: Egress, Action: Drop, Protocol: "tcp", Set: office},
		ACLRule{Direction: Both, Action: Allow, Host: "example.test"}))
	in.Config.DNS.Hosts = map[Hostname][]netip.Addr{"printer.example.test": {ip("2001:db8::9")}}
	s := DesiredState(in).State
	names := map[string]string{"SET": "es1-v6" + office.Digest, "HOST": hostSetName(1, "example.test", true),
		"OWN": setOf("", "2001:db8::9/128").kernelName(1, true)}
	for name, want := range map[string]string{"SET": "ipv6\n2001:db8::/32\n2001:db9::1/128",
		"HOST": "ipv6 timeout 3600 max 16384", "OWN": "ipv6\n2001:db8::9/128"} {
		set, _ := s[netstate.ID{Kind: netstate.KindSet, Name: names[name]}].(netstate.Set)
		if d := cmp.Diff(want, set.Text()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	for part, want := range map[string]string{
		"1E": "match-set SET dst meta l4proto 6 counter drop\nmatch-set HOST dst counter goto ES1-1C\n" +
			"match-set OWN dst counter goto ES1-1C\ncounter drop",
		"1I": "match-set HOST src counter goto ES1-1A\nmatch-set OWN src counter goto ES1-1A\ncounter drop",
	} {
		c, _ := s[netstate.Chain{Family: netstate.IP6Family, Table: GuardTable, Name: "ES1-" + part}.ID()].(netstate.Chain)
		for name, set := range names {
			want = strings.ReplaceAll(want, name, set)
			if strings.Contains(want, set) && !slices.Contains(c.Needs(), netstate.Set{Name: set}.ID()) {
				t.Errorf("%s does not need its set %s", part, name)
			}
		}
		if d := cmp.Diff(want, c.Text()); d != "" {
			t.Errorf("%s (-want +got):\n%s", part, d)
		}
	}
	toNode := s[netstate.Chain{Family: netstate.IP6Family, Table: GuardTable, Name: "ES1-1N"}.ID()].Text()
	if strings.Contains(toNode, names["HOST"]) || !strings.HasSuffix(toNode, "match-set "+names["SET"]+" dst meta l4proto 6 counter drop\ncounter drop") {
		t.Errorf("a host names the node: %s", toNode)
	}
	conf := s[netstate.ID{Kind: netstate.KindFile, Name: "ni/1/conf/dnsmasq.conf"}].Text()
	if want := "ipset=/example.test/" + hostSetName(1, "example.test", false) + "," + names["HOST"] + "\n"; !strings.Contains(
		conf, want) {
		t.Errorf("no %s in %s", want, conf)
	}
}

// The rules of an adapter change together with the set that they name, and no other adapter's set is touched.
func TestAChangedSetIsAnotherSet(t *testing.T) {
	rule := func(s *AddressSet) ACLRule { return ACLRule{Direction: Egress, Action: Allow, Set: s} }
	old, changed, other := setOf("s", "192.0.2.0/24"), setOf("s", "192.0.2.0/25"), setOf("t", "198.51.100.0/24")
	at := func(s *AddressSet) Input {
		return input(adapter(appA, 0, 1, "10.1.0.128", "a", rule(s)), adapter(appB, 0, 2, "10.1.0.129", "b", rule(other)))
	}
	want := "add set es1-" + changed.Digest + "\nchange chain ipv4/filter/ES1-1E\nremove set es1-" + old.Digest
	if d := cmp.Diff(want, setPlan(at(old), at(changed))); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	alone := at(old)
	alone.Adapters = alone.Adapters[1:]
	if got := setPlan(at(old), alone); !strings.HasSuffix(got, "\nremove set es1-"+old.Digest) ||
		strings.Contains(got, other.Digest) {
		t.Errorf("an app that goes takes its set and no other: %s", got)
	}
	// Adapters with the same content share a set, whatever its name is.
	same := at(old)
	same.Adapters[1].Config.Spec.ACL[0].Set = setOf("another name", "192.0.2.0/24")
	sets := 0
	for id := range DesiredState(same).State {
		if id.Kind == netstate.KindSet {
			sets++
		}
	}
	if sets != 1 {
		t.Errorf("%d sets, want 1", sets)
	}
}

func TestAFlowIsValidatedAgainstASet(t *testing.T) {
	deny := DeniesFlow(input(adapter(appA, 0, 1, "10.1.0.128", "a",
		ACLRule{Direction: Egress, Action: Allow, Protocol: "udp", Set: setOf("s", "198.51.100.0/24", "10.1.0.1/32")})))
	for dst, want := range map[string]bool{
		"198.51.100.9:80": false, "198.51.101.9:80": true,
		"10.1.0.1:80": false, // the set names the node's own address
	} {
		f := netstate.Flow{Proto: 17, Src: netip.MustParseAddrPort("10.1.0.128:4000"), Dst: netip.MustParseAddrPort(dst)}
		if got := deny(f); got != want {
			t.Errorf("%s denied: %v, want %v", dst, got, want)
		}
	}
}

func TestContains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ps []netip.Prefix
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			a := netip.AddrFrom4([4]byte{rapid.Byte().Draw(t, "a") & 3, 0, 0, rapid.Byte().Draw(t, "d") & 3})
			p, _ := a.Prefix(rapid.SampledFrom([]int{1, 7, 8, 30, 31, 32}).Draw(t, "bits"))
			ps = append(ps, p)
		}
		s := NewAddressSet("s", slices.Compact(ps))
		a := netip.AddrFrom4([4]byte{rapid.Byte().Draw(t, "of a") & 3, 0, 0, rapid.Byte().Draw(t, "of d") & 3})
		want := slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
		if got := s.Contains(a); got != want {
			t.Fatalf("%s in %v: %v", a, s.Entries, got)
		}
		if s.Contains(netip.MustParseAddr("::1")) {
			t.Fatal("an address of the other family")
		}
	})
}
