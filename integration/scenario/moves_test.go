package scenario

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

func TestAnAppThatMovesIsReachedWhereItIsAndLeavesItsAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "pong", "ping1", "ping2", "heir")
	// Network 1 has one address besides that of its other app.
	first := strings.Replace(network(1, ""), "subnet: 10.1.0.0/24",
		"subnet: 10.1.0.0/24, dhcpRange: 10.1.0.200-10.1.0.201", 1)
	nets := []string{first, network(2, "")}
	others := []string{onNet(2, 1, "ping1", allowAll), onNet(3, 2, "ping2", allowAll)}
	with := func(apps ...string) string { return doc(nets, append(apps, others...)...) }
	w.start(with())
	w.wait("ready", "app/"+app(2), "app/"+app(3))
	w.lease("ping1")
	w.lease("ping2")
	asks := func(from string, n int) string {
		return w.in(from, "dig", "+short", "+tries=1", "+time=2", fmt.Sprintf("@10.%d.0.1", n),
			fmt.Sprintf("app1.n%d.edge", n))
	}
	var old netip.Addr
	for i, n := range []int{1, 2, 1} {
		w.apply(with(onNet(1, n, "pong", allowAll)))
		w.wait("ready", "app/"+app(1))
		w.lease("pong")
		if s := w.status("app", app(1)); s["targetVersion"] != float64(i+1) {
			t.Errorf("move %d: the status is %v", i, s)
		}
		now, away := w.ip(app(1)), 3-n
		here, there := fmt.Sprintf("ping%d", n), fmt.Sprintf("ping%d", away)
		w.in("pong", "ping", "-c1", "-W2", w.ip(app(n+1)).String()) // sent first: it announces its MAC
		w.in(here, "ping", "-c1", "-W2", now.String())
		w.fails(there, "ping", "-c1", "-W1", now.String())
		if got := asks(here, n); got != now.String() {
			t.Errorf("move %d: network %d says app1 is %q, want %s", i, n, got, now)
		}
		if got := asks(there, away); got != "" {
			t.Errorf("move %d: network %d still says app1 is %q", i, away, got)
		}
		if i == 1 { // the address is free: another app may get it
			w.apply(with(onNet(1, 2, "pong", allowAll), onNet(4, 1, "heir", allowAll)))
			w.wait("ready", "app/"+app(4))
			if got := w.ip(app(4)); got != old {
				t.Errorf("the heir has %s, want %s", got, old)
			}
			w.lease("heir")
			w.in("heir", "ping", "-c1", "-W2", w.ip(app(2)).String()) // announces the new MAC to ping1
			w.in("ping1", "ping", "-c1", "-W2", old.String())
			// No address is left for an app that returns, and the heir keeps its own.
			w.apply(with(onNet(1, 1, "pong", allowAll), onNet(4, 1, "heir", allowAll)))
			w.pends(1, "no free IP addresses")
			w.in("ping1", "ping", "-c1", "-W2", old.String())
			w.apply(with(onNet(1, 1, "pong", allowAll)))
			w.wait("absent", "app/"+app(4))
		}
		old = now
	}
	// Two networks swap their apps: both move in one apply.
	w.apply(doc(nets, onNet(2, 2, "ping1", allowAll), onNet(3, 1, "ping2", allowAll)))
	w.wait("ready", "app/"+app(2), "app/"+app(3))
	w.serves(2, 2, 2, "ping1")
	w.serves(3, 1, 1, "ping2")
	w.holds(doc(nets, onNet(2, 2, "ping1", allowAll), onNet(3, 1, "ping2", allowAll)), 2)
}

// twice returns an app with two adapters on network n, eth0 and eth1.
func twice(a, n int, ns string) string {
	one := onNet(a, n, ns, allowAll)
	_, adapter, _ := strings.Cut(one, "      0: ")
	return one + "      1: " + adapter
}

func TestAnAppHasTwoAdaptersOnOneNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "two", "peer")
	nets, peer := []string{network(1, "")}, onNet(2, 1, "peer", allowAll)
	w.start(doc(nets, twice(1, 1, "two"), peer))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.lease("peer")
	answers := func() []string {
		ips := strings.Fields(w.in("peer", "dig", "+short", "+tries=1", "+time=2", "@10.1.0.1", "app1.n1.edge"))
		slices.Sort(ips)
		return ips
	}
	for round := range 2 {
		var ips []string
		for _, dev := range []string{"eth0", "eth1"} {
			l, err := w.DHCP(w.ctx, "two", dev)
			if err != nil {
				t.Fatal(err)
			}
			ips = append(ips, l.IP.String())
			w.in("two", "ping", "-c1", "-W2", "-I", dev, "10.1.0.1")
		}
		slices.Sort(ips)
		if ips[0] == ips[1] || !slices.Equal(answers(), ips) {
			t.Errorf("round %d: the leases are %v, the name is %v", round, ips, answers())
		}
		if m0, m1 := w.mac("two", "eth0").String(), w.mac("two", "eth1").String(); m0 == m1 {
			t.Errorf("round %d: both have the MAC %s", round, m0)
		}
		if round == 0 { // purged: removed and created again
			w.apply(doc(nets, peer))
			w.wait("absent", "app/"+app(1))
			w.without("two", "eth0", "eth1")
			if got := answers(); len(got) > 0 {
				t.Errorf("the name of an app that is gone is %v", got)
			}
			w.apply(doc(nets, twice(1, 1, "two"), peer))
			w.wait("ready", "app/"+app(1))
		}
	}
	// One of them is removed, the other is unchanged.
	stays := w.ip(app(1))
	ping, err := w.PingLoop("peer", stays, 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	w.apply(doc(nets, onNet(1, 1, "two", allowAll), peer))
	w.wait("ready", "app/"+app(1))
	w.without("two", "eth1")
	if got := answers(); !slices.Equal(got, []string{stays.String()}) {
		t.Errorf("with one adapter left the name is %v, want %s", got, stays)
	}
	flow(t, w, ping)
	if c := ping.Stop(); c.Lost+c.Wrong > 0 {
		t.Errorf("to the one that stays: %v", c)
	}
}

// named is onNet with another displayName.
func named(a, n int, ns, name string) string {
	return strings.Replace(onNet(a, n, ns, allowAll), fmt.Sprintf("displayName: app%d\n", a), "displayName: "+name+"\n", 1)
}

func TestAnAppIsReplacedAtOnceByOneOfTheSameName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "even", "odd", "peer")
	nets, peer := []string{network(1, "")}, onNet(9, 1, "peer", allowAll)
	w.start(doc(nets, named(1, 1, "odd", "shop"), peer))
	w.wait("ready", "app/"+app(1), "app/"+app(9))
	w.lease("peer")
	pid := w.dnsmasq()
	states := w.cli("get", "ni", ni(1), "-o", "json")
	for a := 2; a <= 7; a++ {
		ns := []string{"even", "odd"}[a%2]
		if a == 6 { // its successor has the same namespace too
			ns = "odd"
		}
		w.apply(doc(nets, named(a, 1, ns, "shop"), peer))
		w.wait("ready", "app/"+app(a))
		w.wait("absent", "app/"+app(a-1))
		l := w.lease(ns)
		if got := w.in("peer", "dig", "+short", "+tries=1", "+time=2", "@10.1.0.1", "shop.n1.edge"); got != l.IP.String() {
			t.Errorf("after app%d came the name is %q, want %s", a, got, l.IP)
		}
		if l.Hostname != "shop" {
			t.Errorf("app%d is called %q", a, l.Hostname)
		}
		w.in("peer", "ping", "-c1", "-W2", l.IP.String())
	}
	// Repeatedly without waiting: the last config counts.
	for a := 10; a < 20; a++ {
		w.apply(doc(nets, named(a, 1, "even", "shop"), peer))
	}
	w.wait("ready", "app/"+app(19))
	for a := 10; a < 19; a++ {
		w.wait("absent", "app/"+app(a))
	}
	l := w.lease("even")
	if got := w.in("peer", "dig", "+short", "+tries=1", "+time=2", "@10.1.0.1", "shop.n1.edge"); got != l.IP.String() {
		t.Errorf("at the end the name is %q, want %s", got, l.IP)
	}
	if now := w.cli("get", "ni", ni(1), "-o", "json"); now != states {
		t.Errorf("the network was\n%s\nand is\n%s", states, now)
	}
	if now := w.dnsmasq(); now != pid {
		t.Errorf("dnsmasq was %s and is %s", pid, now)
	}
	w.holds(doc(nets, named(19, 1, "even", "shop"), peer), 1)
}

func TestANetworkDesiredAgainBeforeItsRemovalWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b")
	n, quiet := network(1, ""), network(1, "    activate: false\n")
	one, two := onNet(1, 1, "a", allowAll), onNet(2, 1, "b", allowAll)
	off := strings.Replace(one, "activate: true", "activate: false", 1)
	on := doc([]string{n}, one, two)
	w.start(on)
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	version := func() float64 { v, _ := w.status("app", app(1))["targetVersion"].(float64); return v }
	for name, teardown := range map[string]string{
		"the app is deactivated":     doc([]string{n}, off, two),
		"the app is deleted":         doc([]string{n}, two),
		"the network is deactivated": doc([]string{quiet}, one, two),
		"the network is deleted":     doc(nil, one, two),
		"everything is deleted":      "{}",
	} {
		before := version()
		for range 6 {
			w.apply(teardown)
			w.apply(on)
		}
		w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
		w.serves(1, 1, 1, "a")
		w.holds(on, 1)
		for _, s := range []map[string]any{w.status("ni", ni(1)), w.status("app", app(1)), w.status("app", app(2))} {
			if s["error"] != "" {
				t.Errorf("%s and there again: %v", name, s)
			}
		}
		if now := version(); now < before {
			t.Errorf("%s: the version fell from %v to %v", name, before, now)
		}
	}
	// The reverse: the last config is empty.
	for range 6 {
		w.apply(on)
		w.apply(doc([]string{quiet}, off))
	}
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.wait("absent", "app/"+app(2))
	w.without("a", "eth0")
	w.without("b", "eth0")
	w.in("node", "dig", "+short", "+tries=1", "+time=2", "@10.1.0.1", lab.WebName)
}

// An app gets a second adapter, both change places between networks and back, the daemon restarts, and the first one
// goes: at each step the other adapter keeps what is not part of the change, and each has its own MAC and address.
func TestAdaptersThatChangePlacesKeepWhatIsTheirs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "two")
	nets := []string{network(1, ""), network(2, "")}
	at := func(networks ...int) string { // of adapters 0, 1; 0 for none
		text := fmt.Sprintf("  %s:\n    displayName: app1\n    activate: true\n    adapters:\n", app(1))
		for i, n := range networks {
			if n > 0 {
				text += fmt.Sprintf("      %d: {networkInstance: %s, attach: {kind: veth, netns: two, ifName: eth%d}, acl: {%s}}\n", i,
					ni(n), i, allowAll)
			}
		}
		return doc(nets, text)
	}
	type adapter struct {
		mac, ip string
		index   int // of the link: it is the same one
	}
	look := func(why string, networks ...int) (out []adapter) {
		t.Helper()
		for i, n := range networks {
			if n == 0 {
				out = append(out, adapter{})
				continue
			}
			dev := fmt.Sprint("eth", i)
			l, err := w.DHCP(w.ctx, "two", dev)
			if err != nil {
				t.Fatalf("%s: adapter %d: %v", why, i, err)
			}
			if !strings.HasPrefix(l.IP.String(), fmt.Sprintf("10.%d.0.", n)) {
				t.Errorf("%s: adapter %d has %s, not of network %d", why, i, l.IP, n)
			}
			index, err := strconv.Atoi(w.in("two", "cat", "/sys/class/net/"+dev+"/ifindex"))
			if err != nil {
				t.Fatal(err)
			}
			w.in("two", "ping", "-c1", "-W2", "-I", dev, fmt.Sprintf("10.%d.0.1", n))
			out = append(out, adapter{w.mac("two", dev).String(), l.IP.String(), index})
		}
		return out
	}
	w.start(at(1))
	w.wait("ready", "app/"+app(1))
	alone := look("one adapter", 1)
	step := func(why string, networks ...int) []adapter {
		t.Helper()
		w.apply(at(networks...))
		w.wait("ready", "app/"+app(1))
		return look(why, networks...)
	}
	both := step("a second adapter", 1, 2)
	if both[0] != alone[0] || both[0].mac == both[1].mac {
		t.Errorf("the first adapter was %v, with a second one they are %v", alone, both)
	}
	step("in each other's place", 2, 1)
	back := step("back in their places", 1, 2)
	for i := range both {
		if back[i].mac != both[i].mac || back[i].ip != both[i].ip {
			t.Errorf("adapter %d was %v, and is %v after it was in another network", i, both[i], back[i])
		}
	}
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wait("ready", "app/"+app(1))
	if got := look("a restart", 1, 2); !slices.Equal(got, back) {
		t.Errorf("a restart made %v of %v", got, back)
	}
	w.apply(at(0, 2))
	w.wait("ready", "app/"+app(1))
	w.without("two", "eth0")
	if got := look("the second alone", 0, 2); got[1] != back[1] {
		t.Errorf("without the first adapter the second is %v, which was %v", got[1], back[1])
	}
}
