package scenario

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"edgespan/platform/lab"
)

// backends are the two backends of iptables, with the environment of a daemon that finds one of them.
func backends(t *testing.T, each func(t *testing.T, env []string)) {
	t.Helper()
	t.Run("nft", func(t *testing.T) { each(t, nil) })
	t.Run("legacy", func(t *testing.T) {
		multi, err := exec.LookPath("xtables-legacy-multi")
		if err != nil {
			t.Skip("no legacy iptables:", err)
		}
		dir := t.TempDir()
		for _, name := range []string{"iptables", "ip6tables"} {
			for _, tool := range []string{"", "-save", "-restore"} {
				if err := os.Symlink(multi, filepath.Join(dir, name+tool)); err != nil {
					t.Fatal(err)
				}
			}
		}
		each(t, []string{"PATH=" + dir + ":" + os.Getenv("PATH")})
	})
}

// limitRule is a rule that allows few packets a minute beyond its burst.
func limitRule(name, direction, burst, match string) string {
	return name + ": {action: limit, direction: " + direction + ", limit: {rate: 1/m, burst: " + burst + "}, match: {" +
		match + "}}"
}

// An app sends many packets of one flow, and then one packet of each of many flows: what exceeds the rate is dropped
// toward the world, the node, and a neighbour that limits what it receives. Other packets of the same apps pass, and
// so does everything once the limit is gone.
func TestALimitCountsPacketsAndNotFlows(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env []string) {
		t.Parallel()
		w := newWorld(t, "web", "client")
		nets := []string{network(1, "")}
		const more = ", rest: {action: allow}, node: {action: allow, match: {ip: 192.0.2.2}}"
		w.start(doc(nets,
			onNet(1, 1, "web", limitRule("a", "egress", "8", "protocol: udp, ip: 198.51.100.80, port: 2000")+", "+
				limitRule("b", "egress", "6", "protocol: udp, ip: 192.0.2.2, port: 2000")+more),
			onNet(2, 1, "client", limitRule("a", "ingress", "5", "protocol: udp, localPort: 2000")+more)), env...)
		w.wait("ready", "app/"+app(1), "app/"+app(2))
		w.lease("web")
		w.lease("client")
		targets := []struct {
			what, short, addr string
			burst             int64
		}{
			{"the world", "isp", lab.WebAddr, 8}, {"the node", "node", lab.NodeAt, 6}, {"a neighbour", "client", clientIP, 5},
		}
		gateway, own := w.mac("node", "es1"), w.mac("web", "eth0")
		neighbour := w.mac("client", "eth0")
		web := w.raw("web")
		send := func(addr string, src, port uint16) {
			to := gateway
			if addr == clientIP {
				to = neighbour
			}
			frame := ether(to, own, etherIPv4, ipv4(w.ip(app(1)), netip.MustParseAddr(addr), 17, udp(src, port, []byte("x"))))
			if err := web.send(frame); err != nil {
				t.Fatal(err)
			}
		}
		for _, x := range targets {
			got, other := w.countUDP(x.short, x.addr+":2000"), w.countUDP(x.short, x.addr+":2001")
			const each = 60
			for n := range uint16(each) {
				send(x.addr, 3000, 2000)   // one flow
				send(x.addr, 4000+n, 2000) // a flow each
				send(x.addr, 3000, 2001)
			}
			w.eventually("the packets without a limit to "+x.what, func() bool { return other.n.Load() == each })
			if n := got.n.Load(); n < x.burst || n > x.burst+1 { // a minute may end meanwhile
				t.Errorf("%d packets arrive at %s, want the %d of the burst", n, x.what, x.burst)
			}
		}
		w.obey(nets, onNet(1, 1, "web", "rest: {action: allow}"), onNet(2, 1, "client", "rest: {action: allow}"))
		w.gets("without a limit", "web", "80", "")
		got := w.countUDP("isp", lab.WebAddr+":2002")
		w.eventually("packets without any limit", func() bool {
			for n := range uint16(20) {
				send(lab.WebAddr, 3000, 2002)
				send(lab.WebAddr, 5000+n, 2002)
			}
			return got.n.Load() > 30
		})
	})
}

// A neighbour opens connections as fast as it can; the app accepts those within its rate, and its other clients are
// served.
func TestASynFloodIsBoundedByALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client", "mate")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll), onNet(2, 1, "client",
		limitRule("a", "ingress", "10", "protocol: tcp, localPort: 7, ip: "+webIP)+", all: {action: allow}"),
		onNet(3, 1, "mate", allowAll)))
	w.wait("ready", "app/"+app(1), "app/"+app(2), "app/"+app(3))
	for _, a := range []string{"web", "client", "mate"} {
		w.lease(a)
	}
	w.echo("client", "tcp4", "0.0.0.0:7")
	mark := "\xa7\x42\x00\x07" // the port 42818 of the flood and that of the app
	got := w.sniff("client", "eth0", mark)
	frame := ether(w.mac("client", "eth0"), w.mac("web", "eth0"), etherIPv4,
		ipv4(w.ip(app(1)), netip.MustParseAddr(clientIP), 6, tcp(0xa742, 7, 0x02)))
	f := w.flood("web", frame)
	f.hit(w, 5000)
	w.reaches("another client during the flood", "mate", "tcp4", "", clientIP+":7")
	w.in("client", "ping", "-c1", "-W5", "10.1.0.1")
	if n := got.count(mark); n > 12 {
		t.Errorf("%d packets of the flood arrived, of %d sent", n, f.sent.Load())
	}
	w.misses("beyond the rate", "web", "tcp4", "", clientIP+":7")
}
