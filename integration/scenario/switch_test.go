package scenario

import (
	"net/netip"
	"strings"
	"testing"

	"edgespan/integration/lab"
)

// segment gives the node an interface lan0 with a segment behind it, in namespace
// "lan": 10.77.0.1, which serves DHCP.
func (w *world) segment() {
	w.Helper()
	w.in("node", "ip", "link", "add", "lan0", "type", "veth", "peer", "name", "eth0", "netns", w.NS("lan"))
	w.in("node", "ip", "link", "set", "lan0", "up")
	w.static("lan", "10.77.0.1")
	w.in("lan", "dnsmasq", "--conf-file=/dev/null", "--port=0", "--interface=eth0", "--bind-interfaces", "--user=root",
		"--dhcp-authoritative", "--dhcp-range=10.77.0.100,10.77.0.150,255.255.255.0,1h", "--leasefile-ro", "--pid-file=", "--log-facility=/dev/null")
}

// lanDoc is a config with ports wan and lan.
func lanDoc(nets []string, apps ...string) string {
	return strings.Replace(doc(nets, apps...), wan, wan+"  lan: {ifName: lan0}\n", 1)
}

func TestASwitchNetworkJoinsItsAppsToTheSegmentOfItsPort(t *testing.T) {
	w := newWorld(t, "lan", "a", "b")
	w.segment()
	nets := []string{switchNetwork(1, "lan"), network(2, "")}
	const out = "out: {action: allow, direction: egress, match: {ip: 10.77.0.1}}"
	const in = "in: {action: allow, direction: ingress, match: {protocol: tcp, localPort: 80}}"
	w.start(lanDoc(nets, onNet(1, 1, "a", out), onNet(2, 1, "b", in)))
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
	a := w.lease("a") // essentials: no rule allows DHCP
	b := w.lease("b")
	for _, l := range []lab.Lease{a, b} {
		if !netip.MustParsePrefix("10.77.0.0/24").Contains(l.IP) || l.Server != "10.77.0.1" {
			t.Errorf("lease %+v", l)
		}
	}
	w.in("a", "ping", "-c1", "-W2", "10.77.0.1")
	w.fails("b", "ping", "-c1", "-W1", "10.77.0.1")
	w.fails("lan", "ping", "-c1", "-W1", a.IP.String())
	w.echo("b", "tcp4", "0.0.0.0:80")
	w.echo("b", "tcp4", "0.0.0.0:81")
	for _, c := range []struct{ from, to, want string }{
		{"lan", b.IP.String() + ":80", answered},
		{"lan", b.IP.String() + ":81", silence},
		{"a", b.IP.String() + ":80", silence}, // the sender's egress names another
	} {
		if got := w.meets(c.from, "tcp4", "", c.to, denial); got != c.want {
			t.Errorf("%s to %s meets %s, want %s", c.from, c.to, got, c.want)
		}
	}
	// A flow that new rules deny ends, and one that they allow goes on.
	flow, err := w.dial("lan", "tcp4", "", b.IP.String()+":80", patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = flow.Close() }()
	if err := say(flow, patience); err != nil {
		t.Fatal(err)
	}
	w.apply(lanDoc(nets, onNet(1, 1, "a", allowAll), onNet(2, 1, "b", in+", ping: {action: allow, match: {protocol: icmp}}")))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	if err := say(flow, patience); err != nil {
		t.Errorf("an allowed flow: %v", err)
	}
	w.in("lan", "ping", "-c1", "-W2", a.IP.String())
	if got := w.meets("a", "tcp4", "", b.IP.String()+":80", patience); got != answered {
		t.Errorf("a to b meets %s", got)
	}
	w.apply(lanDoc(nets, onNet(1, 1, "a", allowAll), onNet(2, 1, "b", "")))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	if err := say(flow, denial); err == nil {
		t.Error("a flow that is denied goes on")
	}
	w.fails("a", "ping", "-c1", "-W1", b.IP.String())
	// The network goes: the port is the host's again, as it was.
	w.apply(lanDoc(nets[1:]))
	w.eventually("lan0 given back", func() bool {
		return !strings.Contains(w.in("node", "ip", "-o", "link", "show", "dev", "lan0"), "master")
	})
	w.in("node", "ip", "addr", "add", "10.77.0.9/24", "dev", "lan0")
	w.in("node", "ping", "-c1", "-W2", "10.77.0.1")
}

func TestASwitchNetworkNeverTakesAPortThatTheHostUses(t *testing.T) {
	w := newWorld(t, "lan", "a")
	w.segment()
	w.in("node", "ip", "addr", "add", "10.77.0.9/24", "dev", "lan0")
	w.start(lanDoc([]string{switchNetwork(1, "lan")}, onNet(1, 1, "a", allowAll)))
	w.wait("ready", "app/"+app(1)) // it meets the others on the bridge
	w.eventually("the reason", func() bool {
		s := w.status("ni", ni(1))
		text, _ := s["error"].(string)
		return s["state"] == "WaitingForDependencies" && strings.Contains(text, "lan0 holds the host's address 10.77.0.9/24")
	})
	w.in("node", "ping", "-c1", "-W2", "10.77.0.1")
	w.in("node", "ip", "addr", "del", "10.77.0.9/24", "dev", "lan0")
	w.wait("ready", "ni/"+ni(1))
	w.lease("a")
	// Whoever gives it an address again gets it back.
	w.in("node", "ip", "addr", "add", "10.77.0.9/24", "dev", "lan0")
	w.eventually("lan0 given back", func() bool {
		return !strings.Contains(w.in("node", "ip", "-o", "link", "show", "dev", "lan0"), "master")
	})
	w.in("node", "ping", "-c1", "-W2", "10.77.0.1")
}
