package scenario

import (
	"fmt"
	"strings"
	"testing"

	"edgespan/platform/lab"
)

func TestAnAirGappedNetworkServesItsAppsAndLeadsNowhere(t *testing.T) {
	t.Parallel()
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
	if got := w.in("web", "dig", "+short", "+tries=1", "+time=2", "@"+l.DNS,
		"app2.n1.edge"); got != w.ip(app(2)).String() {
		t.Errorf("app2 is %q", got)
	}
	w.in("web", "ping", "-c1", "-W2", w.ip(app(2)).String())
	if got := w.in("web", "dig", "+short", "+tries=1", "+time=2", "@"+l.DNS, lab.WebName); got != "" {
		t.Errorf("an air-gapped network knows %s: %s", lab.WebName, got)
	}
	// Also with a default route that the app adds itself: out, to the node's own side of the uplink, and to another
	// network.
	w.in("web", "ip", "route", "add", "default", "via", l.DNS)
	for _, to := range []string{lab.WebAddr, "192.0.2.2", w.ip(app(3)).String()} {
		w.fails("web", "ping", "-c1", "-W1", to)
	}
	w.in("out", "ping", "-c1", "-W2", lab.WebAddr)
	// The numbers in the chains' names depend on the order in which networks ask.
	nat := w.in("node", "iptables-save", "-t", "nat")
	for n, want := range map[string]bool{"10.1.0.0/24": false, "10.2.0.0/24": true} {
		_, chain, _ := strings.Cut(nat, "-s "+n+" -j ")
		chain, _, _ = strings.Cut(chain, "\n")
		if chain == "" || strings.Contains(nat, "-A "+chain+" -o") != want {
			t.Errorf("%s is masqueraded: want %v:\n%s", n, want, nat)
		}
	}
}

// switchNetwork returns network n as a switch; port "" for none.
func switchNetwork(n int, port string) string {
	return fmt.Sprintf("  %s: {displayName: net%d, type: switch, port: %q}\n", ni(n), n, port)
}

// static gives an app's eth0 an address without DHCP.
func (w *world) static(app string, addrs ...string) {
	w.Helper()
	w.in(app, "ip", "link", "set", "eth0", "up")
	for _, a := range addrs {
		w.in(app, "ip", "addr", "add", a+"/24", "dev", "eth0")
	}
}

func TestAppsOfAnAirGappedSwitchMeetByTheirRulesAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b", "c", "local")
	// The addresses are those of a local network of the same node.
	const web = "web: {action: allow, direction: ingress, match: {protocol: tcp, localPort: 80}}"
	w.start(doc([]string{switchNetwork(1, ""), network(2, "")},
		onNet(1, 1, "a", "out: {action: allow, direction: egress}"), onNet(2, 1, "b", web),
		onNet(3, 1, "c", ""), onNet(4, 2, "local", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2), "app/"+app(3), "app/"+app(4))
	w.static("a", "10.2.0.10")
	w.static("b", "10.2.0.11", "10.2.0.128")
	w.static("c", "10.2.0.12")
	w.echo("b", "tcp4", "0.0.0.0:80")
	w.echo("b", "tcp4", "0.0.0.0:81")
	w.echo("a", "tcp4", "0.0.0.0:80")
	for _, c := range []struct{ from, to, want string }{
		{"a", "10.2.0.11:80", answered},
		{"a", "10.2.0.11:81", silence}, // the receiver denies
		{"c", "10.2.0.11:80", silence}, // the sender denies
		{"b", "10.2.0.10:80", silence}, // both deny: what b answers, it does not begin
	} {
		if got := w.meets(c.from, "tcp4", "", c.to, denial); got != c.want {
			t.Errorf("%s to %s meets %s, want %s", c.from, c.to, got, c.want)
		}
	}
	w.fails("c", "ping", "-c1", "-W1", "10.2.0.11")
	// An address of the local network belongs to another app here: the local one is not reached.
	w.lease("local")
	w.echo("local", "tcp4", "0.0.0.0:80")
	if got := w.meets("a", "tcp4", "", "10.2.0.128:80", denial); got != answered {
		t.Errorf("the address that a local network has too meets %s", got)
	}
	// The switch learns addresses from ARP only, even several on one MAC.
	w.in("b", "ip", "addr", "add", "10.2.0.13/24", "dev", "eth0")
	for _, from := range []string{"10.2.0.13", "10.2.0.128"} {
		w.fails("b", "ping", "-c1", "-W1", "-I", from, "10.2.0.99") // an unused address: it only sends an ARP request
	}
	w.eventually("three addresses",
		func() bool { return w.adapterStatus(2, "addresses") == "10.2.0.11,10.2.0.13,10.2.0.128" })
	if got := w.adapterStatus(4, "addresses"); got != "" {
		t.Errorf("an app of a local network is reported with %s", got)
	}
	// There is no path from a switch network to the node or through it.
	w.in("node", "ip", "addr", "add", "10.2.9.1/24", "dev", "es1")
	w.in("a", "ip", "addr", "add", "10.2.9.2/24", "dev", "eth0")
	w.in("a", "ip", "route", "add", "default", "via", "10.2.9.1")
	w.fails("a", "ping", "-c1", "-W1", "10.2.9.1")
	w.fails("a", "ping", "-c1", "-W1", lab.WebAddr)
	w.fails("node", "ping", "-c1", "-W1", "10.2.9.2")
}
