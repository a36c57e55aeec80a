package scenario

import (
	wire "encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// An app sends to thousands of absent hosts on the uplink's own link. Where its rules deny it that link, the
// kernel looks for none of them, and apps of other networks find their neighbours. Without that rule they find none:
// the kernel has room for 1,024 neighbours of the whole machine (docs/benchmarks.md).
func TestARuleKeepsAnAppFromFillingTheNeighboursOfTheUplink(t *testing.T) {
	w := newWorld6(t, "web", "mate")
	second := strings.Replace(net6, ":7:1:", ":7:2:", 1)
	w.start(doc([]string{network6(1, `subnet: "`+net6+`", nat: true`), network6(2, `subnet: "`+second+`", nat: true`)},
		onNet(1, 1, "web", `link: {action: drop, order: 1, direction: egress, match: {ip: "`+isp6Prefix+`"}}, `+allowAll),
		onNet(2, 2, "mate", allowAll)))
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
	from := w.slaac("web", net6)
	w.slaac("mate", second)
	link := netip.MustParsePrefix(isp6Prefix).Addr().As16()
	for n := range 5 {
		w.in("isp", "ip", "addr", "add", fmt.Sprintf("2001:db8:99::%x/64", 0x100+n), "dev", w.Provider(0).Peer, "nodad")
	}
	w.reaches6("mate", "2001:db8:99::100")

	var frames [][]byte
	own, gate := w.mac("web", "eth0"), w.mac("node", "es1")
	for n := range 20000 {
		to := link
		wire.BigEndian.PutUint32(to[8:], 0xbad)
		wire.BigEndian.PutUint32(to[12:], uint32(n))
		dst := netip.AddrFrom16(to)
		frames = append(frames, ether(gate, own, etherIPv6, packet6(from, dst, 17, udp6(from, dst, floodPort, "x"))))
	}
	f := w.flood("web", frames...)
	f.hit(w, 40000)
	for n := 1; n < 5; n++ {
		out, err := w.Command(w.ctx, "mate", "ping", "-6", "-c", "1", "-W", "1",
			fmt.Sprintf("2001:db8:99::%x", 0x100+n)).CombinedOutput()
		if err != nil {
			t.Errorf("mate doesn't reach neighbour %d of the uplink: %v: %s", n, err, out)
		}
	}
	w.reaches6("web", isp6Web) // the router is on that link, and the packet is not for it
	known := w.in("node", "ip", "-6", "neigh", "show", "nud", "all", "dev", w.Provider(0).Dev)
	if n := strings.Count(known, ":bad:"); n > 0 {
		t.Errorf("the node looked for %d hosts of the flood", n)
	}
	if err := f.end(); err != nil {
		t.Error(err)
	}
}
