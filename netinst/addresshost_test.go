package netinst

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edgespan/netinst/netstate"
)

func allowHost(h Hostname) ACLRule { return ACLRule{Direction: Egress, Action: Allow, Host: h} }

func TestRulesThatNameAHost(t *testing.T) {
	in := input(adapter(appA, 0, 1, "10.1.0.128", "a", allowHost("example.test"),
		ACLRule{Direction: Both, Action: Drop, Host: "deep.example.test", Protocol: "tcp", Ports: []PortRange{{443, 443}}}))
	in.Config.DNS.Hosts = map[Hostname][]netip.Addr{"printer.example.test": {ip("192.0.2.7"), ip("10.1.0.1")},
		"notexample.test": {ip("192.0.2.8")}}
	s := DesiredState(in).State
	all, deep := hostSetName(1, "example.test", false), hostSetName(1, "deep.example.test", false)
	own := setOf("", "192.0.2.7/32").kernelName(1, false)
	if len(hostSetName(999, Hostname(strings.Repeat("a.", 120)+"test"), true)) > 31 {
		t.Error("the kernel takes no name so long")
	}
	for name, want := range map[string]string{all: "ipv4 timeout 3600 max 16384", deep: "ipv4 timeout 3600 max 16384",
		own: "ipv4\n192.0.2.7/32"} {
		if set, _ := s[netstate.ID{Kind: netstate.KindSet, Name: name}].(netstate.Set); set.Text() != want {
			t.Errorf("%s: %s, want %s", name, set.Text(), want)
		}
	}
	words := strings.NewReplacer("ALL", all, "DEEP", deep, "OWN", own)
	for part, want := range map[string]string{
		"1E": "-m set --match-set ALL dst -g ES1-1L\n-m set --match-set OWN dst -g ES1-1L\n" +
			"-p tcp -m set --match-set DEEP dst -m tcp --dport 443 -j DROP\n-j DROP",
		"1I": "-p tcp -m set --match-set DEEP src -m tcp --sport 443 -j DROP\n-j DROP",
	} {
		if d := cmp.Diff(words.Replace(want), s[chainID(tableFilter, "ES1-"+part)].Text()); d != "" {
			t.Errorf("%s (-want +got):\n%s", part, d)
		}
	}
	// The node's own addresses need a rule that names them.
	if n := s[chainID(tableFilter, "ES1-1N")].Text(); strings.Contains(n, all) || !strings.Contains(n, deep) {
		t.Errorf("toward the node:\n%s", n)
	}
	conf := s[netstate.ID{Kind: netstate.KindFile, Name: "ni/1/conf/dnsmasq.conf"}].Text()
	want := words.Replace("max-ttl=1800\nipset=/deep.example.test/DEEP,ALL\nipset=/example.test/ALL\n")
	if !strings.HasSuffix(conf, want) || !strings.Contains(conf, "\ncache-size=0\n") {
		t.Errorf("dnsmasq.conf ends without\n%s:\n%s", want, conf)
	}
	process := s[netstate.ID{Kind: netstate.KindProcess, Name: "ni/1/dnsmasq"}].(netstate.Process)
	if !slices.Contains(process.After, netstate.ID{Kind: netstate.KindSet, Name: all}) {
		t.Error("dnsmasq does not need the set that it fills")
	}
	if sets := switchInput(in.Adapters...); strings.Contains(DesiredState(sets).State.String(), "match-set") {
		t.Error("a rule of a switch network matches a set that is never filled")
	}
}

// An app with a rule for a new host gets no answer that fills no set; and without new sets, dnsmasq is replaced last.
func TestDnsmasqFillsASetBeforeItsClientComes(t *testing.T) {
	a := adapter(appA, 0, 1, "10.1.0.128", "a", allowHost("a.test"))
	b := adapter(appB, 0, 2, "10.1.0.129", "b", allowHost("b.test"))
	for name, c := range map[string]struct {
		from, to Input
		want     []string
	}{
		"another app comes": {input(a), input(a, b), []string{"add set " + hostSetName(1, "b.test", false), "change chain",
			"change process ni/1/dnsmasq", "add port es1a2"}},
		"one for another": {input(a), input(b), []string{"add set " + hostSetName(1, "b.test", false), "change chain",
			"change process ni/1/dnsmasq", "add port es1a2", "remove port es1a1", "remove file ni/1/conf/hosts/a",
			"reload process ni/1/dnsmasq", "remove set " + hostSetName(1, "a.test", false)}},
		"it goes": {input(a, b), input(a), []string{"remove port es1a2", "change process ni/1/dnsmasq",
			"remove set " + hostSetName(1, "b.test", false)}},
	} {
		at := 0
		plan := netstate.Diff(DesiredState(c.from).State, DesiredState(c.to).State)
		for _, op := range plan {
			if at < len(c.want) && strings.HasPrefix(op.String(), c.want[at]) {
				at++
			}
		}
		if at < len(c.want) {
			t.Errorf("%s: no %q in its place in %v", name, c.want[at], plan)
		}
	}
}

func TestTheNamesOfOtherAppsChangeNoSetOfAHost(t *testing.T) {
	rule := allowHost("example.test")
	from := input(adapter(appA, 0, 1, "10.1.0.128", "a", rule))
	to := input(adapter(appA, 0, 1, "10.1.0.128", "a", rule), adapter(appB, 0, 2, "10.1.0.129", "b", allowHost("b.test")))
	set := netstate.ID{Kind: netstate.KindSet, Name: hostSetName(1, "example.test", false)}
	for _, op := range netstate.Diff(DesiredState(from).State, DesiredState(to).State) {
		for _, it := range op.Items {
			if it.ID() == set || it.ID() == chainID(tableFilter, "ES1-1E") {
				t.Errorf("%s", op)
			}
		}
	}
}

// A flow by a host's rule stays while its adapter's rules are as they were, although its address may have left the set.
// When they change, what the set holds counts.
func TestAFlowIsValidatedAgainstAHost(t *testing.T) {
	in := input(adapter(appA, 0, 1, "10.1.0.128", "a",
		ACLRule{Direction: Egress, Action: Drop, Protocol: "tcp", Host: "bad.test"},
		ACLRule{Direction: Egress, Action: Allow, Protocol: "tcp", Host: "good.test"}))
	changed := map[netstate.ID]bool{chainID(tableFilter, "ES1-1E"): true}
	in.Observed = netstate.NewState(
		netstate.Set{Name: hostSetName(1, "bad.test", false), Timeout: 1, Members: []netip.Addr{ip("198.51.100.1")}},
		netstate.Set{Name: hostSetName(1, "good.test", false), Timeout: 1, Members: []netip.Addr{ip("198.51.100.1"),
			ip("198.51.100.2")}})
	for _, c := range []struct {
		dst    string
		denied bool
	}{{"198.51.100.1:80", true}, {"198.51.100.2:80", false}, {"198.51.100.3:80", true}} {
		f := netstate.Flow{Proto: protoTCP, Src: netip.MustParseAddrPort("10.1.0.128:4000"),
			Dst: netip.MustParseAddrPort(c.dst)}
		in.Changed = changed
		if got := DeniesFlow(in)(f); got != c.denied {
			t.Errorf("%s with changed rules: denied %v", c.dst, got)
		}
		in.Changed = nil
		if DeniesFlow(in)(f) {
			t.Errorf("%s is denied although no rule changed", c.dst)
		}
		f.Proto = protoUDP
		if !DeniesFlow(in)(f) {
			t.Errorf("%s of another protocol is not denied", c.dst)
		}
	}
}
