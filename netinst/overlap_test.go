package netinst

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

func TestWhatOverlapsASubnet(t *testing.T) {
	eth0 := func(i netstate.Interface) netstate.Interface { i.Name = "eth0"; return i }
	addrs := func(as ...string) (out []netip.Prefix) {
		for _, a := range as {
			out = append(out, prefix(a))
		}
		return out
	}
	route := func(dst, via string) netstate.HostRoute {
		r := netstate.HostRoute{Dst: prefix(dst), Dev: "eth0"}
		if via != "" {
			r.Via = ip(via)
		}
		return r
	}
	for name, c := range map[string]struct {
		host                  netstate.Interface
		wantClash, wantHidden string
	}{
		"nothing there":        {},
		"an address beside it": {host: eth0(netstate.Interface{Addresses: addrs("10.2.0.1/24")})},
		"an address of the same subnet": {host: eth0(netstate.Interface{Addresses: addrs("10.1.0.9/24")}),
			wantClash: "10.1.0.9/24 on eth0"},
		"an address whose subnet contains it": {host: eth0(netstate.Interface{Addresses: addrs("10.9.0.1/8")}),
			wantClash: "10.9.0.1/8 on eth0"},
		"an address whose subnet is a part of it": {host: eth0(netstate.Interface{Addresses: addrs("10.1.0.129/25")}),
			wantClash: "10.1.0.129/25 on eth0"},
		"a host address in it": {host: netstate.Interface{Name: "lo",
			Addresses: addrs("127.0.0.1/8", "10.1.0.5/32")}, wantClash: "10.1.0.5/32 on lo"},
		"a host address outside of it": {host: netstate.Interface{Name: "lo",
			Addresses: addrs("127.0.0.1/8", "10.9.0.5/32")}},
		"link-local": {host: eth0(netstate.Interface{Addresses: addrs("169.254.1.1/16",
			"fe80::1/64")})},
		"a VPN as wide as it": {host: eth0(netstate.Interface{PointToPoint: true,
			Routes: []netstate.HostRoute{route("10.1.0.0/24", "")}}), wantClash: "route 10.1.0.0/24 on eth0"},
		"four are all named": {host: eth0(netstate.Interface{Addresses: addrs("10.1.0.5/32",
			"10.1.0.3/32", "10.1.0.6/32", "10.1.0.4/32")}),
			wantClash: "10.1.0.3/32 on eth0, 10.1.0.4/32 on eth0, 10.1.0.5/32 on eth0, 10.1.0.6/32 on eth0"},
		"an address of everything is its own alone": {host: eth0(netstate.Interface{Addresses: addrs("10.1.0.1/0")}),
			wantClash: "10.1.0.1/32 on eth0"},
		"a connected route": {host: eth0(netstate.Interface{Routes: []netstate.HostRoute{route("10.1.0.0/16", "")}}),
			wantClash: "route 10.1.0.0/16 on eth0"},
		"the route of an address is told once": {host: eth0(netstate.Interface{Addresses: addrs("10.1.0.9/24"),
			Routes: []netstate.HostRoute{route("10.1.0.0/24", "")}}), wantClash: "10.1.0.9/24 on eth0"},
		"a route by a gateway": {host: eth0(netstate.Interface{Routes: []netstate.HostRoute{route("10.1.0.0/25",
			"192.0.2.1")}}), wantHidden: "route 10.1.0.0/25 via 192.0.2.1 on eth0"},
		"the world in halves": {host: eth0(netstate.Interface{Routes: []netstate.HostRoute{route("0.0.0.0/1", ""),
			route("0.0.0.0/1", "192.0.2.1")}})},
		"all of a VPN's addresses": {host: eth0(netstate.Interface{PointToPoint: true,
			Routes: []netstate.HostRoute{route("10.0.0.0/8", "")}}), wantHidden: "route 10.0.0.0/8 on eth0"},
		"the other end of a VPN is in it": {host: eth0(netstate.Interface{PointToPoint: true,
			Routes: []netstate.HostRoute{route("10.1.0.7/32", "")}}), wantClash: "route 10.1.0.7/32 on eth0"},
		"the address of a VPN's end is in the subnet": {host: eth0(netstate.Interface{PointToPoint: true,
			Addresses: addrs("10.1.0.7/8")}), wantClash: "10.1.0.7/8 on eth0"},
		"addresses come first, few are named": {
			host: eth0(netstate.Interface{
				Addresses: addrs("10.1.0.6/32", "10.1.0.5/32", "10.1.0.4/32", "10.1.0.3/32"),
				Routes:    []netstate.HostRoute{route("10.1.0.1/32", ""), route("10.1.0.2/32", "")},
			}),
			wantClash: "10.1.0.3/32 on eth0, 10.1.0.4/32 on eth0, 10.1.0.5/32 on eth0, 10.1.0.6/32 on eth0 and 2 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := SubnetOverlap{Subnet: prefix("10.1.0.0/24"), Clash: c.wantClash, Hidden: c.wantHidden}
			if got := OverlapWith(want.Subnet, HostPrefixes([]netstate.Interface{c.host})); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// What no network can have is not looked through for each of them.
func TestWhatNoNetworkCanOverlapIsNoneOfTheHosts(t *testing.T) {
	seen := []netstate.Interface{{Name: "lo", Addresses: []netip.Prefix{prefix("127.0.0.1/8"), prefix("169.254.3.4/16"),
		prefix("::1/128"), prefix("fe80::1/64"), prefix("2001:db8::1/64"), prefix("10.9.0.5/32")}}}
	if got := HostPrefixes(seen); len(got) != 1 || got[0].Prefix != prefix("10.9.0.5/32") {
		t.Errorf("%v", got)
	}
	two := []netip.Prefix{prefix("10.1.0.0/24"), prefix("10.2.0.0/24")}
	host := []HostPrefix{{Prefix: prefix("10.1.0.0/24"), Link: "eth0"},
		{Prefix: prefix("10.2.0.7/32"), Link: "eth1", Address: true},
		{Prefix: prefix("10.2.0.0/16"), Link: "eth2", Via: ip("192.0.2.1")}}
	for i, got := range OverlapsOf(two, host) {
		if want := OverlapWith(two[i], host); got != want || got.Clash == "" {
			t.Errorf("%+v, alone %+v", got, want)
		}
	}
}

// Many at once say what each by itself does.
func TestManySubnetsAtOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 14))
	random := func(from int) netip.Prefix {
		a := netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(8)), byte(r.IntN(256))})
		return netip.PrefixFrom(a, from+r.IntN(33-from))
	}
	for range 300 {
		var host []HostPrefix
		for i := range r.IntN(30) {
			p := HostPrefix{Prefix: random(8), Link: fmt.Sprint("l", i), Address: r.IntN(2) == 0}
			if !p.Address {
				p.Prefix, p.Wide = p.Prefix.Masked(), r.IntN(2) == 0
			}
			if !p.Address && r.IntN(2) == 0 {
				p.Via = ip("192.0.2.1")
			}
			host = append(host, p)
		}
		subnets := []netip.Prefix{{}}
		for range 20 {
			subnets = append(subnets, random(8).Masked())
		}
		for i, got := range OverlapsOf(subnets, host) {
			if want := OverlapWith(subnets[i], slices.Clone(host)); got != want {
				t.Fatalf("%s: %+v, want %+v", subnets[i], got, want)
			}
		}
	}
}

// BenchmarkOverlaps: 999 networks on a host with 1,000 foreign addresses.
func BenchmarkOverlaps(b *testing.B) {
	var host []HostPrefix
	var subnets []netip.Prefix
	for i := range 1000 {
		host = append(host, HostPrefix{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16 + byte(i>>8), byte(i), 1}),
			24), Link: fmt.Sprint("br", i), Address: true})
		subnets = append(subnets, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24))
	}
	for b.Loop() {
		OverlapsOf(subnets[:999], host)
	}
}

func clashing(in Input) Input {
	in.Overlap = OverlapWith(in.Config.IPv4.Subnet,
		[]HostPrefix{{Prefix: prefix("10.1.0.77/24"), Link: "eth0", Address: true}})
	return in
}

// What stays of a withdrawn network is met on its own bridge alone, and its links are those
// that they were, to the letter.
func TestAWithdrawnNetworkIsMetByNobody(t *testing.T) {
	in := input(web())
	was, now := DesiredState(in), DesiredState(clashing(in))
	if now.Withdrawn != "subnet 10.1.0.0/24 overlaps 10.1.0.77/24 on eth0" || now.Port != "" {
		t.Errorf("withdrawn %q, port %q", now.Withdrawn, now.Port)
	}
	for id, o := range was.State {
		stays := now.State[id]
		switch o := o.(type) {
		case netstate.Link, netstate.Port:
			if stays == nil || stays.Text() != o.Text() {
				t.Errorf("%s was %q and is %v", id, o.Text(), stays)
			}
		case netstate.Address, netstate.Route, netstate.Rule, netstate.Process:
			if stays != nil {
				t.Errorf("%s is still wanted", id)
			}
		}
	}
	for id, o := range now.State {
		if was.State[id] == nil {
			t.Errorf("%s is new", id)
		}
		for _, n := range o.Needs() {
			if now.State[n] == nil {
				t.Errorf("%s needs %s, which is not wanted", id, n)
			}
		}
		if c, is := o.(netstate.Chain); is {
			for _, h := range c.Hooks {
				if h.Match != "-i es1" && h.Match != "-o es1" {
					t.Errorf("%s judges packets by %q", id, h.Match)
				}
			}
		}
	}
	for _, ids := range now.ByAdapter {
		for _, id := range ids {
			if now.State[id] == nil {
				t.Errorf("%s of the adapter is not wanted", id)
			}
		}
	}
}

// What stays of a withdrawn network's hooks goes by its bridge alone.
func TestWhichHooksStayOfAWithdrawnNetwork(t *testing.T) {
	nw, _ := newNetwork(input())
	for match, want := range map[string]bool{
		"-i es1": true, "-o es1": true, "-s 10.1.0.0/24 -i es1 -j X": true, "-o es1 -i eth0": true,
		"": false, "es1": false, "-i": false, "-i es11": false, "-d es1": false, "-i eth0": false, "-s 10.1.0.0/24": false,
		"-s es1 -i eth0": false,
		"! -i es1":       false, "-s 10.1.0.0/24 ! -o es1": false, "! -i es1 -o es1": true,
	} {
		if got := nw.ofBridge(match); got != want {
			t.Errorf("%q: %v", match, got)
		}
	}
	in := input(web())
	was, now := DesiredState(in).State, DesiredState(clashing(in)).State
	for id, o := range now {
		c, _ := o.(netstate.Chain)
		want := c.Rules
		switch c.Name {
		case nw.chainName("INP"):
			want = []string{"-j DROP"}
		case nw.chainName("EGR"):
			want = was[id].(netstate.Chain).Rules
		}
		if !slices.Equal(c.Rules, want) {
			t.Errorf("%s: %q, want %q", id, c.Rules, want)
		}
	}
}

// The way off the subnet waits for no restore, no file and no process; the way back is made
// before break as ever.
func TestAWithdrawalLeavesTheSubnetFirst(t *testing.T) {
	in := input(web())
	was, now := DesiredState(in).State, DesiredState(clashing(in)).State
	var ops []string
	for _, op := range netstate.Diff(was, now) {
		ops = append(ops, string(op.Verb)+" "+string(op.Kind))
	}
	want := "remove rule, remove route, remove address, remove sysctl, change file, change chain, remove process"
	if got := strings.Join(slices.Compact(ops), ", "); got != want {
		t.Errorf("away: %s, want %s", got, want)
	}
	ops = nil
	for _, op := range netstate.Diff(now, was) {
		ops = append(ops, string(op.Verb)+" "+string(op.Kind))
	}
	if got := strings.Join(slices.Compact(ops),
		", "); got != "change file, change chain, add address, add sysctl, add route, add rule, add process" {
		t.Errorf("back: %s", got)
	}
}

// The flows that apps have begun by a port go; those of the host's neighbours, who have
// addresses of the same subnet, live on.
func TestWithdrawalEndsTranslatedFlowsOfAppsAlone(t *testing.T) {
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	deny := Judge(clashing(input(web())))
	for name, c := range map[string]struct {
		f    netstate.Flow
		want bool
	}{
		"an app's, translated": {netstate.Flow{Src: at("10.1.0.128:9"), Dst: at("198.51.100.1:80"),
			ReplySrc: at("198.51.100.1:80"), ReplyDst: at("192.0.2.10:9")}, true},
		"between apps": {netstate.Flow{Src: at("10.1.0.128:9"), Dst: at("10.1.0.129:80"),
			ReplySrc: at("10.1.0.129:80"), ReplyDst: at("10.1.0.128:9")}, false},
		"a neighbour's, to host": {netstate.Flow{Src: at("10.1.0.5:9"), Dst: at("10.1.0.77:22"), ReplySrc: at("10.1.0.77:22"),
			ReplyDst: at("10.1.0.5:9")}, false},
		"a neighbour's, by host": {netstate.Flow{Src: at("10.1.0.5:9"), Dst: at("198.51.100.1:22"),
			ReplySrc: at("198.51.100.1:22"), ReplyDst: at("192.0.2.10:9")}, false},
	} {
		if got := deny(c.f); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOthersReachNeighboursInAWithdrawnSubnet(t *testing.T) {
	r := NewRegistry(nil)
	r.Step(OwnersFound{})
	r.Step(HostApplierReady{})
	r.Step(NetworkWanted{testNetwork(1)})
	exit := netstate.ID{Kind: netstate.KindChain, Name: "ipv4/filter/" + ExitChain}
	drops := func(effs []RegistryEffect) string {
		for _, e := range effs {
			if a, is := e.(ApplyHost); is {
				return a.Want[exit].Text()
			}
		}
		return "no apply"
	}
	for i, c := range []struct {
		event RegistryEvent
		want  string
	}{
		{ConfigKnown{}, "-d 10.1.0.0/24 -j DROP\n-j ES-PASS"},
		{NetworkWithdrawn{niA, true}, "-j ES-PASS"},
		{NetworkWithdrawn{niA, true}, "no apply"},
		{NetworkWithdrawn{niA, false}, "-d 10.1.0.0/24 -j DROP\n-j ES-PASS"},
	} {
		if got := drops(r.Step(c.event)); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
		r.Step(HostApplied{Seq: r.seq})
	}
}

func TestManagerWithdraws(t *testing.T) {
	free := SubnetOverlap{Subnet: prefix("10.1.0.0/24")}
	clash, hidden := free, free
	clash.Clash, hidden.Hidden = "10.1.0.77/24 on eth0", "route 10.1.0.0/16 via 192.0.2.1 on eth0"
	other := SubnetOverlap{Subnet: prefix("10.2.0.0/24")}
	moved := testNetwork(2)
	moved.IPv4 = IPv4Config{Subnet: other.Subnet, Gateway: ip("10.2.0.1"), DHCPFirst: ip("10.2.0.128"),
		DHCPLast: ip("10.2.0.254")}
	const away = "ni WaitingForDependencies (subnet 10.1.0.0/24 overlaps 10.1.0.77/24 on eth0)"
	for name, steps := range map[string][]managerStep{
		"a clash counts at once, its end after a rest": {
			{OverlapChanged{clash}, "apply#2 something"},
			{applied(2), away},
			{OverlapChanged{free}, ""},
			{TimerDue{Token: 5}, "apply#3 something"},
			{applied(3), "ni Present"},
		},
		"an address that comes and goes costs nothing": {
			{OverlapChanged{clash}, "apply#2 something"},
			{applied(2), away},
			{OverlapChanged{free}, ""},
			{OverlapChanged{clash}, "apply#3 something"},
			{TimerDue{Token: 5}, ""},
			{applied(3), ""},
		},
		"another change meanwhile does not bring it back": {
			{OverlapChanged{clash}, "apply#2 something"},
			{applied(2), away},
			{OverlapChanged{free}, ""},
			{AdapterChanged{testAdapter(appW, 1, true)}, "apply#3 something"},
			{applied(3), `adapter app1#0 v1 activated=true (network instance "lan" is withdrawn: subnet 10.1.0.0/24 overlaps 10.1.0.77/24 on eth0)`},
		},
		"a new subnet is applied once it was compared": {
			{OverlapChanged{clash}, "apply#2 something"},
			{applied(2), away},
			{ConfigChanged{moved}, ""},
			{OverlapChanged{other}, "apply#3 something"},
			{applied(3), "ni Present"},
		},
		"a route by a gateway is a warning": {
			{OverlapChanged{hidden}, "apply#2 something"},
			{applied(2), "ni Present [subnet 10.1.0.0/24 hides a part of route 10.1.0.0/16 via 192.0.2.1 on eth0]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewManager(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
			for i, s := range append(begun(managerStep{OverlapChanged{free}, "apply#2 something"}, managerStep{applied(2), ""}),
				shifted(steps)...) {
				if got := text(m.Step(s.event)); got != s.want {
					t.Fatalf("step %d, %T: %q, want %q", i, s.event, got, s.want)
				}
			}
		})
	}
}

// shifted counts the applies of steps on by one.
func shifted(steps []managerStep) []managerStep {
	var out []managerStep
	for _, s := range steps {
		if a, is := s.event.(Applied); is {
			a.Seq.N++
			s.event = a
		}
		for n := 3; n >= 2; n-- {
			s.want = strings.ReplaceAll(s.want, fmt.Sprintf("apply#%d", n), fmt.Sprintf("apply#%d", n+1))
		}
		out = append(out, s)
	}
	return out
}
