package scenario

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// onSubnet returns network n with the subnet of network s.
func onSubnet(n, s int) string {
	return strings.Replace(network(n, ""), fmt.Sprintf("subnet: 10.%d.", n), fmt.Sprintf("subnet: 10.%d.", s), 1)
}

// serves checks that app a in a namespace gets a lease on network n, which has the subnet of network s, and can use
// the network: its DNS over UDP and TCP, from the app and from the host, and the way out.
func (w *world) serves(a, n, s int, ns string) {
	w.Helper()
	w.in(ns, "ip", "addr", "flush", "dev", "eth0")
	l := w.lease(ns)
	gateway := fmt.Sprintf("10.%d.0.1", s)
	if !netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/24", s)).Contains(l.IP) || l.Router != gateway ||
		l.Domain != fmt.Sprintf("n%d.edge", n) {
		w.Errorf("app%d on network %d has the lease %+v, want one of 10.%d.0.0/24", a, n, l, s)
	}
	name := fmt.Sprintf("app%d.n%d.edge", a, n)
	for _, from := range []string{ns, "node"} {
		for _, over := range []string{"+notcp", "+tcp"} {
			if got := w.in(from, "dig", over, "+short", "+tries=1", "+time=2", "@"+gateway, name); got != l.IP.String() {
				w.Errorf("%s %s is %q in %s, want %s", over, name, got, from, l.IP)
			}
		}
	}
	w.in(ns, "ping", "-c1", "-W2", lab.WebAddr)
}

// holds checks that the host has exactly what a config desires: its plan is empty, and there is one dnsmasq for each
// local network.
func (w *world) holds(config string, dnsmasqs int) {
	w.Helper()
	d, err := w.Config([]byte(config))
	if err != nil {
		w.Fatal(err)
	}
	w.eventually("a host as the config has it", func() bool {
		r, err := w.CLIWith(w.ctx, string(d), "plan", "-f", "-", "-o", "json")
		if err != nil || r.Code != 0 {
			w.Fatalf("plan: exit %d, %v: %s", r.Code, err, r.Err)
		}
		var plan struct{ Changes []any }
		if err := json.Unmarshal([]byte(r.Out), &plan); err != nil {
			w.Fatal(err)
		}
		return len(plan.Changes) == 0
	})
	if got := strings.Fields(w.dnsmasq()); len(got) != dnsmasqs {
		w.Errorf("%d dnsmasq run, want %d", len(got), dnsmasqs)
	}
}

func TestAStormOfReplacedAndSwappedNetworksEndsAsTheLastConfigSays(t *testing.T) {
	w := newWorld(t, "a", "b", "c", "bystander")
	// on is the subnet of a network and its app, by namespace.
	type on struct {
		n, s int
		ns   string
	}
	apps := map[string]int{"a": 1, "b": 2, "c": 3}
	steps := []struct {
		name string
		nets []on
	}{
		{"one network", []on{{1, 1, "a"}}},
		{"another in its place", []on{{2, 2, "a"}}},
		{"another with the same subnet", []on{{3, 2, "a"}}},
		{"two others, one with the first's subnet", []on{{4, 1, "a"}, {5, 5, "b"}}},
		{"a subnet handed on by one that takes another", []on{{4, 3, "a"}, {5, 5, "b"}, {6, 1, "c"}}},
		{"two swap their subnets", []on{{4, 1, "a"}, {5, 5, "b"}, {6, 3, "c"}}},
		{"three pass them round, and their apps too", []on{{4, 5, "b"}, {5, 3, "c"}, {6, 1, "a"}}},
		{"all replaced, with the same subnets", []on{{7, 5, "a"}, {8, 3, "b"}, {9, 1, "c"}}},
	}
	stays, home := network(20, ""), onNet(9, 20, "bystander", allowAll)
	w.start(doc([]string{stays}, home))
	w.wait("ready", "app/"+app(9))
	w.serves(9, 20, 20, "bystander")
	ask, err := w.DNSLoop("bystander", netip.MustParseAddr("10.20.0.1"), lab.WebName, netip.MustParseAddr(lab.WebAddr),
		2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ping, err := w.PingLoop("bystander", netip.MustParseAddr(lab.WebAddr), 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	var before []int
	for _, step := range steps {
		nets, on := []string{stays}, []string{home}
		var now []int
		for _, x := range step.nets {
			nets = append(nets, onSubnet(x.n, x.s))
			on = append(on, onNet(apps[x.ns], x.n, x.ns, allowAll))
			now = append(now, x.n)
		}
		began := time.Now()
		w.apply(doc(nets, on...))
		for _, x := range step.nets {
			w.wait("ready", "ni/"+ni(x.n), "app/"+app(apps[x.ns]))
		}
		for _, n := range before {
			if !slices.Contains(now, n) {
				w.wait("absent", "ni/"+ni(n))
			}
		}
		t.Logf("%s: %v", step.name, time.Since(began))
		for _, x := range step.nets {
			w.serves(apps[x.ns], x.n, x.s, x.ns)
		}
		w.holds(doc(nets, on...), len(nets))
		before = now
	}
	for name, l := range map[string]*lab.Loop{"pings": ping, "answers": ask} {
		if c := l.Stop(); c.Lost+c.Wrong > 0 || c.Good < 200 {
			t.Errorf("of the network that stays: %s: %v", name, c)
		}
	}
}

func TestANetworkGetsAnotherSubnetUnderItsApps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b")
	apps := []string{onNet(1, 1, "a", allowAll), onNet(2, 1, "b", allowAll)}
	shaped := func(ipv4 string) string {
		return doc([]string{strings.Replace(network(1, ""), "subnet: 10.1.0.0/24", ipv4, 1)}, apps...)
	}
	w.start(shaped("subnet: 10.1.0.0/24"))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	for _, c := range []struct{ ipv4, gateway, subnet string }{
		{"subnet: 10.1.0.0/24, gateway: 10.1.0.100", "10.1.0.100", "10.1.0.0/24"}, // another gateway
		{"subnet: 10.1.0.0/16, gateway: 10.1.0.100", "10.1.0.100", "10.1.0.0/16"}, // wider, the same gateway
		{"subnet: 10.1.0.0/25", "10.1.0.1", "10.1.0.0/25"},                        // narrower
		{"subnet: 10.1.0.128/25", "10.1.0.129", "10.1.0.128/25"},                  // the other half
		{"subnet: 10.9.0.0/24", "10.9.0.1", "10.9.0.0/24"},                        // somewhere else
		{"subnet: 10.1.0.0/24", "10.1.0.1", "10.1.0.0/24"},
	} {
		began := time.Now()
		w.apply(shaped(c.ipv4))
		w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
		if took := time.Since(began); took > 2800*time.Millisecond { // it takes 0.1 s; an unanswered probe ends after 3 s
			t.Errorf("%s took %v", c.ipv4, took)
		}
		for a, ns := range map[int]string{1: "a", 2: "b"} {
			w.in(ns, "ip", "addr", "flush", "dev", "eth0")
			l := w.lease(ns)
			if l.Router != c.gateway || !netip.MustParsePrefix(c.subnet).Contains(l.IP) || l.IP != w.ip(app(a)) {
				t.Errorf("%s: %s has the lease %+v", c.ipv4, ns, l)
			}
			w.in(ns, "ping", "-c1", "-W2", lab.WebAddr)
			if got := w.in(ns, "dig", "+tcp", "+short", "+tries=1", "+time=2", "@"+c.gateway,
				"gateway.n1.edge"); got != c.gateway {
				t.Errorf("%s: the gateway is %q", c.ipv4, got)
			}
		}
		w.in("a", "ping", "-c1", "-W2", w.ip(app(2)).String())
		w.holds(shaped(c.ipv4), 1)
	}
}
