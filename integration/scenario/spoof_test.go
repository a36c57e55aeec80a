package scenario

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"edgespan/platform/lab"
)

// liars is a network with the app web, which sends raw frames, and the app client.
type liars struct {
	*world
	*sender
	node, peer, own net.HardwareAddr
	ip, other       netip.Addr
	sees            map[string]*sniffer // by place
}

// goodMark is in the valid frames, which each place must see.
const goodMark = "an honest frame"

// newLiars listens for marks everywhere: at the provider's end of the uplink, on the bridge as the node, and on the
// other app's interface.
func newLiars(t *testing.T, more string, marks ...string) *liars {
	t.Helper()
	w := newWorld(t, "web", "client")
	w.start(doc([]string{network(1, more)}, onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	for _, a := range []string{"web", "client"} {
		w.in(a, "ip", "link", "set", "eth0", "up")
	}
	l := &liars{
		world: w, node: w.mac("node", "es1"), peer: w.mac("client", "eth0"), own: w.mac("web", "eth0"),
		ip: w.ip(app(1)), other: w.ip(app(2)), sees: map[string]*sniffer{},
	}
	for place, at := range map[string][2]string{"the other app": {"client", "eth0"}, "the node": {"node", "es1"},
		"the uplink": {"isp", "node0"}} {
		l.sees[place] = w.sniff(at[0], at[1], append(slices.Clone(marks), goodMark)...)
	}
	l.sender = w.raw("web")
	return l
}

// tell sends a frame a few times.
func (l *liars) tell(frame []byte) {
	l.Helper()
	for range 3 {
		if err := l.send(frame); err != nil {
			l.Fatalf("send %x: %v", frame, err)
		}
	}
}

// packet returns a datagram of web to an address that its rules allow, with any source address.
func (l *liars) packet(src, dst netip.Addr, mark string) []byte {
	return ipv4(src, dst, 17, udp(7, floodPort, []byte(mark)))
}

var webAddr = netip.MustParseAddr(lab.WebAddr)

// fence returns when valid frames have arrived everywhere: frames of one adapter keep their order, so earlier frames
// have arrived too, or never will.
func (l *liars) fence() {
	l.Helper()
	before := map[string]int{}
	for place, s := range l.sees {
		before[place] = s.count(goodMark)
	}
	l.eventually("an honest frame everywhere", func() bool {
		l.tell(ether(l.peer, l.own, etherIPv4, l.packet(l.ip, l.other, goodMark)))
		l.tell(ether(l.node, l.own, etherIPv4, l.packet(l.ip, webAddr, goodMark)))
		for place, s := range l.sees {
			if s.count(goodMark) < before[place]+3 {
				return false
			}
		}
		return true
	})
}

// lies returns frames that must not arrive anywhere, by their fault.
func (l *liars) lies() map[string][][]byte {
	foreign := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	stranger := netip.MustParseAddr("10.1.0.77")
	gateway := netip.MustParseAddr("10.1.0.1")
	everybody := net.HardwareAddr{255, 255, 255, 255, 255, 255}
	lies := map[string][][]byte{}
	both := func(mark string, frame func(dst net.HardwareAddr, ip netip.Addr) []byte) {
		lies[mark] = [][]byte{frame(l.peer, l.other), frame(l.node, webAddr)}
	}
	both("wrong source MAC", func(dst net.HardwareAddr, ip netip.Addr) []byte {
		return ether(dst, foreign, etherIPv4, l.packet(l.ip, ip, "wrong source MAC"))
	})
	both("wrong source IP", func(dst net.HardwareAddr, ip netip.Addr) []byte {
		return ether(dst, l.own, etherIPv4, l.packet(stranger, ip, "wrong source IP"))
	})
	both("source 0.0.0.0 and no DHCP", func(dst net.HardwareAddr, ip netip.Addr) []byte {
		return ether(dst, l.own, etherIPv4, l.packet(netip.IPv4Unspecified(), ip, "source 0.0.0.0 and no DHCP"))
	})
	lies["wrong ARP sender IP"] = [][]byte{ether(everybody, l.own, etherARP,
		arpAsk(l.own, stranger, gateway, "wrong ARP sender IP"))}
	lies["wrong ARP sender MAC"] = [][]byte{ether(everybody, l.own, etherARP,
		arpAsk(foreign, l.ip, gateway, "wrong ARP sender MAC"))}
	lies["ARP as the gateway"] = [][]byte{ether(everybody, l.own, etherARP,
		arpAsk(l.own, gateway, l.other, "ARP as the gateway"))}
	l.untold(lies)
	return lies
}

// untold adds frames that never pass, with or without the spoof guard.
func (l *liars) untold(lies map[string][][]byte) {
	gateway := netip.MustParseAddr("10.1.0.1")
	everybody := net.HardwareAddr{255, 255, 255, 255, 255, 255}
	for _, tpid := range []uint16{etherVLAN, etherQinQ} {
		for _, vid := range []uint16{0, 1, 5, 0xe005} { // 0 is only a priority; 0xe005 has one too
			mark := fmt.Sprintf("tag %x %x.", tpid, vid)
			for _, f := range [][]byte{
				ether(l.peer, l.own, etherIPv4, l.packet(l.ip, l.other, mark)),
				ether(l.node, l.own, etherIPv4, l.packet(l.ip, webAddr, mark)),
				ether(everybody, l.own, etherARP, arpAsk(l.own, l.ip, gateway, mark)),
			} {
				lies[mark] = append(lies[mark], tagged(f, tpid, vid), tagged(tagged(f, etherVLAN, 7), tpid, vid))
			}
		}
	}
	lies["IPv6 unicast"] = [][]byte{
		ether(l.peer, l.own, etherIPv6, ipv6("fe80::5", []byte("IPv6 unicast"))),
		ether(l.node, l.own, etherIPv6, ipv6("fe80::6", []byte("IPv6 unicast"))),
	}
	lies["IPv6 to all"] = [][]byte{ether(net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, l.own, etherIPv6,
		ipv6("ff02::1", []byte("IPv6 to all")))}
	for _, dst := range []net.HardwareAddr{l.peer, l.node, everybody} {
		for kind, mark := range map[uint16]string{0x88b5: "unknown ethertype", 0x8863: "PPPoE discovery",
			0x8864: "PPPoE session", 100: "802.3 length"} {
			payload := append([]byte{0x11, 0, 0, 1, 0, 22, 0, 0x21}, mark...)
			lies[mark] = append(lies[mark], ether(dst, l.own, kind, payload))
		}
	}
}

// marksOf returns the marks of the lies; they do not depend on a lab.
func marksOf(untoldOnly bool) []string {
	l := &liars{}
	l.ip, l.other = netip.IPv4Unspecified(), netip.IPv4Unspecified()
	lies := map[string][][]byte{}
	if untoldOnly {
		l.untold(lies)
	} else {
		lies = l.lies()
	}
	var marks []string
	for m := range lies {
		marks = append(marks, m)
	}
	return marks
}

// checkNoneArrives sends all lies and checks that none arrives anywhere.
func (l *liars) checkNoneArrives(lies map[string][][]byte) {
	l.Helper()
	l.fence()
	for _, frames := range lies {
		for _, f := range frames {
			l.tell(f)
		}
	}
	l.fence()
	for place, s := range l.sees {
		for mark := range lies {
			if n := s.count(mark); n > 0 {
				l.Errorf("%s saw %d frames of %q", place, n, mark)
			}
		}
	}
}

func TestAnAppWithAForgedAddressReachesNoHost(t *testing.T) {
	t.Parallel()
	l := newLiars(t, "", marksOf(false)...)
	l.checkNoneArrives(l.lies())
	// A ping over IPv6 to all hosts on the link gets no answer either; -L keeps the sender from answering itself.
	l.fails("web", "ping", "-6", "-L", "-c1", "-W1", "ff02::1%eth0")
	l.fails("client", "ping", "-6", "-L", "-c1", "-W1", "ff02::1%eth0")
}

func TestWithoutTheGuardASpoofedAddressPassesWhereRulesAllow(t *testing.T) {
	t.Parallel()
	const spoofed, denied = "a spoofed address", "a denied one"
	l := newLiars(t, "    spoofGuard: false\n", append(marksOf(true), spoofed, denied)...)
	lies := map[string][][]byte{}
	l.untold(lies)
	l.checkNoneArrives(lies)
	stranger := netip.MustParseAddr("10.1.0.77")
	l.eventually("a spoofed packet at the other app", func() bool {
		l.tell(ether(l.peer, l.own, etherIPv4, l.packet(stranger, l.other, spoofed)))
		return l.sees["the other app"].count(spoofed) > 0
	})
	l.eventually("a spoofed packet at the uplink", func() bool {
		l.tell(ether(l.node, l.own, etherIPv4, l.packet(stranger, webAddr, spoofed)))
		return l.sees["the uplink"].count(spoofed) > 0
	})
	l.apply(doc([]string{network(1, "    spoofGuard: false\n")},
		onNet(1, 1, "web", "all: {action: allow, direction: egress, match: {ip: 198.51.100.80, port: 80, protocol: tcp}}"),
		onNet(2, 1, "client", allowAll)))
	l.wait("ready", "app/"+app(1))
	l.tell(ether(l.node, l.own, etherIPv4, ipv4(stranger, webAddr, 17, udp(8, floodPort, []byte(denied)))))
	l.in("web", "ip", "addr", "add", l.ip.String()+"/24", "dev", "eth0")
	l.in("web", "ip", "route", "add", "default", "via", "10.1.0.1")
	l.in("web", "curl", "-sf", "--max-time", "5", "http://"+lab.WebAddr+"/")
	if n := l.sees["the uplink"].count(denied); n > 0 {
		t.Errorf("%d spoofed packets passed that no rule allows", n)
	}
}
