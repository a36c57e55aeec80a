package scenario

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

const (
	net6b     = "2001:db8:7:2::/64"
	rogueMark = "words of the hostile app"
)

// newFlowsWorld6 is newFlowsWorld with IPv6. A hostile app is on network 2, which may use lte alone: whatever happens in
// the test, nothing that it sends leaves by wan, and nothing of an app leaves with the app's own address.
func newFlowsWorld6(t *testing.T, costStep int, settings, acl string, env ...string) *world {
	t.Helper()
	w := newWorldOf(t, lab.Options{Apps: []string{"web", "rogue"}, Uplinks: 2})
	w.provide6(0)
	w.provide6(1)
	w.echoes(2, lab.WebAddr)
	w.echoes(2, isp6Web)
	w.start(flowsDoc6(costStep, settings, acl), env...)
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
	w.lease("web")
	web, rogue := w.slaac("web", net6), w.slaac("rogue", net6b)
	w.attack6(web, rogue)
	return w
}

func flowsDoc6(costStep int, settings, acl string) string {
	six := func(n int, subnet, port, settings string) string {
		return strings.Replace(network6(n, `subnet: "`+subnet+`", nat: true`), "port: wan",
			"port: "+port+"\n    "+targets6+"\n    "+settings, 1)
	}
	return uplinkPorts(2, costStep) + "networkInstances:\n" + six(1, net6, "uplink", settings) +
		six(2, net6b, "lte", "flows: keep") + "appNetworks:\n" + onNet(1, 1, "web", acl) + onNet(2, 2, "rogue", allowAll)
}

// attack6 makes the hostile app send, until the test ends, what might lead its packets astray: parts of connections that
// no one opened, with its own address, and with those of its neighbour and of the node's ports.
func (w *world) attack6(web, rogue netip.Addr) {
	w.Helper()
	far := netip.MustParseAddr(isp6Web)
	own, gateway, raw := w.mac("rogue", "eth0"), w.mac("node", "es2"), w.raw("rogue")
	var frames [][]byte
	for i, src := range []netip.Addr{rogue, web, netip.MustParseAddr(wan6 + ":2"), netip.MustParseAddr("fd00::1")} {
		for _, flags := range []byte{0x02, 0x12, 0x10, 0x04} { // SYN, SYN and ACK, ACK, RST
			segment := append(tcp(uint16(3000+i), 7000, flags), rogueMark...)
			frames = append(frames, ether(gateway, own, etherIPv6, packet6(src, far, 6, checksummed(src, far, segment))))
		}
		frames = append(frames, ether(gateway, own, etherIPv6, packet6(src, far, 17, udp6(src, far, 7000, rogueMark))),
			ether(gateway, own, etherIPv6, packet6(src, far, 58, icmp6(src, far, 1, append(make([]byte, 4), rogueMark...)))))
	}
	words := []string{rogueMark, string(web.AsSlice()), string(rogue.AsSlice())}
	sniffs := func(n int) *sniffer { return w.sniff(w.Provider(n).Short, w.Provider(n).Peer, words...) }
	wan, lte := sniffs(0), sniffs(1)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			_ = raw.send(frames[i%len(frames)]) // a full queue is no failure
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	w.eventually("the hostile app by lte", func() bool { return lte.count(rogueMark) > 0 })
	w.Cleanup(func() {
		close(stop)
		<-ended
		if n := wan.count(rogueMark); n > 0 {
			w.Errorf("%d packets of the hostile app left by wan, which its network may not use", n)
		}
		for _, s := range []*sniffer{wan, lte} {
			if n := s.count(words[1]) + s.count(words[2]); n > 0 {
				w.Errorf("%d packets left with an app's own address", n)
			}
		}
	})
}

// usesPort6 waits until new flows of the network's IPv6 leave by an uplink.
func (w *world) usesPort6(uplink int) {
	w.Helper()
	w.says(func() string { return w.cli("explain", "ni/"+ni(1)) }, "port = uplink, IPv6: uses "+uplinkLabels[uplink]+" for")
	w.eventually("IPv6 by "+uplinkLabels[uplink], func() bool {
		s, err := w.openFlow(isp6Web)
		return err == nil && s.uplink == uplink
	})
	w.wait("ready", "ni/"+ni(1))
}

// With drain, connections over IPv6 outlive the return to the cheaper uplink, an operator's drain and kill -9 as those
// over IPv4 do, and a failure of IPv6 alone ends those of IPv6 alone. A limit makes each packet meet the rules for ports.
func TestFlowsOfIPv6DrainFromAnUplinkThatIsLeft(t *testing.T) {
	t.Parallel()
	const limited = "slow: {action: limit, direction: both, limit: {rate: 10000/s, burst: 10000}}"
	w := newFlowsWorld6(t, 10, "flows: drain", limited)
	by := func(uplink int) *tcpFlow { w.Helper(); return w.flowTo(isp6Web, uplink) }
	wan, four := by(0), w.flowBy(0)

	w.cli("port", "drain", "wan")
	w.usesPort6(1)
	lte := by(1)
	for _, s := range []*tcpFlow{wan, four, lte} {
		w.lives(s, "wan is drained")
	}
	w.cli("port", "undrain", "wan")
	w.usesPort6(0)
	again := by(0)
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	all := func(when string, flows ...*tcpFlow) {
		t.Helper()
		for _, s := range flows {
			w.lives(s, when)
		}
	}
	all("the daemon is dead", wan, four, lte, again)
	w.restart()
	all("after kill -9", wan, four, lte, again)

	w.farSide6(0, true)
	w.usesPort6(1)
	w.ended(wan, "the IPv6 of wan is dead")
	_ = again.SetReadDeadline(time.Now().Add(20 * time.Second)) // it only waits, and sends nothing that could be reset
	if _, err := again.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the IPv6 of wan is dead: a connection that waits did not end: %v", err)
	}
	all("the IPv6 of wan is dead", lte, four, by(1), w.flowBy(0))
	w.farSide6(0, false)
	w.usesPort6(0)
	all("the return to wan", lte, four, by(0))

	onHost := func() string {
		return w.in("node", "ip", "-6", "rule") + w.in("node", "nft", "list", "table", "inet", "edgespan")
	}
	if text := onHost(); !strings.Contains(text, "fwmark 0x1000000/0xf000000") || !strings.Contains(text, "ES1-FLOWS6") {
		t.Errorf("the rules of drain are not on the host:\n%s", text)
	}
	w.apply(flowsDoc6(10, "flows: reset", limited))
	w.wait("ready", "ni/"+ni(1))
	w.ended(lte, "the policy is reset")
	w.eventually("reset leaves nothing of drain", func() bool { return !strings.Contains(onHost(), "ES1-FLOWS") })
}

// With keep, a connection over IPv6 waits for the uplink over which it began.
func TestFlowsOfIPv6AreKeptOnAnUplinkThatFails(t *testing.T) {
	t.Parallel()
	w := newFlowsWorld6(t, 10, "flows: keep", allowAll)
	wan := w.flowTo(isp6Web, 0)
	w.farSide6(0, true)
	w.usesPort6(1)
	lte := w.flowTo(isp6Web, 1)
	if err := wan.round(time.Second); err == nil {
		t.Error("a connection over wan still carries bytes")
	}
	w.farSide6(0, false)
	// The bytes of the failed round come first.
	_ = wan.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadFull(wan, make([]byte, 100*len(fmt.Sprintf("round %d of uplink %d\n", wan.sent, 0)))); err != nil {
		t.Fatalf("the connection over wan after the repair: %v", err)
	}
	w.usesPort6(0)
	w.lives(wan, "the return to wan")
	w.lives(lte, "the return to wan")
}

// New connections over IPv6 are spread over the uplinks that are equal for IPv6, and each stays on its own.
func TestFlowsOfIPv6AreSpreadOverEqualUplinks(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env []string) {
		t.Parallel()
		w := newFlowsWorld6(t, 0, "share: true", allowAll, env...)
		const shared = "share = true: new flows of IPv6 are spread over lte, wan"
		explained := func() string { return w.cli("explain", "ni/"+ni(1)) }
		w.says(explained, shared)
		w.says(func() string {
			return w.cli("acl", "explain", "app/"+app(1)+"/0", "--to", isp6Web, "--proto", "tcp", "--port", "7000")
		}, "as new flows are shared, by ")
		const flows = 24
		by := w.spread(flows, isp6Web)
		if len(by[0]) < 2 || len(by[1]) < 2 { // once in 90,000 runs
			t.Fatalf("%d of %d connections left by wan, %d by lte", len(by[0]), flows, len(by[1]))
		}
		all := func(when string, flows ...*tcpFlow) {
			t.Helper()
			for _, f := range flows {
				w.lives(f, when)
			}
		}
		all("both work", slices.Concat(by[0], by[1])...)
		if err := w.node.Kill(); err != nil {
			t.Fatal(err)
		}
		all("the daemon is dead", slices.Concat(by[0], by[1])...)
		w.restart(env...)
		all("after kill -9", slices.Concat(by[0], by[1])...)

		w.farSide6(0, true)
		w.eventually("wan is left", func() bool { return !strings.Contains(explained(), shared) })
		w.usesPort6(1)
		for _, f := range by[0] {
			w.ended(f, "the IPv6 of wan is dead")
		}
		all("the IPv6 of wan is dead", by[1]...)
		w.says(explained, "share = true: new flows are spread over lte, wan")
		if got := w.spread(6, isp6Web); len(got[0]) > 0 {
			t.Error("connections left by wan, whose IPv6 is dead")
		}
		w.farSide6(0, false)
		w.says(explained, shared)
		w.eventually("wan gets new connections", func() bool { return len(w.spread(4, isp6Web)[0]) > 0 })
		all("wan is back", by[1]...)
	})
}
