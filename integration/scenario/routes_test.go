package scenario

import (
	"strings"
	"testing"
)

func TestARouteThatNoPortReachesDisturbsNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	const routes = "    routes:\n      bad: {destination: 198.18.0.0/15, gateway: 203.0.113.9}\n      good: " +
		"{destination: 100.64.0.0/10, gateway: 192.0.2.1}\n"
	w.start(doc([]string{network(1, routes)}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	const want = "route bad is left out: gateway 203.0.113.9 is on no subnet of port wan (uplink0)"
	if s := w.status("ni", ni(1)); s["state"] != "Present" || s["error"] != "" || s["warning"] != want {
		t.Errorf("the status is %v", s)
	}
	table := w.in("node", "ip", "route", "show", "table", "20001")
	if strings.Contains(table, "198.18.0.0/15") || !strings.Contains(table, "100.64.0.0/10 via 192.0.2.1") {
		t.Errorf("the table is\n%s", table)
	}
	// The gateway comes within reach.
	w.in("node", "ip", "addr", "add", "203.0.113.2/24", "dev", "uplink0")
	w.eventually("the route", func() bool {
		return strings.Contains(w.in("node", "ip", "route", "show", "table", "20001"), "198.18.0.0/15 via 203.0.113.9")
	})
	w.eventually("the end of the warning", func() bool { return w.status("ni", ni(1))["warning"] == "" })
}
