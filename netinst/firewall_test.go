package netinst

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"edgespan/netinst/netstate"
)

// sim evaluates generated chains as the kernel would, for new packets: enough of iptables to check the text against
// Judge's results.
type sim struct {
	t      testing.TB
	chains map[string]netstate.Chain
}

// hop is one packet at one hook of the kernel.
type hop struct {
	in, out         string // interfaces of the packet
	physIn, physOut string
	bridged         bool
	src, dst        netip.AddrPort
	proto           uint8
}

func newSim(t testing.TB, states ...netstate.State) sim {
	s := sim{t, map[string]netstate.Chain{}}
	for _, st := range states {
		for _, o := range st {
			if c, ok := o.(netstate.Chain); ok && c.Table == tableFilter {
				s.chains[c.Name] = c
			}
		}
	}
	return s
}

// run walks a chain and returns ACCEPT, DROP, or "" if no rule decides.
func (s sim) run(name string, h hop) string {
	rules := s.rules(name)
	for _, r := range rules {
		target, jump, hit := s.match(strings.Fields(r), h)
		if !hit {
			continue
		}
		switch target {
		case "ACCEPT", "DROP":
			return target
		case "MARK":
			continue
		case "RETURN":
			return ""
		}
		if v := s.run(target, h); v != "" || !jump {
			return v
		}
	}
	return ""
}

func (s sim) rules(name string) []string {
	var rules []string
	for _, c := range s.chains {
		for _, hk := range c.Hooks {
			if hk.Parent == name {
				rules = append(rules, hk.Match+" -j "+c.Name)
			}
		}
	}
	slices.Sort(rules)
	return append(rules, s.chains[name].Rules...)
}

// isLink reports whether an interface of a rule, which may end in "+", covers a link.
func isLink(pattern, link string) bool {
	stem, any := strings.CutSuffix(pattern, "+")
	return link == pattern || any && strings.HasPrefix(link, stem)
}

func (s sim) match(words []string, h hop) (target string, jump, hit bool) {
	hit = true
	not := false
	for i := 0; i < len(words); i++ {
		arg := ""
		if i+1 < len(words) {
			arg = words[i+1]
		}
		ok := true
		switch words[i] {
		case "-m", "--set-xmark", "--mark": // the packets here are of adapters of local networks
		case "!":
			not = true
			continue
		case "--physdev-is-bridged":
			ok = h.bridged
			i--
		case "-i":
			ok = isLink(arg, h.in)
		case "-o":
			ok = isLink(arg, h.out)
		case "-s":
			ok = netip.MustParsePrefix(arg).Contains(h.src.Addr())
		case "-d":
			ok = netip.MustParsePrefix(arg).Contains(h.dst.Addr())
		case "-p":
			ok = protocolWord(h.proto) == arg
		case "--sport", "--sports":
			ok = hasPort(arg, h.src.Port())
		case "--dport", "--dports":
			ok = hasPort(arg, h.dst.Port())
		case "--physdev-in":
			ok = isLink(arg, h.physIn)
		case "--physdev-out":
			ok = isLink(arg, h.physOut)
		case "--ctstate":
			ok = slices.Contains(strings.Split(arg, ","), "NEW") // the packets here are the first of their flow
		case "--ctstatus":
			ok = arg != "CONFIRMED"
		case "--connlimit-above":
			ok = false // no flow was counted before
		case "--connlimit-mask", "--limit", "--limit-burst":
		case "--connlimit-saddr":
			i--
		case "--ctdir":
			ok = arg == "ORIGINAL"
		case "--icmp-type":
			ok = arg == "8"
		case "-j", "-g":
			target, jump = arg, words[i] == "-j"
		default:
			s.t.Fatalf("a word that is not known here: %q in %q", words[i], strings.Join(words, " "))
		}
		i++
		hit = hit && ok != not
		not = false
	}
	return target, jump, hit
}

func hasPort(list string, port uint16) bool {
	for _, w := range strings.Split(list, ",") {
		first, last, ranged := strings.Cut(w, ":")
		if !ranged {
			last = first
		}
		f, _ := strconv.Atoi(first)
		l, _ := strconv.Atoi(last)
		if int(port) >= f && int(port) <= l {
			return true
		}
	}
	return false
}

func flow(proto uint8, src, dst string) netstate.Flow {
	return netstate.Flow{Proto: proto, Src: netip.MustParseAddrPort(src), Dst: netip.MustParseAddrPort(dst)}
}

// verdict sends the first packet of a flow through the chains of network 1 and reports whether it arrives.
func (s sim) verdict(in Input, f netstate.Flow) bool {
	links := map[netip.Addr]string{}
	for _, a := range in.Adapters {
		links[a.Lease.IP] = string(HostIfName(1, a.Lease.Number))
	}
	own := []netip.Addr{in.Config.IPv4.Gateway, ip("192.0.2.10")}
	h := hop{src: f.Src, dst: f.Dst, proto: f.Proto}
	from, to := links[f.Src.Addr()], links[f.Dst.Addr()]
	root := "FORWARD"
	external := func(a netip.Addr) string { // withLab's second port
		if prefix("198.18.0.0/15").Contains(a) {
			return "eth1"
		}
		return "eth0"
	}
	if from != "" {
		h.in, h.physIn = "es1", from
	} else {
		h.in = external(f.Src.Addr())
	}
	switch {
	case slices.Contains(own, f.Src.Addr()):
		root, h.in, h.out = "OUTPUT", "", "es1"
	case slices.Contains(own, f.Dst.Addr()) || f.Dst.Addr() == broadcast:
		root = "INPUT"
	case from != "" && to != "":
		h.out, h.physOut, h.bridged = "es1", to, true
	case to != "":
		h.out = "es1"
	default:
		h.out = external(f.Dst.Addr())
	}
	return s.run(root, h) == "ACCEPT"
}

// withLab gives a network a static route through a second port.
func withLab(in Input) Input {
	in.Ports[0].Labels = []string{"shared"}
	in.Ports = append(in.Ports, PortStatus{
		PortConfig: PortConfig{Label: "lab", IfName: "eth1", Labels: []string{"shared", "dark"}}, Exists: true, Up: true,
		LinkMTU:   1500,
		Addresses: []netip.Prefix{prefix("203.0.113.2/24")},
	})
	in.Config.Routes = []StaticRoute{{Name: "lab", Destination: prefix("198.18.0.0/15"), Gateway: ip("203.0.113.1"),
		Port: "lab"}}
	return in
}

type label string

func TestACLSentences(t *testing.T) {
	rule := func(d Direction, a Action, where string, more ...any) ACLRule {
		r := ACLRule{Direction: d, Action: a}
		if where != "" {
			r.IP = prefix(where)
		}
		for _, m := range more {
			switch m := m.(type) {
			case string:
				r.Protocol = m
			case []PortRange:
				r.Ports = m
			case label:
				r.PortLabel = string(m)
			}
		}
		return r
	}
	all := []ACLRule{rule(Both, Allow, "")}
	port := func(f, l uint16) []PortRange { return []PortRange{{f, l}} }
	const (
		app, app2, node, gw = "10.1.0.128:4000", "10.1.0.129:80", "192.0.2.10:22", "10.1.0.1"
		inet, inet2, behind = "198.51.100.9:80", "198.51.100.9:443", "198.18.0.9:80"
	)
	for _, tc := range []struct {
		name   string
		acl    []ACLRule // of the first app
		acl2   []ACLRule // of the second
		flow   netstate.Flow
		passes bool
	}{
		{"no rules, no way out", nil, nil, flow(6, app, inet), false},
		{"no rules, no way in", nil, nil, flow(6, inet, app), false},
		{"an empty match lets out", all, nil, flow(6, app, inet), true},
		{"an empty match lets in", all, nil, flow(6, inet, app), true},
		{"egress is not ingress", []ACLRule{rule(Egress, Allow, "")}, nil, flow(6, inet, app), false},
		{"ingress is not egress", []ACLRule{rule(Ingress, Allow, "")}, nil, flow(6, app, inet), false},
		{"the first match wins: drop", append([]ACLRule{rule(Egress, Drop, "198.51.100.0/24")}, all...), nil,
			flow(6, app, inet), false},
		{"the first match wins: allow", append(slices.Clone(all), rule(Egress, Drop, "198.51.100.0/24")), nil,
			flow(6, app, inet), true},
		{"a port", []ACLRule{rule(Egress, Allow, "", "tcp", port(80, 80))}, nil, flow(6, app, inet), true},
		{"another port", []ACLRule{rule(Egress, Allow, "", "tcp", port(80, 80))}, nil, flow(6, app, inet2), false},
		{"another protocol", []ACLRule{rule(Egress, Allow, "", "tcp", port(80, 80))}, nil, flow(17, app, inet), false},
		{"a port without a protocol is of udp too", []ACLRule{rule(Egress, Allow, "", "", port(80, 80))}, nil,
			flow(17, app, inet), true},
		{"a protocol by number", []ACLRule{rule(Egress, Allow, "", "47")}, nil, flow(47, "10.1.0.128:0", "198.51.100.9:0"),
			true},
		{"protocol 0 is not all protocols", []ACLRule{rule(Egress, Allow, "", "0")}, nil, flow(6, app, inet), false},
		{"a rule of another family matches nothing", []ACLRule{rule(Egress, Allow, "::/0")}, nil, flow(6, app, inet), false},
		{"a port's label lets out by that port", []ACLRule{rule(Egress, Allow, "", label("eth"))}, nil, flow(6, app, inet),
			true},
		{"a port's label lets out by no other port", []ACLRule{rule(Egress, Allow, "", label("eth"))}, nil,
			flow(6, app, behind), false},
		{"a port's label lets in by that port", []ACLRule{rule(Ingress, Allow, "", label("lab"))}, nil, flow(6, behind, app),
			true},
		{"a port's label lets in by no other port", []ACLRule{rule(Ingress, Allow, "", label("lab"))}, nil,
			flow(6, inet, app), false},
		{"a port's label with an address and a port",
			[]ACLRule{rule(Egress, Allow, "198.18.0.0/15", label("lab"), "tcp", port(80, 80))}, nil, flow(6, app, behind), true},
		{"a shared label is each of its ports: one", []ACLRule{rule(Egress, Allow, "", label("shared"))}, nil,
			flow(6, app, inet), true},
		{"a shared label is each of its ports: the other", []ACLRule{rule(Egress, Allow, "", label("shared"))}, nil,
			flow(6, app, behind), true},
		{"a shared label of one port", []ACLRule{rule(Egress, Allow, "", label("dark"))}, nil, flow(6, app, inet), false},
		{"uplink is a port's label", []ACLRule{rule(Egress, Allow, "", label("uplink"))}, nil, flow(6, app, behind), false},
		{"a drop of one port's packets", append([]ACLRule{rule(Egress, Drop, "", label("lab"))}, all...), nil,
			flow(6, app, behind), false},
		{"a drop of one port's packets leaves the others", append([]ACLRule{rule(Egress, Drop, "", label("lab"))}, all...),
			nil, flow(6, app, inet), true},
		{"a label that no port has matches nothing", []ACLRule{rule(Both, Allow, "", label("nowhere"))}, nil,
			flow(6, app, inet), false},
		{"a label that no port has drops nothing", append([]ACLRule{rule(Both, Drop, "", label("nowhere"))}, all...), nil,
			flow(6, app, inet), true},
		{"no port is passed between adapters", []ACLRule{rule(Egress, Allow, "", label("all"))}, all, flow(6, app, app2),
			false},
		{"no port is passed on the way to the node", []ACLRule{rule(Egress, Allow, "192.0.2.10/32", label("all"))}, nil,
			flow(6, app, node), false},
		{"no port is passed on the way from the node", []ACLRule{rule(Ingress, Allow, "192.0.2.10/32", label("all"))}, nil,
			flow(6, node, app), false},
		{"both must allow: only the sender does", all, nil, flow(6, app, app2), false},
		{"both must allow: only the receiver does", nil, all, flow(6, app, app2), false},
		{"both must allow: both do", all, all, flow(6, app, app2), true},
		{"no rules, but DNS of the gateway", nil, nil, flow(17, app, gw+":53"), true},
		{"no rules, but DNS by TCP", nil, nil, flow(6, app, gw+":53"), true},
		{"no rules, but DHCP", nil, nil, flow(17, "10.1.0.128:68", gw+":67"), true},
		{"no rules, but ping", nil, nil, flow(1, "10.1.0.128:0", gw+":0"), true},
		{"DNS of another address of the node is none", nil, nil, flow(17, app, "192.0.2.10:53"), false},
		{"an empty match doesn't reach the node", all, nil, flow(6, app, node), false},
		{"0.0.0.0/0 doesn't reach the node", []ACLRule{rule(Both, Allow, "0.0.0.0/0")}, nil, flow(6, app, node), false},
		{"a rule that names it reaches the node", []ACLRule{rule(Egress, Allow, "192.0.2.10/32")}, nil, flow(6, app, node),
			true},
		{"a prefix that covers it names it", []ACLRule{rule(Egress, Allow, "192.0.0.0/8")}, nil, flow(6, app, node), true},
		{"a port's label with a name is no way to the node", []ACLRule{rule(Egress, Allow, "192.0.2.0/24", label("eth"))},
			nil, flow(6, app, node), false},
		{"what drops by a port's label leaves the way to the node",
			[]ACLRule{rule(Egress, Drop, "192.0.2.0/24", label("eth")), rule(Egress, Allow, "192.0.2.0/24")}, nil,
			flow(6, app, node), true},
		{"a port's label with a name is no way from the node", []ACLRule{rule(Ingress, Allow, "192.0.2.0/24", label("eth"))},
			nil, flow(6, node, app), false},
		{"a rule that names another than the node", []ACLRule{rule(Both, Allow, "198.51.100.0/24")}, nil, flow(6, app, node),
			false},
		{"a drop before it holds toward the node", []ACLRule{rule(Egress, Drop, ""), rule(Egress, Allow, "192.0.2.10/32")},
			nil, flow(6, app, node), false},
		{"the node needs to be named to reach an app", all, nil, flow(6, node, app), false},
		{"the node reaches an app that names it", []ACLRule{rule(Ingress, Allow, "192.0.2.10/32")}, nil, flow(6, node, app),
			true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := withLab(input(adapter(appA, 0, 1, "10.1.0.128", "a", tc.acl...),
				adapter(appB, 0, 2, "10.1.0.129", "b", tc.acl2...)))
			s := newSim(t, DesiredState(in).State, HostState([]HostNetwork{{Number: 1, Subnet: in.Config.IPv4.Subnet}}))
			if got := s.verdict(in, tc.flow); got != tc.passes {
				t.Errorf("the chains say %v", got)
			}
			if got := !DeniesFlow(in)(tc.flow); got != tc.passes {
				t.Errorf("Judge says %v", got)
			}
		})
	}
}

// Rules that are the same for flows to the outside and to the node are written once; a rule that allows without a name
// has all of its direction written twice.
func TestRulesAreWrittenOnceWherePossible(t *testing.T) {
	const many = 1000
	named := make([]ACLRule, many)
	for i := range named {
		named[i] = ACLRule{Direction: Both, Action: Allow, IP: prefix("198.51.100.0/24"), Protocol: "tcp",
			Ports: []PortRange{{uint16(i + 1), uint16(i + 1)}}}
	}
	rules := func(more ...ACLRule) int {
		n := 0
		for _, c := range DesiredState(input(adapter(appA, 0, 1, "10.1.0.128", "a",
			append(slices.Clone(named), more...)...))).State {
			if c, ok := c.(netstate.Chain); ok && !c.Family.Native() && ofAdapter(c.Name) {
				n += len(c.Rules)
			}
		}
		return n
	}
	for name, x := range map[string]struct {
		more   ACLRule
		copies int
	}{
		"all named":                   {ACLRule{Direction: Both, Action: Drop}, 2},
		"one out without a name":      {ACLRule{Direction: Egress, Action: Allow}, 3},
		"one in without a name":       {ACLRule{Direction: Ingress, Action: Allow}, 3},
		"one both ways without name":  {ACLRule{Direction: Both, Action: Allow, Protocol: "icmp"}, 4},
		"one that names all as a net": {ACLRule{Direction: Egress, Action: Allow, IP: prefix("0.0.0.0/0")}, 3},
		"one port's, named": {ACLRule{Direction: Egress, Action: Allow, IP: prefix("198.51.100.0/24"),
			PortLabel: "eth"}, 2},
	} {
		if n := rules(x.more); n < x.copies*many || n > x.copies*many+20 {
			t.Errorf("%s: %d rules, not %d of %d each", name, n, x.copies, many)
		}
	}
}

func drawACL(t *rapid.T, label string) []ACLRule {
	ports := func(what string) []PortRange {
		return rapid.SampledFrom([][]PortRange{nil, nil, {{80, 80}}, {{80, 90}}, {{22, 22}, {80, 443}}, manyPorts()}).Draw(t,
			what)
	}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ACLRule {
		r := ACLRule{
			Direction: rapid.SampledFrom([]Direction{Egress, Ingress, Both}).Draw(t, "direction"),
			Action:    rapid.SampledFrom([]Action{Allow, Allow, Drop, "limit"}).Draw(t, "action"),
			Protocol:  rapid.SampledFrom([]string{"", "tcp", "udp", "icmp", "47", "6", "0", "word"}).Draw(t, "protocol"),
		}
		if w := rapid.SampledFrom([]string{"", "0.0.0.0/0", "10.1.0.129/32", "192.0.2.0/24", "192.0.2.10/32",
			"198.51.100.0/24", "10.1.0.0/24", "::/0"}).Draw(t, "ip"); w != "" {
			r.IP = prefix(w)
		}
		r.Ports, r.LocalPort = ports("ports"), ports("localPort")
		r.PortLabel = rapid.SampledFrom([]string{"", "", "", "eth", "lab", "shared", "uplink", "all", "nowhere"}).Draw(t,
			"portLabel")
		return r
	}), 0, 6).Draw(t, label)
}

// manyPorts returns more ports than one multiport match takes.
func manyPorts() []PortRange {
	ps := make([]PortRange, 20)
	for i := range ps {
		ps[i] = PortRange{uint16(70 + 2*i), uint16(70 + 2*i)}
	}
	return ps
}

// The text of the chains and Judge, two evaluations of the same rules, agree on every flow.
func TestChainsAgreeWithValidate(t *testing.T) {
	ends := []string{"10.1.0.128", "10.1.0.129", "10.1.0.1", "192.0.2.10", "192.0.2.77", "198.51.100.9", "198.18.0.9"}
	rapid.Check(t, func(rt *rapid.T) {
		in := withLab(input(
			adapter(appA, 0, 1, "10.1.0.128", "a", drawACL(rt, "acl")...),
			adapter(appB, 0, 2, "10.1.0.129", "b", drawACL(rt, "acl2")...)))
		in.Adapters[0].Config.Spec.Observe = rapid.SampledFrom([]bool{false, false, true}).Draw(rt, "observe")
		s := newSim(t, DesiredState(in).State, HostState([]HostNetwork{{Number: 1, Subnet: in.Config.IPv4.Subnet}}))
		denies := DeniesFlow(in)
		for range 20 {
			end := func(of []string, what string) netip.AddrPort {
				return netip.AddrPortFrom(ip(rapid.SampledFrom(of).Draw(rt, what)),
					rapid.SampledFrom([]uint16{22, 53, 67, 68, 80, 85, 443}).Draw(rt, what+" port"))
			}
			f := netstate.Flow{Proto: rapid.SampledFrom([]uint8{1, 6, 17, 47}).Draw(rt, "proto")}
			f.Src, f.Dst = end(ends, "src"), end(ends, "dst")
			if f.Src.Addr() == f.Dst.Addr() || !strings.HasPrefix(f.Src.String(), "10.1.0.12") &&
				!strings.HasPrefix(f.Dst.String(), "10.1.0.12") {
				continue // not a packet of an app
			}
			if got, want := s.verdict(in, f), !denies(f); got != want {
				rt.Fatalf("%v: chains pass %v, Judge passes %v\n%s", f, got, want, DesiredState(in).State)
			}
		}
	})
}

func TestValidateOfGoneAndForeignFlows(t *testing.T) {
	denies := DeniesFlow(input(web()))
	for _, tc := range []struct {
		name   string
		flow   netstate.Flow
		denied bool
	}{
		{"from an address that no adapter holds", flow(6, "10.1.0.200:1", "198.51.100.9:80"), true},
		{"to an address that no adapter holds", flow(6, "198.51.100.9:80", "10.1.0.200:1"), true},
		{"of another network", flow(6, "10.2.0.200:1", "198.51.100.9:80"), false},
		{"of the node to its own gateway address", flow(17, "192.0.2.10:5", "10.1.0.1:53"), false},
		{"of the node's resolver", flow(17, "192.0.2.10:5", "192.0.2.53:53"), false},
	} {
		if got := denies(tc.flow); got != tc.denied {
			t.Errorf("%s: denied %v", tc.name, got)
		}
	}
}

// What every adapter may do whatever its rules are, and what none may do without a rule.
func TestValidateOfEssentials(t *testing.T) {
	quiet := DeniesFlow(input(adapter(appA, 0, 1, "10.1.0.128", "a")))
	out := DeniesFlow(input(adapter(appA, 0, 1, "10.1.0.128", "a",
		ACLRule{Name: "out", Direction: Egress, Action: Allow, PortLabel: "eth"})))
	for _, tc := range []struct {
		name        string
		flow        netstate.Flow
		quiet, free bool // quiet: denied without a rule; free: allowed by a rule for all that leaves by the port
	}{
		{"a lease is asked for by broadcast", flow(17, "10.1.0.128:68", "255.255.255.255:67"), false, false},
		{"and of the gateway", flow(17, "10.1.0.128:68", "10.1.0.1:67"), false, false},
		{"not of others", flow(17, "10.1.0.128:68", "198.51.100.9:67"), true, false},
		{"nor from another port", flow(17, "10.1.0.128:69", "255.255.255.255:67"), true, true},
		{"nor of another one", flow(17, "10.1.0.128:68", "10.1.0.1:99"), true, true},
		{"nor by TCP", flow(6, "10.1.0.128:68", "10.1.0.1:67"), true, true},
		{"the gateway answers", flow(17, "10.1.0.1:67", "10.1.0.128:68"), false, false},
		{"not by TCP", flow(6, "10.1.0.1:67", "10.1.0.128:68"), true, true},
		{"not to another port", flow(17, "10.1.0.1:67", "10.1.0.128:69"), true, true},
		{"names are asked for by UDP", flow(17, "10.1.0.128:5", "10.1.0.1:53"), false, false},
		{"and by TCP", flow(6, "10.1.0.128:5", "10.1.0.1:53"), false, false},
		{"not of others", flow(17, "10.1.0.128:5", "198.51.100.9:53"), true, false},
		{"the gateway is pinged", flow(1, "10.1.0.128:0", "10.1.0.1:0"), false, false},
		{"what goes to many leaves by no port", flow(17, "10.1.0.128:5", "224.0.0.251:5353"), true, true},
		{"nor does what goes to all of the subnet", flow(17, "10.1.0.128:5", "10.1.0.255:9"), true, true},
		{"nor to all", flow(17, "10.1.0.128:5", "255.255.255.255:9"), true, true},
	} {
		if got := quiet(tc.flow); got != tc.quiet {
			t.Errorf("%s: denied %v without a rule", tc.name, got)
		}
		if got := out(tc.flow); got != tc.free {
			t.Errorf("%s: denied %v where what leaves by the port is allowed", tc.name, got)
		}
	}
	for _, f := range []struct {
		flow netstate.Flow
		want bool
	}{{flow(17, "0.0.0.0:68", "255.255.255.255:67"), true}, {flow(6, "0.0.0.0:68", "255.255.255.255:67"), false},
		{flow(17, "0.0.0.0:68", "255.255.255.255:9"), false}, {flow(17, "0.0.0.0:9", "255.255.255.255:67"), false}} {
		if got := dhcpAsked(f.flow); got != f.want {
			t.Errorf("%+v asks for a lease: %v", f.flow, got)
		}
	}
}

// Networks never route to each other, whatever their apps allow. The chains deny the direct way; the guard knows the
// subnets of all networks and drops what would leave for one of them by the port of another
// (integration/netns: TestFirewallSendsNoOtherNetworkOutOfThePort).
func TestNetworksDoNotReachEachOther(t *testing.T) {
	all := ACLRule{Direction: Both, Action: Allow}
	one := input(adapter(appA, 0, 1, "10.1.0.128", "a", all))
	two := input(adapter(appB, 0, 1, "10.2.0.128", "b", all))
	two.Owner.Number, two.Config.UUID = 2, uuid.MustParse("22222222-2222-4222-8222-222222222222")
	two.Config.IPv4 = IPv4Config{Subnet: prefix("10.2.0.0/24"), Gateway: ip("10.2.0.1"), DHCPFirst: ip("10.2.0.128"),
		DHCPLast: ip("10.2.0.254")}
	s := newSim(t, DesiredState(one).State, DesiredState(two).State,
		HostState([]HostNetwork{{Number: 1, Subnet: one.Config.IPv4.Subnet}, {Number: 2, Subnet: two.Config.IPv4.Subnet}}))
	h := hop{in: "es1", physIn: "es1a1", proto: 6, src: netip.MustParseAddrPort("10.1.0.128:1"),
		dst: netip.MustParseAddrPort("10.2.0.128:80")}
	h.out = "es2"
	if v := s.run("FORWARD", h); v != "DROP" {
		t.Errorf("directly: %q", v)
	}
}

// Ports that change label or disappear change the chains that name them; a port that is merely down or missing keeps
// its rules.
func TestChainsFollowThePorts(t *testing.T) {
	in := withLab(input(adapter(appA, 0, 1, "10.1.0.128", "a",
		ACLRule{Direction: Both, Action: Allow, PortLabel: "shared"})))
	rules := func() string {
		st := DesiredState(in).State
		var out []string
		for _, part := range []string{"1E", "1I", "1N", "1M"} {
			for _, r := range st[chainID(tableFilter, chainName(1, part))].(netstate.Chain).Rules {
				if strings.Contains(r, "eth") {
					out = append(out, part+" "+r)
				}
			}
		}
		return strings.Join(out, "; ")
	}
	const lab = "1E -o eth1 -g ES1-1L; 1I -i eth1 -g ES1-1A"
	if got := rules(); got != "1E -o eth0 -g ES1-1L; 1E -o eth1 -g ES1-1L; 1I -i eth0 -g ES1-1A; 1I -i eth1 -g ES1-1A" {
		t.Errorf("both: %s", got)
	}
	in.Ports[0].Labels = nil
	if got := rules(); got != lab {
		t.Errorf("one has lost the label: %s", got)
	}
	in.Ports[1].Exists, in.Ports[1].Up = false, false
	if got := rules(); got != lab {
		t.Errorf("the other is missing: %s", got)
	}
	in.Ports = in.Ports[:1]
	if got := rules(); got != "" {
		t.Errorf("none is left: %s", got)
	}
}
