package netinst

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
)

// Of several routes to one destination, the one of lowest cost whose port works is used; if none works, the cheapest.
func TestTheCheapestRouteThatWorksIsUsed(t *testing.T) {
	port := func(label, ifName, addr string) PortStatus {
		return PortStatus{PortConfig: PortConfig{Label: label, IfName: IfName(ifName)}, Exists: true, Up: true,
			Addresses: []netip.Prefix{prefix(addr)}}
	}
	in := input()
	in.Ports = append(in.Ports, port("a", "eth7", "198.51.100.2/30"), port("b", "eth8", "198.51.100.6/30"))
	to := prefix("172.16.0.0/16")
	in.Config.Routes = []StaticRoute{
		{Name: "1", Destination: to, Gateway: ip("198.51.100.5"), Port: "b", Cost: 5},
		{Name: "2", Destination: to, Gateway: ip("198.51.100.1"), Port: "a", Cost: 1},
		{Name: "3", Destination: to, Gateway: ip("10.1.0.7"), Cost: 9},
	}
	for _, c := range []struct {
		name    string
		failing map[string]bool
		missing string
		want    string
	}{
		{"all work", nil, "", "via 198.51.100.1 dev eth7"},
		{"the cheapest fails", map[string]bool{"a": true}, "", "via 198.51.100.5 dev eth8"},
		{"an app routes when both fail", map[string]bool{"a": true, "b": true}, "", "via 10.1.0.7 dev es1"},
		{"the cheapest has no interface", nil, "a", "via 198.51.100.5 dev eth8"},
	} {
		x := in
		x.Failing, x.Ports = c.failing, slices.Clone(in.Ports)
		for i := range x.Ports {
			x.Ports[i].Exists = x.Ports[i].Label != c.missing
		}
		o := DesiredState(x).State[netstate.Route{Table: Table(x.Owner.Number), Dst: to.String()}.ID()]
		if o == nil || o.Text() != "unicast "+c.want {
			t.Errorf("%s: %v, want %s", c.name, o, c.want)
		}
	}
}

// The port that probing has chosen is used, unless its interface is gone.
func TestTheChosenPortIsUsed(t *testing.T) {
	in := input()
	other := in.Ports[0]
	other.Label, other.IfName, other.Cost = "other", "eth9", 200
	in.Ports = append(in.Ports, other)
	in.Config.Port = "all"
	for chosen, want := range map[string]string{"": in.Ports[0].Label, "other": "other", "gone": in.Ports[0].Label} {
		in.Chosen = map[string]string{"all": chosen}
		if got := DesiredState(in).Port; got != want {
			t.Errorf("chosen %q: %q, want %q", chosen, got, want)
		}
	}
	in.Chosen = map[string]string{"all": "other"}
	in.Ports[len(in.Ports)-1].Up = false
	if got := DesiredState(in).Port; got != in.Ports[0].Label {
		t.Errorf("chosen and down: %q", got)
	}
}

// A flow that was translated to an address of another port than the one that leads to its remote end now must begin
// anew; one that another program translated is left alone.
func TestFlowsOfAPortThatWasLeftBeginAnew(t *testing.T) {
	in := input(adapter(appA, 0, 1, "10.1.0.128", "a", ACLRule{Direction: Both, Action: Allow, IP: prefix("0.0.0.0/0")}))
	old := PortStatus{PortConfig: PortConfig{Label: "old", IfName: "eth8"}, Exists: true, Up: true,
		Addresses: []netip.Prefix{prefix("203.0.113.2/24")}}
	in.Ports = append(in.Ports, old)
	denies := DeniesFlow(in)
	own := in.Ports[0].Addresses[0].Addr()
	for at, stale := range map[netip.Addr]bool{own: false, old.Addresses[0].Addr(): true, ip("198.18.0.1"): false} {
		remote := netip.MustParseAddrPort("198.51.100.80:80")
		f := netstate.Flow{Proto: 6, Src: netip.MustParseAddrPort("10.1.0.128:4000"), Dst: remote, ReplySrc: remote,
			ReplyDst: netip.AddrPortFrom(at, 4000)}
		if denies(f) != stale {
			t.Errorf("translated to %s: deleted: %v", at, !stale)
		}
		if got := Resets(in)(f); (got == "app-a") != stale {
			t.Errorf("translated to %s: ended in %q", at, got)
		}
		f.Proto = 17
		if got := Resets(in)(f); got != "" {
			t.Errorf("UDP: ended in %q", got)
		}
	}
}

// IPv6 leaves by the port that probing has chosen for it, whatever IPv4 uses; without a choice, by one that has an IPv6
// default route; and without any, as IPv4.
func TestIPv6LeavesByAPortOfItsOwn(t *testing.T) {
	in := input6(web())
	in.Config.Port = "all"
	six := func(label string, cost int, routes ...string) PortStatus {
		p := in.Ports[0]
		p.Label, p.IfName, p.Cost = label, IfName("if"+label), cost
		p.Addresses = slices.Concat(p.Addresses, []netip.Prefix{prefix("2001:db8:" + label + "::2/64")})
		p.DefaultRoutes = slices.DeleteFunc(slices.Clone(p.DefaultRoutes), func(r netstate.DefaultRoute) bool { return r.IPv6 })
		for _, r := range routes {
			p.DefaultRoutes = append(p.DefaultRoutes, netstate.DefaultVia(ip(r)))
		}
		return p
	}
	ports := []PortStatus{six("a", 0), six("b", 1, "fe80::b"), six("c", 2, "fe80::c")}
	for name, c := range map[string]struct {
		chosen map[string]string
		ports  []PortStatus
		want   string // of IPv4, and of IPv6 with its next hop
	}{
		"no choice":               {nil, ports, "a; ifb via fe80::b"},
		"chosen":                  {map[string]string{"all": "b", "all (IPv6)": "c"}, ports, "b; ifc via fe80::c"},
		"chosen and gone":         {map[string]string{"all": "c", "all (IPv6)": "d"}, ports, "c; ifb via fe80::b"},
		"chosen without a route":  {map[string]string{"all": "b", "all (IPv6)": "a"}, ports, "b; ifb via fe80::b"},
		"no port has IPv6 routes": {nil, ports[:1], "a; "},
	} {
		in.Ports, in.Chosen = c.ports, c.chosen
		d := DesiredState(in)
		by := ""
		if o := d.State[netstate.Route{Table: Table(in.Owner.Number), Dst: "::/0", Metric: metric6}.ID()]; o != nil {
			r := o.(netstate.Route)
			by = r.Dev + " via " + r.Via
		}
		if got := d.Port + "; " + by; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		dev, _, _ := strings.Cut(by, " ")
		for _, p := range c.ports {
			masked := strings.Contains(d.State.String(), `oifname "`+string(p.IfName)+`" masquerade`)
			if used := string(p.IfName) == dev || by == ""; masked != used {
				t.Errorf("%s: IPv6 is translated at %s: %v", name, p.IfName, masked)
			}
		}
		if warned := strings.Contains(d.Warning, "has no IPv6 default route"); warned != (by == "") {
			t.Errorf("%s: %q", name, d.Warning)
		}
	}
}

// A flow of IPv6 over a port that IPv6 has left is begun anew, and none of IPv4 on a port that it keeps.
func TestFlowsOfTheFamilyThatMovedAreReset(t *testing.T) {
	in := input6(web())
	other := in.Ports[0]
	other.Label, other.IfName, other.Addresses = "other", "eth9", []netip.Prefix{prefix("198.51.100.2/24"),
		prefix("2001:db8:9::2/64")}
	other.DefaultRoutes = []netstate.DefaultRoute{netstate.DefaultVia(ip("198.51.100.1")), netstate.DefaultVia(ip("fe80::9"))}
	in.Ports = append(in.Ports, other)
	in.Ports[0].Addresses = append(in.Ports[0].Addresses, prefix("2001:db8:7::2/64"))
	in.Ports[0].DefaultRoutes = append(in.Ports[0].DefaultRoutes, netstate.DefaultVia(ip("fe80::7")))
	in.Config.Port = "all"
	in.Chosen = map[string]string{"all": in.Ports[0].Label, "all (IPv6)": "other"}
	a := in.Adapters[0]
	flow := func(src netip.Addr, dst, by string) netstate.Flow {
		return netstate.Flow{Proto: protoTCP, Src: netip.AddrPortFrom(src, 4000), Dst: netip.AddrPortFrom(ip(dst), 443),
			ReplySrc: netip.AddrPortFrom(ip(dst), 443), ReplyDst: netip.AddrPortFrom(ip(by), 4000)}
	}
	denied := DeniesFlow(in)
	four := connected(in.Ports[0])[0].Addr().String()
	src6 := AdapterIP6(in.Config, a.Config.Spec, a.Lease)
	for name, c := range map[string]struct {
		flow netstate.Flow
		want bool
	}{
		"IPv4 stays":       {flow(a.Lease.IP, "203.0.113.9", four), false},
		"IPv6 has moved":   {flow(src6, "2001:db8:1::80", "2001:db8:7::2"), true},
		"IPv6 where it is": {flow(src6, "2001:db8:1::80", "2001:db8:9::2"), false},
	} {
		if got := denied(c.flow); got != c.want {
			t.Errorf("%s: denied is %v", name, got)
		}
	}
}

// What a network knows of its ports follows from the scores of both families, which are told apart by the names.
func TestWhatFollowsFromAChoice(t *testing.T) {
	score := func(label string, c probe.Class, resting bool) probe.Score {
		return probe.Score{Label: label, Class: c, Resting: resting}
	}
	got := UplinksOf(map[string]probe.Choice{
		"uplink": {Port: "a", Ports: []probe.Score{score("a", probe.Working, false), score("b", probe.Working, false),
			score("rests", probe.Working, true), score("slow", probe.Degraded, false), score("held", probe.Held, true),
			score("drained", probe.DrainedPort, false), score("silent", probe.TunnelSilent, false),
			score("gone", probe.Unusable, false)}},
		probe.OfIPv6("uplink"): {Port: "b", Ports: []probe.Score{score("b", probe.Working, false), score("a", probe.Dead, false)}},
	})
	six := probe.OfIPv6
	want := Uplinks{
		Chosen:  map[string]string{"uplink": "a", six("uplink"): "b"},
		Failing: map[string]bool{"rests": true, "held": true, "drained": true, "silent": true, "gone": true, six("a"): true},
		Broken:  map[string]bool{"silent": true, "gone": true, six("a"): true},
		Equals:  map[string][]string{"uplink": {"a", "b", "rests"}, six("uplink"): {"b"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// Each value of a port is chosen for by itself, of each family that the network has.
func TestWhichSelectorsANetworkHas(t *testing.T) {
	local := config()
	change := func(f func(*NetworkInstanceConfig)) NetworkInstanceConfig { c := local; f(&c); return c }
	routes := []StaticRoute{{Destination: prefix("10.8.0.0/16"), Port: "lab"}, {Destination: prefix("10.9.0.0/16")},
		{Destination: prefix("10.7.0.0/16"), Port: "uplink"}, {Destination: prefix("2001:db8::/32"), Port: "six"},
		{Destination: prefix("2001:db9::/32")}}
	for name, x := range map[string]struct {
		config NetworkInstanceConfig
		want   string
	}{
		"a local network": {local, "uplink"},
		"with IPv6":       {change(func(c *NetworkInstanceConfig) { c.IPv6.Mode = SLAAC }), "uplink|uplink (IPv6)"},
		"with routes":     {change(func(c *NetworkInstanceConfig) { c.Routes = routes }), "lab|uplink"},
		"with both": {change(func(c *NetworkInstanceConfig) { c.Routes, c.IPv6.Mode = routes, SLAAC }),
			"lab|six (IPv6)|uplink|uplink (IPv6)"},
		"air-gapped":   {change(func(c *NetworkInstanceConfig) { c.Port, c.IPv6.Mode = "", SLAAC }), ""},
		"routes alone": {change(func(c *NetworkInstanceConfig) { c.Port, c.Routes = "", routes[:2] }), "lab"},
		"a switch":     {change(func(c *NetworkInstanceConfig) { c.Type, c.Routes = Switch, routes }), ""},
	} {
		if got := strings.Join(Selectors(x.config), "|"); got != x.want {
			t.Errorf("%s: %s, want %s", name, got, x.want)
		}
	}
}

// Each family of a port has its own gateway, servers and reach; servers of the other family are used if there are no
// others.
func TestWhatIsProbedOfAPort(t *testing.T) {
	c := config()
	c.IPv6.Mode = SLAAC
	both := []string{"192.0.2.2/24", "2001:db8::2/64"}
	servers := func(p PortStatus, list ...string) PortStatus {
		for _, s := range list {
			p.DNSServers = append(p.DNSServers, ip(s))
		}
		return p
	}
	state := func(exists, up bool) PortStatus {
		p := leads("wan", 0, both, "192.0.2.1", "inet6")
		p.Exists, p.Up = exists, up
		return p
	}
	for name, x := range map[string]struct {
		port      PortStatus
		four, six string // reach, gateway and servers
	}{
		"leads out": {servers(state(true, true), "9.9.9.9", "2001:db8::53"), fmt.Sprint(probe.Out, " 192.0.2.1 [9.9.9.9]"),
			fmt.Sprint(probe.Out, " fe80::1 [2001:db8::53]")},
		"servers of IPv4": {servers(state(true, true), "9.9.9.9"), fmt.Sprint(probe.Out, " 192.0.2.1 [9.9.9.9]"),
			fmt.Sprint(probe.Out, " fe80::1 [9.9.9.9]")},
		"no way out of IPv6": {leads("wan", 0, both, "192.0.2.1"), fmt.Sprint(probe.Out, " 192.0.2.1 []"),
			fmt.Sprint(probe.NoRoute, " invalid IP []")},
		"IPv4 alone": {leads("wan", 0, both[:1], "192.0.2.1"), fmt.Sprint(probe.Out, " 192.0.2.1 []"),
			fmt.Sprint(probe.NoAddress, " invalid IP []")},
		"no way out of IPv4": {leads("wan", 0, both, "inet6"), fmt.Sprint(probe.NoRoute, " invalid IP []"),
			fmt.Sprint(probe.Out, " fe80::1 []")},
		"IPv6 alone": {leads("wan", 0, both[1:], "inet6"), fmt.Sprint(probe.NoAddress, " invalid IP []"),
			fmt.Sprint(probe.Out, " fe80::1 []")},
		"down": {state(true, false), fmt.Sprint(probe.Down, " 192.0.2.1 []"), fmt.Sprint(probe.Down, " fe80::1 []")},
		"gone": {state(false, true), fmt.Sprint(probe.Down, " 192.0.2.1 []"), fmt.Sprint(probe.Down, " fe80::1 []")},
	} {
		var got []string
		for _, p := range ProbePorts(c, []PortStatus{x.port}) {
			got = append(got, fmt.Sprint(p.Reach, " ", p.Gateway, " ", p.Servers))
		}
		if !slices.Equal(got, []string{x.four, x.six}) {
			t.Errorf("%s: %q, want %q and %q", name, got, x.four, x.six)
		}
	}
}
