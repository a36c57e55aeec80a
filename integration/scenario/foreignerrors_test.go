package scenario

import (
	wire "encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"

	"edgespan/platform/lab"
)

// unreachable is an ICMP error about a packet (RFC 792), with the right checksum: conntrack reads no other.
func unreachable(inner []byte) []byte {
	m := slices.Concat([]byte{3, 3, 0, 0, 0, 0, 0, 0}, inner)
	wire.BigEndian.PutUint16(m[2:], checksum(m))
	return m
}

// An app that may send nothing knows a flow of another network's app, and sends ICMP errors about it to the node's
// address. For conntrack they belong to that flow: they must neither reach its app nor leave the node.
func TestErrorsAboutFlowsOfAnotherNetworkGoNowhere(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env []string) {
		t.Parallel()
		w := newWorld(t, "web", "mate")
		w.start(doc([]string{network(1, ""), network(2, "")}, onNet(1, 1, "web", ""), onNet(2, 2, "mate", allowAll)), env...)
		w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
		w.lease("web")
		w.lease("mate")
		const forged, honest = "about a flow of mate", "an honest error"
		uplink, mate := w.sniff("isp", w.Provider(0).Peer, forged, honest), w.sniff("mate", "eth0", forged, honest)
		heard := w.countUDP("isp", lab.WebAddr+":9999")
		var c net.Conn
		err := w.inside("mate", func() (err error) {
			d := net.Dialer{LocalAddr: &net.UDPAddr{Port: 4000}}
			if c, err = d.Dial("udp4", lab.WebAddr+":9999"); err == nil {
				_, err = c.Write([]byte("x"))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		w.eventually("the packet of mate", func() bool { return heard.n.Load() > 0 })

		node := netip.MustParseAddr(lab.NodeAt)
		about := func(mark string) []byte {
			return unreachable(ipv4(node, webAddr, 17, udp(4000, 9999, []byte(mark))))
		}
		frame := ether(w.mac("node", "es1"), w.mac("web", "eth0"), etherIPv4, ipv4(w.ip(app(1)), node, 1, about(forged)))
		web, isp := w.raw("web"), w.rawOn("isp", w.Provider(0).Peer)
		for range 3 {
			if err := web.send(frame); err != nil {
				t.Fatal(err)
			}
		}
		// From where the flow leads, the same error reaches mate: the test's errors are good ones.
		back := ether(w.mac("node", w.Provider(0).Dev), w.mac("isp", w.Provider(0).Peer), etherIPv4,
			ipv4(webAddr, node, 1, about(honest)))
		w.eventually("the error from the uplink", func() bool { return isp.send(back) == nil && mate.count(honest) > 0 })
		if n, m := uplink.count(forged), mate.count(forged); n+m > 0 {
			t.Errorf("errors of web: %d leave by the uplink, %d reach mate", n, m)
		}
	})
}
