package scenario

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/platform/lab"
)

// segment gives the node an interface lan0 with a segment behind it, in namespace "lan": 10.77.0.1, which serves DHCP.
func (w *world) segment() {
	w.Helper()
	w.in("node", "ip", "link", "add", "lan0", "type", "veth", "peer", "name", "eth0", "netns", w.NS("lan"))
	w.in("node", "ip", "link", "set", "lan0", "up")
	w.static("lan", "10.77.0.1")
	w.serveDHCP("10.77.0.100,10.77.0.150")
}

// serveDHCP starts the DHCP server of the segment with a range of addresses, and replaces the one before. It knows
// none of its leases.
func (w *world) serveDHCP(addresses string) {
	w.Helper()
	pid := filepath.Join(w.Dir, "lan.pid")
	if old, err := os.ReadFile(pid); err == nil {
		n := strings.TrimSpace(string(old))
		w.in("lan", "kill", n)
		w.eventually("the end of the old DHCP server", func() bool {
			_, err := os.Stat("/proc/" + n)
			return errors.Is(err, os.ErrNotExist)
		})
	}
	w.in("lan", "dnsmasq", "--conf-file=/dev/null", "--port=0", "--interface=eth0", "--bind-interfaces", "--user=root",
		"--no-ping", "--dhcp-authoritative", "--dhcp-range="+addresses+",255.255.255.0,1h", "--leasefile-ro", "--pid-file="+
			pid, "--log-facility=/dev/null")
}

// lanDoc returns a config with ports wan and lan.
func lanDoc(nets []string, apps ...string) string {
	return strings.Replace(doc(nets, apps...), wan, wan+"  lan: {ifName: lan0}\n", 1)
}

func TestASwitchNetworkJoinsItsAppsToTheSegmentOfItsPort(t *testing.T) {
	t.Parallel()
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
		{"a", b.IP.String() + ":80", silence}, // the sender's egress rule names another
	} {
		if got := w.meets(c.from, "tcp4", "", c.to, denial); got != c.want {
			t.Errorf("%s to %s meets %s, want %s", c.from, c.to, got, c.want)
		}
	}
	// A flow that new rules deny ends, and one that they allow continues.
	flow, err := w.dial("lan", "tcp4", "", b.IP.String()+":80", timeout)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = flow.Close() }()
	if err := say(flow, timeout); err != nil {
		t.Fatal(err)
	}
	w.apply(lanDoc(nets, onNet(1, 1, "a", allowAll),
		onNet(2, 1, "b", in+", ping: {action: allow, match: {protocol: icmp}}")))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	if err := say(flow, timeout); err != nil {
		t.Errorf("an allowed flow: %v", err)
	}
	w.in("lan", "ping", "-c1", "-W2", a.IP.String())
	if got := w.meets("a", "tcp4", "", b.IP.String()+":80", timeout); got != answered {
		t.Errorf("a to b meets %s", got)
	}
	w.apply(lanDoc(nets, onNet(1, 1, "a", allowAll), onNet(2, 1, "b", "")))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	if err := say(flow, denial); err == nil {
		t.Error("a flow that is denied goes on")
	}
	w.fails("a", "ping", "-c1", "-W1", b.IP.String())
	// The network is removed: the port is released, in its old state.
	w.apply(lanDoc(nets[1:]))
	w.eventually("lan0 given back", func() bool {
		return !strings.Contains(w.in("node", "ip", "-o", "link", "show", "dev", "lan0"), "master")
	})
	w.in("node", "ip", "addr", "add", "10.77.0.9/24", "dev", "lan0")
	w.in("node", "ping", "-c1", "-W2", "10.77.0.1")
}

func TestASwitchNetworkNeverTakesAPortThatTheHostUses(t *testing.T) {
	t.Parallel()
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
	// When another program gives it an address, it is released.
	w.in("node", "ip", "addr", "add", "10.77.0.9/24", "dev", "lan0")
	w.eventually("lan0 given back", func() bool {
		return !strings.Contains(w.in("node", "ip", "-o", "link", "show", "dev", "lan0"), "master")
	})
	w.in("node", "ping", "-c1", "-W2", "10.77.0.1")
}

func TestAnAppOfASwitchCannotRideOnTheFlowOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b", "c")
	w.start(doc([]string{switchNetwork(1, "")}, onNet(1, 1, "a", "out: {action: allow, direction: egress}"),
		onNet(2, 1, "b", ""), onNet(3, 1, "c", "in: {action: allow, direction: ingress}")))
	w.wait("ready", "app/"+app(1), "app/"+app(2), "app/"+app(3))
	w.static("a", "10.5.0.1")
	w.in("b", "ip", "link", "set", "eth0", "up")
	w.static("c", "10.5.0.3")
	w.echo("c", "udp4", "10.5.0.3:9000")
	flow, err := w.dial("a", "udp4", "10.5.0.1:4000", "10.5.0.3:9000", timeout)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = flow.Close() }()
	if err := say(flow, timeout); err != nil {
		t.Fatal(err)
	}
	got := w.sniff("c", "eth0", "b in the name of a", "a itself")
	packet := func(from, mark string) []byte {
		return ether(w.mac("c", "eth0"), w.mac(from, "eth0"), etherIPv4,
			ipv4(netip.MustParseAddr("10.5.0.1"), netip.MustParseAddr("10.5.0.3"), 17, udp(4000, 9000, []byte(mark))))
	}
	a, b := w.raw("a"), w.raw("b")
	for range 20 {
		if err := b.send(packet("b", "b in the name of a")); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("the same packet of a", func() bool {
		return a.send(packet("a", "a itself")) == nil && got.count("a itself") > 0
	})
	if n := got.count("b in the name of a"); n > 0 {
		t.Errorf("%d packets of an app without rules passed on the flow of another", n)
	}
}

func TestFlowsOfASwitchAndOfALocalNetworkWithTheSameAddressesAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "local", "a", "b")
	w.start(doc([]string{switchNetwork(1, ""), network(2, "")}, onNet(1, 1, "a", allowAll), onNet(2, 1, "b", allowAll),
		onNet(3, 2, "local", allowAll)))
	w.wait("ready", "app/"+app(1), "app/"+app(2), "app/"+app(3))
	own := w.lease("local").IP
	w.echo("isp", "udp4", lab.WebAddr+":9000")
	flow, err := w.dial("local", "udp4", own.String()+":4000", lab.WebAddr+":9000", timeout)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = flow.Close() }()
	if err := say(flow, timeout); err != nil {
		t.Fatal(err)
	}
	w.static("a", own.String())
	w.in("b", "ip", "link", "set", "eth0", "up")
	dst := netip.MustParseAddr(lab.WebAddr)
	untouched := string(own.AsSlice()) + string(dst.AsSlice()) // part of an untranslated header
	got := w.sniff("b", "eth0", untouched)
	a := w.raw("a")
	frame := ether(w.mac("b", "eth0"), w.mac("a", "eth0"), etherIPv4,
		ipv4(own, dst, 17, udp(4000, 9000, []byte("on the switch"))))
	w.eventually("the packet as it was sent", func() bool { return a.send(frame) == nil && got.count(untouched) > 0 })
	if err := say(flow, timeout); err != nil {
		t.Errorf("the flow of the local network: %v", err)
	}
}

func TestThePortOfASwitchIsEnslavedAgainWhenItIsRecreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lan", "a")
	w.segment()
	w.start(lanDoc([]string{switchNetwork(1, "lan")}, onNet(1, 1, "a", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.static("a", "10.77.0.20")
	w.in("a", "ping", "-c1", "-W2", "10.77.0.1")
	for range 3 {
		w.in("node", "ip", "link", "del", "lan0")
		w.in("node", "ip", "link", "add", "lan0", "type", "veth", "peer", "name", "eth0", "netns", w.NS("lan"))
		w.in("node", "ip", "link", "set", "lan0", "up")
		w.static("lan", "10.77.0.1")
		w.eventually("the new lan0 in the bridge", func() bool {
			return strings.Contains(w.in("node", "ip", "-o", "link", "show", "dev", "lan0"), "master es1")
		})
		w.in("a", "ip", "neigh", "flush", "dev", "eth0") // the far side has a new MAC
		w.in("a", "ping", "-c1", "-W2", "10.77.0.1")
		w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	}
	// It is removed permanently: the network reports it, and its apps are kept.
	w.in("node", "ip", "link", "del", "lan0")
	w.eventually("the reason", func() bool {
		text, _ := w.status("ni", ni(1))["error"].(string)
		return strings.Contains(text, "lan0 does not exist")
	})
	w.wait("ready", "app/"+app(1))
}

func TestASwitchNetworkGivesItsPortBackAndTakesItAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lan", "a", "b")
	w.segment()
	apps := []string{onNet(1, 1, "a", allowAll), onNet(2, 1, "b", allowAll)}
	joined := lanDoc([]string{switchNetwork(1, "lan")}, apps...)
	alone := lanDoc([]string{strings.Replace(switchNetwork(1, ""), "}", ", mtu: 2000}", 1)}, apps...)
	w.start(joined)
	for round := range 2 {
		w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
		w.lease("a")
		b := w.lease("b")
		w.in("a", "ping", "-c1", "-W2", "10.77.0.1")
		w.apply(alone)
		w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
		if lan := w.in("node", "ip", "-o", "link", "show", "dev", "lan0"); strings.Contains(lan, "master") ||
			!strings.Contains(lan, "mtu 1500") {
			t.Errorf("round %d: lan0 given back is %s", round, lan)
		}
		if br := w.in("node", "ip", "-o", "link", "show", "dev", "es1"); !strings.Contains(br, "mtu 2000") {
			t.Errorf("round %d: the bridge is %s", round, br)
		}
		w.fails("a", "ping", "-c1", "-W1", "10.77.0.1")
		w.static("a", "10.77.0.20") // its lease was the office's; b keeps its link and address
		w.in("a", "ping", "-c1", "-W2", "-M", "do", "-s", "1972", b.IP.String())
		w.apply(joined)
	}
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	w.lease("a")
}
