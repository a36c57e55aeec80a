package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"edgespan/platform/lab"
)

// pends waits until an app is pending and its error has all the words.
func (w *world) pends(a int, words ...string) {
	w.Helper()
	w.eventually(fmt.Sprintf("app%d pending with %q", a, words), func() bool {
		s := w.status("app", app(a))
		text, _ := s["error"].(string)
		return s["pending"] == true &&
			!slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	})
}

// without waits until the links of a namespace are gone.
func (w *world) without(ns string, links ...string) {
	w.Helper()
	now := w.in(ns, "ip", "-o", "link")
	for _, l := range links {
		if strings.Contains(now, " "+l+"@") || strings.Contains(now, " "+l+":") {
			w.Errorf("%s still has %s:\n%s", ns, l, now)
		}
	}
}

func TestANetworkIsDeletedUnderItsAppsAndComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b", "c")
	n1, n2 := network(1, ""), network(2, "")
	one, two, other := onNet(1, 1, "a", allowAll), onNet(2, 1, "b", allowAll), onNet(3, 2, "c", allowAll)
	w.start(doc([]string{n1, n2}, one, two, other))
	w.wait("ready", "app/"+app(1), "app/"+app(2), "app/"+app(3))
	before := w.ip(app(1))

	w.apply(doc([]string{n2}, one, two, other))
	w.wait("absent", "ni/"+ni(1))
	w.pends(1, "net1", "not in the config")
	w.pends(2, "net1", "not in the config")
	w.without("a", "eth0")
	w.without("b", "eth0")
	w.holds(doc([]string{n2}, one, two, other), 1)
	w.wait("ready", "app/"+app(3))

	// One of the apps changes meanwhile, and the other is removed, both without their network.
	one = onNet(1, 1, "a", "web: {action: allow, direction: egress, match: {ip: "+lab.WebAddr+"}}")
	w.apply(doc([]string{n2}, one, other))
	w.wait("absent", "app/"+app(2))
	w.pends(1, "net1", "not in the config")

	w.apply(doc([]string{n1, n2}, one, other))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.serves(1, 1, 1, "a")
	if got := w.ip(app(1)); got != before {
		t.Errorf("app1 had %s and has %s", before, got)
	}
	w.fails("a", "ping", "-c1", "-W1", "192.0.2.1") // the new rules apply

	// Remove and add it repeatedly without waiting, with a new subnet too.
	for i := range 5 {
		w.apply(doc([]string{n2}, one, other))
		w.apply(doc([]string{onSubnet(1, 30+i), n2}, one, other))
	}
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.serves(1, 1, 34, "a")

	// It returns as another type of network, and as itself.
	w.apply(doc([]string{switchNetwork(1, ""), n2}, one, other))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.holds(doc([]string{switchNetwork(1, ""), n2}, one, other), 1)
	w.apply(doc([]string{n1, n2}, one, other))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.serves(1, 1, 1, "a")

	// Remove it with all its apps.
	w.apply(doc([]string{n2}, other))
	w.wait("absent", "ni/"+ni(1), "app/"+app(1))
	w.without("a", "eth0")
	w.holds(doc([]string{n2}, other), 1)
}

func TestAnAppWaitsForItsNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b")
	early := []string{onNet(1, 1, "a", allowAll), onNet(2, 2, "b", allowAll)}
	w.start(doc(nil, early...))
	w.pends(1, ni(1), "not in the config")
	w.pends(2, ni(2), "not in the config")
	if warning := w.status("app", app(1)); warning["targetVersion"] != float64(1) {
		t.Errorf("the app is %v", warning)
	}
	// The daemon dies while they wait.
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.pends(1, ni(1), "not in the config")

	w.apply(doc([]string{network(1, "")}, early...))
	w.wait("ready", "app/"+app(1))
	w.serves(1, 1, 1, "a")
	w.pends(2, ni(2), "not in the config")
	// An app whose network never existed is removed without side effects.
	w.apply(doc([]string{network(1, "")}, early[0]))
	w.wait("absent", "app/"+app(2))
	w.apply(doc([]string{network(1, ""), network(2, "")}, early...))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.serves(2, 2, 2, "b")
	if s := w.status("app", app(1)); s["targetVersion"] != float64(1) {
		t.Errorf("app1, which never changed, is %v", s)
	}
}

func TestAnInvalidNetworkIsRefusedAndWorksOnceItIsFixed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b")
	stays, home := network(2, ""), onNet(2, 2, "b", allowAll)
	w.start(doc([]string{stays}, home))
	w.wait("ready", "app/"+app(2))
	w.lease("b")
	before := w.dump("node")
	guest := onNet(1, 1, "a", allowAll)
	for bad, want := range map[string]string{
		"subnet: 10.1.0.0/24, gateway: 10.7.0.1":                                     "gateway",
		"subnet: 10.1.0.0/24, gateway: 10.1.0.200, dhcpRange: 10.1.0.100-10.1.0.220": "dhcpRange",
		"subnet: 10.1.0.0/24, dhcpRange: 10.1.0.220-10.1.0.100":                      "dhcpRange",
		"subnet: 10.2.0.0/16":                    "overlaps",
		"subnet: 10.1.0.0/31":                    "subnet",
		"subnet: 10.1.0.0/24, gateway: 10.1.0.0": "gateway",
	} {
		net := strings.Replace(network(1, ""), "subnet: 10.1.0.0/24", bad, 1)
		d, err := w.Config([]byte(doc([]string{net, stays}, guest, home)))
		if err != nil {
			t.Fatal(err)
		}
		r, err := w.CLIWith(w.ctx, string(d), "apply", "-f", "-")
		if err != nil || r.Code != 4 || !strings.Contains(r.Err, ni(1)) || !strings.Contains(r.Err, want) {
			t.Errorf("%s: exit %d, %v: %s; want 4 and the words %s and %s", bad, r.Code, err, r.Err, ni(1), want)
		}
	}
	w.wait("ready", "ni/"+ni(2), "app/"+app(2))
	if now := w.dump("node"); now != before {
		t.Errorf("refused configs changed the host:\n%s", changed(before, now))
	}
	// A valid network on a missing port waits; its app gets services, and so do others.
	lost := strings.Replace(network(1, ""), "port: wan", "port: lte", 1)
	withLTE := func(nets []string, apps ...string) string {
		return strings.Replace(doc(nets, apps...), wan, wan+"  lte: {ifName: wwan7, uplink: true}\n", 1)
	}
	w.apply(withLTE([]string{lost, stays}, guest, home))
	w.eventually("the reason", func() bool {
		s := w.status("ni", ni(1))
		text, _ := s["error"].(string)
		return s["state"] == "WaitingForDependencies" && strings.Contains(text, "wwan7 does not exist")
	})
	w.wait("ready", "app/"+app(1))
	w.lease("a")
	w.fails("a", "ping", "-c1", "-W1", lab.WebAddr)
	ip, mac := w.ip(app(1)), w.mac("a", "eth0")
	w.apply(doc([]string{network(1, ""), stays}, guest, home))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.serves(1, 1, 1, "a")
	if now := w.ip(app(1)); now != ip || w.mac("a", "eth0").String() != mac.String() {
		t.Errorf("mended it has %s and %s, before it had %s and %s", now, w.mac("a", "eth0"), ip, mac)
	}
}
