package scenario

import (
	"fmt"
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

// As a user I let one app route for the others of an air-gapped network: they learn its routes by DHCP, and it does not
// learn its own. Their rules decide what it may carry, and what others answer needs a network without the spoof guard.
func TestAnAppIsTheGatewayOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	const far, closed = "203.0.113.9", "203.0.113.10"
	net := func(guard bool) string {
		return strings.Replace(network(1, fmt.Sprintf("    spoofGuard: %v\n    routes: {far: {destination: 203.0.113.0/24, "+
			"gateway: 10.1.0.20}}\n", guard)), "port: wan", `port: ""`, 1)
	}
	router := strings.Replace(onNet(2, 1, "client", allowAll), "attach:", "ip: 10.1.0.20, attach:", 1)
	config := func(guard bool) string {
		return doc([]string{net(guard)}, onNet(1, 1, "web", "far: {action: allow, match: {ip: "+far+", protocol: icmp}}"), router)
	}
	w.start(config(false))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	if l := w.lease("client"); l.Routes != "" {
		t.Errorf("the router gets the routes %q", l.Routes)
	}
	if l := w.lease("web"); l.Routes != "203.0.113.0/24 10.1.0.20" {
		t.Errorf("the other app gets the routes %q", l.Routes)
	}
	for _, addr := range []string{far, closed} {
		w.in("client", "ip", "addr", "add", addr+"/32", "dev", "lo")
	}
	ping := []string{"ping", "-c1", "-W2"}
	w.in("web", append(ping, far)...)
	w.fails("web", append(ping, closed)...)
	w.fails("web", append(ping, "10.1.0.20")...) // no rule names the router itself
	w.apply(config(true))
	w.wait("ready", "ni/"+ni(1))
	w.eventually("the guard drops what has another's address", func() bool {
		r, err := w.Exec(w.ctx, "web", append(ping, far)...)
		return err == nil && r.Code != 0
	})
}
