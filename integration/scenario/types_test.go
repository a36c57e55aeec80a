package scenario

import (
	"strings"
	"testing"

	"edgespan/integration/lab"
)

func TestAnAirGappedNetworkServesItsAppsAndLeadsNowhere(t *testing.T) {
	w := newWorld(t, "web", "client", "out")
	air := strings.Replace(network(1, ""), "port: wan", `port: ""`, 1)
	w.start(doc([]string{air, network(2, "")},
		onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll), onNet(3, 2, "out", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2), "app/"+app(3))
	l := w.lease("web")
	w.lease("client")
	w.lease("out")
	if l.Router != "" || l.DNS == "" {
		t.Errorf("an air-gapped app got router %q and DNS %q", l.Router, l.DNS)
	}
	if got := w.in("web", "dig", "+short", "+tries=1", "+time=2", "@"+l.DNS, "app2.n1.edge"); got != w.ip(app(2)).String() {
		t.Errorf("app2 is %q", got)
	}
	w.in("web", "ping", "-c1", "-W2", w.ip(app(2)).String())
	if got := w.in("web", "dig", "+short", "+tries=1", "+time=2", "@"+l.DNS, lab.WebName); got != "" {
		t.Errorf("an air-gapped network knows %s: %s", lab.WebName, got)
	}
	// Also with a default route that the app gives itself: out, to the node's own side
	// of the uplink, and to another network.
	w.in("web", "ip", "route", "add", "default", "via", l.DNS)
	for _, to := range []string{lab.WebAddr, "192.0.2.2", w.ip(app(3)).String()} {
		w.fails("web", "ping", "-c1", "-W1", to)
	}
	w.in("out", "ping", "-c1", "-W2", lab.WebAddr)
	if nat := w.in("node", "iptables-save", "-t", "nat"); strings.Contains(nat, "ES1-POST -o") {
		t.Errorf("an air-gapped network is masqueraded:\n%s", nat)
	}
}
