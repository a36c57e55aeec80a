package scenario

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// attackMark is in every frame of the floods.
const attackMark = "let me through"

// attack returns the frames with which app 1 floods the world and app 2.
func (w *world) attack(port uint16) [][]byte {
	w.Helper()
	from, src := w.mac("web", "eth0"), w.ip(app(1))
	packet := udp(7777, port, []byte(attackMark))
	world := ether(w.mac("node", "es1"), from, etherIPv4, ipv4(src, netip.MustParseAddr(lab.WebAddr), 17, packet))
	peer := ether(w.mac("client", "eth0"), from, etherIPv4, ipv4(src, w.ip(app(2)), 17, packet))
	return [][]byte{world, peer}
}

// countFrames counts the frames that the adapters of network 1 receive, before any rule sees them.
func (w *world) countFrames() func() int {
	w.Helper()
	for _, c := range []string{
		"add table bridge count", "add counter bridge count frames",
		"add chain bridge count in { type filter hook prerouting priority -400; }",
		"add rule bridge count in iifname es1a* counter name frames",
	} {
		w.in("node", "nft", c)
	}
	packets := regexp.MustCompile(`packets (\d+)`)
	return func() int {
		w.Helper()
		m := packets.FindStringSubmatch(w.in("node", "nft", "list counter bridge count frames"))
		if m == nil {
			w.Fatal("no counter")
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			w.Fatal(err)
		}
		return n
	}
}

func TestNoPacketPassesAnAdapterBeforeItsChainIsInPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	nets, other := []string{network(1, "")}, onNet(2, 1, "client", allowAll)
	denied := onNet(1, 1, "web", "")
	w.start(doc(nets, denied, other))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.in("client", "ip", "link", "set", "eth0", "up")
	uplink := w.countUDP("isp", net.JoinHostPort(lab.WebAddr, strconv.Itoa(floodPort)))
	peer := w.sniff("client", "eth0", attackMark)
	frames := w.countFrames()
	f := w.flood("web", w.attack(floodPort)...)
	began := time.Now()
	for range 100 {
		w.apply(doc(nets, strings.Replace(denied, "activate: true", "activate: false", 1), other))
		w.wait("ready", "app/"+app(1))
		before := frames()
		w.apply(doc(nets, denied, other))
		w.wait("ready", "app/"+app(1))
		w.eventually("a frame at the bridge", func() bool { return frames() > before })
	}
	t.Logf("100 attachments in %v under %d frames, %d at the bridge", time.Since(began).Round(time.Second), f.sent.Load(),
		frames())
	if a, b := uplink.n.Load(), peer.count(attackMark); a+int64(b) > 0 {
		t.Errorf("%d packets passed to the uplink and %d to the other app", a, b)
	}
	// The same frames of the same sender arrive as soon as they are allowed.
	w.apply(doc(nets, onNet(1, 1, "web", "all: {action: allow, direction: egress}"), other))
	w.eventually("an allowed packet", func() bool { return uplink.n.Load() > 0 && peer.count(attackMark) > 0 })
}

func TestNoChangeOfRulesPassesWhatNeitherAllows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	nets, other := []string{network(1, "")}, onNet(2, 1, "client", allowAll)
	rules := func(port string, more int) string { // more rules before it, which change with it and match no packet
		var acl strings.Builder
		for i := range more {
			fmt.Fprintf(&acl, "a%04d: {action: allow, direction: egress, match: {ip: 203.0.113.%d, protocol: udp, port: %s}}, ",
				i, i%250, port)
		}
		return doc(nets, onNet(1, 1, "web", acl.String()+"one: {action: allow, direction: egress, match: {protocol: udp, "+
			"port: "+port+"}}"), other)
	}
	w.start(rules("9001", 0))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.in("client", "ip", "link", "set", "eth0", "up")
	denied := w.countUDP("isp", net.JoinHostPort(lab.WebAddr, strconv.Itoa(floodPort)))
	allowed := map[string]*udpCounter{"9001": w.countUDP("isp", lab.WebAddr+":9001"),
		"9002": w.countUDP("isp", lab.WebAddr+":9002")}
	peer := w.sniff("client", "eth0", attackMark)
	bad := w.attack(floodPort)
	// Packets that the old or the new rules allow go only to the uplink: the other app's sniffer must see nothing.
	f := w.flood("web", bad[0], bad[1], w.attack(9001)[0], bad[0], bad[1], w.attack(9002)[0])
	change := func(port string, more int) {
		w.apply(rules(port, more))
		w.wait("ready", "app/"+app(1))
		now := allowed[port].n.Load()
		w.eventually("a packet to "+port, func() bool { return allowed[port].n.Load() > now })
		f.hit(w, 100)
	}
	for range 15 {
		change("9002", 0)
		change("9001", 0)
	}
	began, sent := time.Now(), f.sent.Load()
	for range 3 {
		change("9002", 999)
		change("9001", 999)
	}
	took := time.Since(began)
	t.Logf("6 changes of 1,000 rules in %v under %.0f packets a second", took.Round(time.Millisecond),
		float64(f.sent.Load()-sent)/took.Seconds())
	if a, b := denied.n.Load(), peer.count(attackMark); a+int64(b) > 0 {
		t.Errorf("%d packets passed to the uplink and %d to the other app", a, b)
	}
}
