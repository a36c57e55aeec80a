package scenario

import (
	"net/netip"
	"testing"

	"edgespan/integration/lab"
)

// A host on the uplink knows an app's address, forges that of another app, and sends from the
// port that the app's rule names; an app sends what belongs to no flow. None of it arrives.
func TestAHostOnTheUplinkPassesByNoForgery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	const https = "https: {action: allow, match: {protocol: tcp, port: 443}}" // absent: once it was both ways
	w.start(doc([]string{network(1, "")},
		onNet(1, 1, "web", allowAll),
		onNet(2, 1, "client", https+", peer: {action: allow, direction: ingress, match: {protocol: udp, localPort: 5000, ip: 10.1.0.0/24}}"+
			", isp: {action: allow, direction: ingress, match: {protocol: udp, localPort: 5001}}")))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.lease("web")
	w.lease("client")
	web, client := w.ip(app(1)), w.ip(app(2))
	for _, link := range []string{"all", lab.Uplink} {
		w.in("node", "sysctl", "-qw", "net.ipv4.conf."+link+".rp_filter=2")
	}
	w.in("isp", "ip", "route", "add", "10.1.0.0/24", "via", lab.NodeAt)
	w.echo("client", "tcp4", "0.0.0.0:22")
	w.misses("the remote port of a rule", "isp", "tcp4", "192.0.2.1:443", client.String()+":22")
	w.in("client", "curl", "-sf", "--max-time", "5", "http://"+lab.WebAddr+":443/")

	const forged, honest = "in the name of an app", "in its own name"
	got := w.sniff("client", "eth0", forged, honest)
	wire := w.rawOn("isp", "node0")
	send := func(src netip.Addr, port uint16, mark string) {
		frame := ether(w.mac("node", lab.Uplink), w.mac("isp", "node0"), etherIPv4, ipv4(src, client, 17, udp(7, port, []byte(mark))))
		if err := wire.send(frame); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		send(web, 5000, forged)
	}
	w.eventually("an honest packet", func() bool {
		send(netip.MustParseAddr("192.0.2.1"), 5001, honest)
		return got.count(honest) > 0
	})
	if n := got.count(forged); n > 0 {
		t.Errorf("%d packets with an app's address came in from the uplink", n)
	}

	private := string(web.AsSlice()) + string(netip.MustParseAddr(lab.WebAddr).AsSlice()) // of a header that is not translated
	out := w.sniff("isp", "node0", private, honest)
	app := w.raw("web")
	tell := func(proto byte, payload []byte) {
		if err := app.send(ether(w.mac("node", "es1"), w.mac("web", "eth0"), etherIPv4, ipv4(web, webAddr, proto, payload))); err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range []byte{0x11, 0x04, 0x10} { // FIN and ACK, RST, ACK
		tell(6, tcp(3333, 80, flags))
	}
	w.eventually("a translated packet", func() bool {
		tell(17, udp(7, floodPort, []byte(honest)))
		return out.count(honest) > 0
	})
	if n := out.count(private); n > 0 {
		t.Errorf("%d packets left the uplink with the app's own address", n)
	}
}

// tcp is a header without a checksum: conntrack calls it INVALID, whatever its flags.
func tcp(src, dst uint16, flags byte) []byte {
	h := udp(src, dst, make([]byte, 12))
	h[4], h[5], h[6], h[7] = 0, 0, 1, 0
	h[12], h[13], h[14] = 5<<4, flags, 0x20
	return h
}
