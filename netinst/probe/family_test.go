package probe

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func addrs(list ...string) (out []netip.Addr) {
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// Each family of a port is probed by its own next hop and by the targets that it can reach.
func TestWhatIsProbedOfEachFamily(t *testing.T) {
	four := Port{Label: "wan", IfName: "eth0", Reach: Out, Gateway: netip.MustParseAddr("192.0.2.1"),
		Servers: addrs("198.51.100.53", "192.0.2.1"), Neighbours: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	six := Port{Label: "wan", IfName: "eth0", Reach: Out, IPv6: true, Gateway: netip.MustParseAddr("fe80::1"),
		Servers:    addrs("2001:db8:9::1", "2001:db8:53::53"),
		Neighbours: []netip.Prefix{netip.MustParsePrefix("2001:db8:9::/64")}}
	mapped := four
	mapped.Gateway = six.Gateway // RFC 5549
	down, foreign := six, six
	down.Reach = NoRoute
	foreign.Servers = four.Servers
	for name, c := range map[string]struct {
		config Config
		port   Port
		want   string
	}{
		"IPv4 by itself":            {Config{}, four, "arp 192.0.2.1, dns 198.51.100.53"},
		"IPv6 by itself":            {Config{}, six, "nd fe80::1, dns 2001:db8:53::53"},
		"IPv4 by an IPv6 gateway":   {Config{}, mapped, "nd fe80::1, dns 198.51.100.53"},
		"IPv6 that leads nowhere":   {Config{}, down, ""},
		"servers of the other":      {Config{}, foreign, "nd fe80::1"},
		"addresses of IPv4, IPv6":   {Config{Method: ICMP, Targets: []string{"192.0.2.9"}}, six, "nd fe80::1, dns 2001:db8:53::53"},
		"addresses of IPv6, IPv4":   {Config{Method: ICMP, Targets: []string{"2001:db8::1"}}, four, "arp 192.0.2.1, dns 198.51.100.53"},
		"addresses of both, IPv4":   {Config{Method: ICMP, Targets: []string{"2001:db8::1", "192.0.2.9"}}, four, "arp 192.0.2.1, icmp 192.0.2.9"},
		"addresses of both, IPv6":   {Config{Method: ICMP, Targets: []string{"2001:db8::1", "192.0.2.9"}}, six, "nd fe80::1, icmp 2001:db8::1"},
		"services of both, IPv6":    {Config{Method: TCP, Targets: []string{"[2001:db8::1]:80", "192.0.2.9:80"}}, six, "nd fe80::1, tcp [2001:db8::1]:80"},
		"services of both, IPv4":    {Config{Method: TCP, Targets: []string{"[2001:db8::1]:80", "192.0.2.9:80"}}, four, "arp 192.0.2.1, tcp 192.0.2.9:80"},
		"URLs of both, IPv6":        {Config{Method: HTTP, Targets: []string{"http://[2001:db8::1]:8/x", "http://192.0.2.9/"}}, six, "nd fe80::1, http http://[2001:db8::1]:8/x"},
		"DNS servers of both, IPv6": {Config{Method: DNS, Targets: []string{"2001:db8::53", "192.0.2.53"}}, six, "nd fe80::1, dns 2001:db8::53"},
		"a host name, IPv4":         {Config{Method: ICMP, Targets: []string{"a.example"}}, four, "arp 192.0.2.1, icmp a.example by 198.51.100.53,192.0.2.1"},
		"a host name, IPv6":         {Config{Method: TCP, Targets: []string{"a.example:80"}}, six, "nd fe80::1, tcp a.example:80 by 2001:db8:9::1,2001:db8:53::53 (AAAA)"},
		"a host name, IPv6 by others": {Config{Method: HTTP, Targets: []string{"https://a.example:8443/"}}, foreign,
			"nd fe80::1, http https://a.example:8443/ by 198.51.100.53,192.0.2.1 (AAAA)"},
	} {
		gateway, remote := c.config.probes(c.port, false)
		var words []string
		for _, id := range slices.Concat(gateway, remote) {
			text := string(id.Method) + " " + id.Target
			if id.Servers != "" {
				text += " by " + id.Servers
			}
			if id.IPv6 {
				text += " (AAAA)"
			}
			words = append(words, text)
		}
		if got := strings.Join(words, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A quorum counts the targets of a family, and the DNS servers that stand for targets back each other up.
func TestAQuorumOfEachFamily(t *testing.T) {
	c := Config{Method: ICMP, Quorum: 2, Targets: []string{"192.0.2.1", "192.0.2.2", "a.example"}}
	if four, six := c.quorum(false), c.quorum(true); four != 2 || six != 1 {
		t.Errorf("with a name: %d of IPv4, %d of IPv6", four, six)
	}
	c.Targets = c.Targets[:2]
	if combined([]*health{{state: Works}, {state: Fails}}, c.quorum(true)) != Works {
		t.Error("of two DNS servers, one answers: fails")
	}
}

// Two probes of one host name in different families are two.
func TestProbesOfTwoFamiliesDiffer(t *testing.T) {
	four := ID{Port: "wan", Method: ICMP, Target: "a.example"}
	six := four
	six.IPv6 = true
	if four.String() == six.String() || strings.Count(four.String(), "|") != 7 {
		t.Errorf("%s and %s", four, six)
	}
}

// twins are two ports of which IPv4 and IPv6 are chosen.
func twins() []Port {
	var list []Port
	for i, label := range []string{"lte", "wan"} {
		for _, ipv6 := range []bool{false, true} {
			p := Port{Label: label, IfName: label, IPv6: ipv6, Reach: Out, Cost: 10 - 10*i, Selectors: []string{"uplink"},
				Servers: addrs("198.51.100.53")}
			if ipv6 {
				p.Selectors, p.Servers = []string{OfIPv6("uplink")}, addrs("2001:db8::53")
			}
			list = append(list, p)
		}
	}
	return list
}

// The IPv6 of an uplink breaks alone: IPv6 moves and IPv4 stays; both are remembered, and a drain is for both.
func TestIPv6MovesAlone(t *testing.T) {
	c, now := New(Record{}), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	selectors := []string{"uplink", OfIPv6("uplink")}
	var watched []ID
	var record Record
	chosen := map[string]string{}
	step := func(e Event) {
		for _, eff := range c.Step(e) {
			switch eff := eff.(type) {
			case Watch:
				watched = eff.IDs
			case Choose:
				for s, x := range eff.Choices {
					chosen[s] = x.Port
				}
			case Journal:
				record = eff.Record
			}
		}
	}
	is := func(why, four, six string) {
		t.Helper()
		if chosen["uplink"] != four || chosen[OfIPv6("uplink")] != six {
			t.Errorf("%s: %v, want %s and %s", why, chosen, four, six)
		}
	}
	step(Configured{Selectors: selectors, Ports: twins(), At: now})
	is("at first", "wan", "wan")
	for n := range DefaultFailAfter {
		for _, id := range watched {
			o := Outcomes{ID: id, Count: uint64(n)}
			x := Outcome{At: now, Took: time.Millisecond}
			if id.Port == "wan" && id.Target == "2001:db8::53" {
				x.Error = "no answer"
			}
			step(OutcomesSeen{o.Add(x), now})
		}
		now = now.Add(time.Second)
	}
	is("IPv6 of wan is dead", "wan", "lte")
	if h := record.Holds; h["wan"].Fails != 0 || h[OfIPv6("wan")].Fails != 1 {
		t.Errorf("hold-downs: %v", h)
	}
	if again := New(record); again.chosen["uplink"].Label != "wan" || again.chosen[OfIPv6("uplink")].Label != "lte" {
		t.Errorf("after a restart: %v", again.chosen)
	}
	step(Drained{map[string]time.Time{"wan": {}}, now})
	is("wan is drained", "lte", "lte")
	step(Drained{map[string]time.Time{"lte": {}}, now})
	is("lte is drained, and nothing else has IPv6", "wan", "lte")
	if text := Report(c.shown, "uplink"); !strings.Contains(text, "; IPv6 by port lte: ") {
		t.Errorf("report: %s", text)
	}
	classes := Classes(map[string]map[string]Choice{"net": c.shown})
	if classes["wan"] != "no target answers, works (dns 2001:db8::53: no answer)" {
		t.Errorf("classes: %v", classes)
	}
	none := twins()
	none[3].Reach = NoAddress // the IPv6 of wan
	step(PortsSeen{none, now})
	if classes := Classes(map[string]map[string]Choice{"net": c.shown}); classes["wan"] != "works" {
		t.Errorf("classes of a port without IPv6: %v", classes)
	}
}

// In any history, what happens to one family decides nothing about the other: a chooser of both decides as two of one.
func TestFamiliesDecideAloneInAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		names := map[bool]string{false: "uplink", true: OfIPv6("uplink")}
		both, apart := New(Record{}), map[bool]*Chooser{false: New(Record{}), true: New(Record{})}
		ports, runs := twins(), map[ID]Outcomes{}
		see := func() {
			both.Step(Configured{Selectors: []string{names[false], names[true]}, Ports: ports, At: now})
			for six, c := range apart {
				own := slices.DeleteFunc(slices.Clone(ports), func(p Port) bool { return p.IPv6 != six })
				c.Step(Configured{Selectors: []string{names[six]}, Ports: own, At: now})
			}
		}
		see()
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			i := rapid.IntRange(0, len(ports)-1).Draw(t, "port")
			ports = slices.Clone(ports)
			ports[i].Reach = rapid.SampledFrom([]Reach{Down, NoRoute, Out, Out, Out}).Draw(t, "reach")
			see()
			dead := map[int]bool{}
			for n := range ports {
				dead[n] = rapid.IntRange(0, 2).Draw(t, "dead") == 0
			}
			for range rapid.SampledFrom([]int{1, 4, 12}).Draw(t, "seconds") {
				now = now.Add(time.Second)
				for _, id := range both.watched {
					n := slices.IndexFunc(ports, func(p Port) bool {
						return p.Label == id.Port && p.IPv6 == strings.Contains(id.Target, ":")
					})
					o := Outcome{At: now, Took: time.Millisecond}
					if dead[n] {
						o.Error = "no answer"
					}
					run := runs[id]
					run.ID = id
					runs[id] = run.Add(o)
					for _, c := range []*Chooser{both, apart[false], apart[true]} {
						c.Step(OutcomesSeen{runs[id], now})
					}
				}
				for _, c := range []*Chooser{both, apart[false], apart[true]} {
					c.Step(TimerDue{c.token, now})
				}
			}
			for six, name := range names {
				if a, b := both.shown[name], apart[six].shown[name]; a.Port != b.Port || !reflect.DeepEqual(classesOf(a), classesOf(b)) {
					t.Fatalf("%s: %+v with the other family, %+v alone", name, a, b)
				}
			}
		}
	})
}

func classesOf(c Choice) map[string]Class {
	out := map[string]Class{}
	for _, s := range c.Ports {
		out[s.Label] = s.Class
	}
	return out
}
