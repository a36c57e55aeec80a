package scenario

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// Groups of IEEE 802.1: bridges (STP) and the nearest bridge (LLDP).
var (
	stpGroup  = net.HardwareAddr{1, 0x80, 0xc2, 0, 0, 0}
	lldpGroup = net.HardwareAddr{1, 0x80, 0xc2, 0, 0, 0x0e}
)

const etherLLDP = 0x88cc

// treeTime is more than a port takes to forward: 15 s of listening and 15 s of learning, after up to 20 s in which it
// trusts what it last heard (IEEE 802.1D).
const treeTime = 90 * time.Second

// twoPorts is a config with two ports of one label.
func twoPorts(nets []string, apps ...string) string {
	return strings.Replace(doc(nets, apps...), wan,
		wan+"  lan0: {ifName: lan0, labels: lab}\n  lan1: {ifName: lan1, labels: lab}\n", 1)
}

// As an operator I give a switch two ports to one segment: it blocks one of them, so that no frame circles, and uses it
// when the other fails. An app can't take part in that.
func TestASwitchWithTwoPortsToOneSegmentMakesNoLoop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lan", "a", "b")
	w.in("lan", "ip", "link", "add", "name", "seg", "type", "bridge")
	w.in("lan", "ip", "addr", "add", "10.77.0.1/24", "dev", "seg")
	w.in("lan", "ip", "link", "set", "seg", "up")
	for _, l := range []string{"0", "1"} {
		w.in("node", "ip", "link", "add", "lan"+l, "type", "veth", "peer", "name", "port"+l, "netns", w.NS("lan"))
		w.in("lan", "ip", "link", "set", "port"+l, "master", "seg", "up")
		w.in("node", "ip", "link", "set", "lan"+l, "up")
	}
	w.start(twoPorts([]string{switchNetwork(1, "lab")}, onNet(1, 1, "a", allowAll), onNet(2, 1, "b", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	w.static("a", "10.77.0.5")
	w.static("b", "10.77.0.6")
	states := func() string {
		var got []string
		for _, l := range []string{"lan0", "lan1"} {
			_, rest, _ := strings.Cut(w.in("node", "bridge", "link", "show", "dev", l), " state ")
			got = append(got, strings.Fields(rest + " ?")[0])
		}
		return strings.Join(got, " ")
	}
	// Listening and learning take 15 s each (IEEE 802.1D).
	w.eventuallyIn(treeTime, "the tree", func() bool { s := states(); return s == "forwarding blocking" || s == "blocking forwarding" })
	w.in("a", "ping", "-c1", "-W5", "10.77.0.1")
	for _, link := range []string{"es1a1", "es1a2"} {
		if flags := w.in("node", "bridge", "-d", "link", "show", "dev", link); !strings.Contains(flags, "guard on") {
			t.Errorf("%s: %s", link, flags)
		}
	}
	// An app that claims to be the best bridge is cut off, and no other.
	before := states()
	mac := w.mac("b", "eth0")
	bpdu := make([]byte, 38)
	copy(bpdu, []byte{0x42, 0x42, 3}) // LLC: SAP of STP; then protocol, version and type 0, flags, root: priority 0
	copy(bpdu[10:], mac)
	copy(bpdu[22:], mac)
	copy(bpdu[32:], []byte{20, 0, 2, 0, 15, 0})
	frame := append(append(append(append([]byte{}, stpGroup...), mac...), 0, byte(len(bpdu))), bpdu...)
	if err := w.raw("b").send(append(frame, make([]byte, 8)...)); err != nil {
		t.Fatal(err)
	}
	w.eventually("the guard", func() bool {
		return strings.Contains(w.in("node", "bridge", "link", "show", "dev", "es1a2"), "state disabled")
	})
	cut := time.Now()
	w.fails("b", "ping", "-c1", "-W1", "10.77.0.1")
	w.in("a", "ping", "-c1", "-W5", "10.77.0.1")
	if got := states(); got != before {
		t.Errorf("the ports were %s and are %s", before, got)
	}
	// The other port takes over.
	failed := map[bool]string{true: "0", false: "1"}[before == "forwarding blocking"]
	w.in("lan", "ip", "link", "set", "port"+failed, "down")
	w.eventuallyIn(treeTime, "the other port", func() bool {
		return strings.Contains(w.in("node", "bridge", "link", "show", "dev", "lan"+map[string]string{"0": "1", "1": "0"}[failed]),
			"state forwarding")
	})
	w.eventuallyIn(treeTime, "an answer", func() bool {
		r, err := w.Exec(w.ctx, "a", "ping", "-c1", "-W1", "10.77.0.1")
		return err == nil && r.Code == 0
	})
	// The comparison with the host, each minute, lets the app try again.
	w.eventuallyIn(treeTime, "another try", func() bool {
		return !strings.Contains(w.in("node", "bridge", "link", "show", "dev", "es1a2"), "state disabled")
	})
	t.Logf("the app was cut off for %v", time.Since(cut).Round(time.Second))
	if s := w.status("ni", ni(1)); s["state"] != "Present" || !strings.Contains(s["warning"].(string), "lan"+failed+" is down") {
		t.Errorf("state %v, warning %v", s["state"], s["warning"])
	}
}

// LLDP stays on its link unless the config lets a switch pass it; then apps and the segment see each other.
func TestASwitchForwardsLLDPOnRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lan", "a")
	w.segment()
	net1 := switchNetwork(1, "lan")
	w.start(lanDoc([]string{net1}, onNet(1, 1, "a", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.in("a", "ip", "link", "set", "eth0", "up")
	const fromApp, fromLan, liar, last = "lldp of the app", "lldp of the segment", "lldp of a liar", "the last frame"
	atLan, atApp := w.sniff("lan", "eth0", fromApp, liar, last), w.sniff("a", "eth0", fromLan, last)
	appMAC, lanMAC := w.mac("a", "eth0"), w.mac("lan", "eth0")
	tell := func() {
		t.Helper()
		for _, c := range []struct {
			short string
			to    net.HardwareAddr
			from  net.HardwareAddr
			kind  uint16
			text  string
		}{
			{"a", lldpGroup, appMAC, etherLLDP, fromApp}, {"a", lldpGroup, net.HardwareAddr{2, 0, 0, 0, 0, 9}, etherLLDP, liar},
			{"lan", lldpGroup, lanMAC, etherLLDP, fromLan},
		} {
			if err := w.raw(c.short).send(ether(c.to, c.from, c.kind, []byte(c.text))); err != nil {
				t.Fatal(err)
			}
		}
		// What follows on the same way and always passes.
		n, m := atLan.count(last), atApp.count(last)
		w.eventually("the last frames", func() bool {
			for short, mac := range map[string]net.HardwareAddr{"a": appMAC, "lan": lanMAC} {
				_ = w.raw(short).send(ether(net.HardwareAddr("\xff\xff\xff\xff\xff\xff"), mac, etherARP, arpAsk(mac, netip.MustParseAddr("10.77.0.77"),
					netip.MustParseAddr("10.77.0.78"), last)))
			}
			return atLan.count(last) > n && atApp.count(last) > m
		})
	}
	tell()
	if a, b := atLan.count(fromApp), atApp.count(fromLan); a+b != 0 {
		t.Errorf("%d and %d frames of LLDP pass without the setting", a, b)
	}
	w.apply(lanDoc([]string{strings.Replace(net1, "}", ", forwardLLDP: true}", 1)}, onNet(1, 1, "a", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	tell()
	if a, b, c := atLan.count(fromApp), atApp.count(fromLan), atLan.count(liar); a != 1 || b != 1 || c != 0 {
		t.Errorf("with the setting %d and %d frames pass, and %d with a false sender", a, b, c)
	}
}
