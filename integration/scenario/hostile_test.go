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

// A host on the uplink knows an app's address, forges that of another app, and sends from the port that the app's rule
// names. An app sends packets that belong to no flow. None of them arrives.
func TestAHostOnTheUplinkPassesByNoForgery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	const https = "https: {action: allow, match: {protocol: tcp, port: 443}}" // absent: once it was both ways
	w.start(doc([]string{network(1, ""), network(2, "")},
		onNet(1, 1, "web", allowAll),
		onNet(2, 1, "client", https+
			", peer: {action: allow, direction: ingress, match: {protocol: udp, localPort: 5000, ip: 10.1.0.0/24}}"+
			", other: {action: allow, direction: ingress, match: {protocol: udp, localPort: 5000, ip: 10.2.0.0/24}}"+
			", isp: {action: allow, direction: ingress, match: {protocol: udp, localPort: 5001}}")))
	w.wait("ready", "app/"+app(1), "app/"+app(2), "ni/"+ni(2))
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
	got, back := w.sniff("client", "eth0", forged, honest), w.sniff("web", "eth0", forged)
	wire := w.rawOn("isp", "node0")
	sendTo := func(src, dst netip.Addr, port uint16, mark string) {
		frame := ether(w.mac("node", lab.Uplink), w.mac("isp", "node0"), etherIPv4,
			ipv4(src, dst, 17, udp(7, port, []byte(mark))))
		if err := wire.send(frame); err != nil {
			t.Fatal(err)
		}
	}
	send := func(src netip.Addr, port uint16, mark string) { t.Helper(); sendTo(src, client, port, mark) }
	w.echo("node", "udp4", lab.NodeAt+":7")
	for range 3 {
		send(web, 5000, forged)
		send(netip.MustParseAddr("10.2.0.128"), 5000, forged)   // of another network, which the app's rule names
		sendTo(web, netip.MustParseAddr(lab.NodeAt), 7, forged) // the node's answer would go to the app
	}
	w.eventually("an honest packet", func() bool {
		send(netip.MustParseAddr("192.0.2.1"), 5001, honest)
		return got.count(honest) > 0
	})
	if n := got.count(forged); n > 0 {
		t.Errorf("%d packets with an app's address came in from the uplink", n)
	}
	if n := back.count(forged); n > 0 {
		t.Errorf("the node answered %d packets that came with an app's address from the uplink", n)
	}

	// A header that is not translated.
	private := string(web.AsSlice()) + string(netip.MustParseAddr(lab.WebAddr).AsSlice())
	out := w.sniff("isp", "node0", private, honest)
	app := w.raw("web")
	tell := func(proto byte, payload []byte) {
		if err := app.send(ether(w.mac("node", "es1"), w.mac("web", "eth0"), etherIPv4,
			ipv4(web, webAddr, proto, payload))); err != nil {
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

// tcp returns a header without a checksum: conntrack calls it INVALID, whatever its flags.
func tcp(src, dst uint16, flags byte) []byte {
	h := udp(src, dst, make([]byte, 12))
	h[4], h[5], h[6], h[7] = 0, 0, 1, 0
	h[12], h[13], h[14] = 5<<4, flags, 0x20
	return h
}

// dhcpAsk returns a DHCP request with options, for the owner of chaddr.
func dhcpAsk(chaddr net.HardwareAddr, options ...byte) []byte {
	p := make([]byte, 236)
	copy(p, []byte{1, 1, 6})
	copy(p[28:], chaddr)
	p = append(append(p, 99, 130, 83, 99), options...)
	return udp(68, 67, append(p, 255))
}

// An app sends DHCP requests with its neighbour's MAC, and answers its neighbour as a server would. The neighbour
// still gets its lease from the node.
func TestAnAppTakesNoAddressFromAnotherByDHCP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll)))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	before := w.lease("client")
	w.lease("web")
	client, everybody := w.mac("client", "eth0"), net.HardwareAddr{255, 255, 255, 255, 255, 255}
	address, gateway := before.IP.As4(), netip.MustParseAddr("10.1.0.1")
	const offer, honest = "an offer of a rogue server", "an honest packet"
	got := w.sniff("client", "eth0", offer, honest)
	web, own := w.raw("web"), w.mac("web", "eth0")
	tell := func(dst net.HardwareAddr, src, to netip.Addr, payload []byte) {
		if err := web.send(ether(dst, own, etherIPv4, ipv4(src, to, 17, payload))); err != nil {
			t.Fatal(err)
		}
	}
	all := netip.MustParseAddr("255.255.255.255")
	for _, kind := range []byte{4, 7} { // DHCPDECLINE and DHCPRELEASE (RFC 2132 §9.6)
		options := append([]byte{53, 1, kind, 54, 4, 10, 1, 0, 1, 50, 4}, address[:]...)
		for _, src := range []netip.Addr{netip.IPv4Unspecified(), w.ip(app(1))} {
			tell(everybody, src, all, dhcpAsk(client, options...))
			tell(w.mac("node", "es1"), src, gateway, dhcpAsk(client, options...))
		}
	}
	for _, port := range []uint16{67, 4000} {
		tell(client, w.ip(app(1)), before.IP, udp(port, 68, []byte(offer)))
		tell(everybody, w.ip(app(1)), all, udp(port, 68, []byte(offer)))
	}
	w.eventually("an honest packet", func() bool {
		tell(client, w.ip(app(1)), before.IP, udp(7, floodPort, []byte(honest)))
		return got.count(honest) > 0
	})
	if n := got.count(offer); n > 0 {
		t.Errorf("%d answers of a rogue server arrived", n)
	}
	if after := w.lease("client"); after.IP != before.IP || after.Server != "10.1.0.1" {
		t.Errorf("the lease is %+v, before it was %+v", after, before)
	}

	// An app that sends requests in a loop doesn't keep the server from its neighbour either.
	ask := ether(everybody, own, etherIPv4, ipv4(netip.IPv4Unspecified(), all, 17, dhcpAsk(own, 53, 1, 1)))
	stop, ended := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				ended <- n
				return
			default:
				_ = web.send(ask) // a full queue is part of the test
			}
		}
	}()
	after := w.lease("client")
	close(stop)
	if n := <-ended; n < 1000 || after.IP != before.IP {
		t.Errorf("beside %d questions of its neighbour the lease is %+v, before it was %+v", n, after, before)
	}
}

// On a switch network, an app serves DHCP only if its adapter permits it.
func TestAnAppServesDHCPOnASwitchOnlyWithLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lan", "guest")
	serves := func(more string) string {
		return doc([]string{switchNetwork(1, "")}, strings.Replace(onNet(1, 1, "lan", allowAll),
			"networkInstance", more+"networkInstance", 1), onNet(2, 1, "guest", allowAll))
	}
	w.start(serves(""))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.static("lan", "10.77.0.1")
	w.serveDHCP("10.77.0.100,10.77.0.150")
	w.in("guest", "ip", "link", "set", "eth0", "up")
	w.fails("guest", "udhcpc", "-i", "eth0", "-f", "-n", "-q", "-t", "2", "-T", "1", "-s", "/bin/true")
	w.apply(serves("dhcpServer: true, "))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	if l := w.lease("guest"); l.Server != "10.77.0.1" {
		t.Errorf("lease %+v", l)
	}
}

// An app opens as many flows as it can. Other apps and the node's management continue, and the machine's table has
// room.
func TestAnAppThatOpensAllFlowsHurtsItselfAlone(t *testing.T) {
	const limit, tries, pings = 8192, 12000, 300
	w := newWorld(t, "web", "client")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll)))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.lease("web")
	w.lease("client")
	web, node, own, addr := w.raw("web"), w.mac("node", "es1"), w.mac("web", "eth0"), w.ip(app(1))
	lost := make(chan string, 2)
	ping := func(who, whom string, limit float64) {
		r, err := w.Exec(w.ctx, who, "ping", "-q", "-i", "0.01", "-c", fmt.Sprint(pings), "-W", "2", whom)
		said := regexp.MustCompile(`([\d.]+)% packet loss`).FindStringSubmatch(r.Out)
		if err != nil || len(said) < 2 {
			lost <- fmt.Sprintf("%s to %s: status %d, %v: %s", who, whom, r.Code, err, r.Out)
			return
		}
		n, err := strconv.ParseFloat(said[1], 64)
		t.Logf("%s to %s: %s", who, whom, said[0])
		if err != nil || n > limit {
			t.Errorf("%s to %s: %s, %v: %v %% at most", who, whom, said[0], err, limit)
		}
		lost <- ""
	}
	go ping("client", lab.WebAddr, 1)
	go ping("isp", lab.NodeAt, 0) // a client of the node's management
	began, sent := time.Now(), 0
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ended := 0; ended < 2 || sent < tries; { // all at once, and then 2,000 more per second
		frame := ether(node, own, etherIPv4,
			ipv4(addr, webAddr, 17, udp(uint16(10000+sent%50000), uint16(1000+sent/50000), nil)))
		if err := web.send(frame); err != nil {
			t.Fatal(err)
		}
		if sent++; sent < tries || sent%10 > 0 {
			continue
		}
		select {
		case fault := <-lost:
			if ended++; fault != "" {
				t.Error(fault)
			}
		case <-tick.C:
		}
	}
	t.Logf("%d flows tried in %v", sent, time.Since(began))
	w.in("client", "curl", "-sf", "--max-time", "5", "http://"+lab.WebAddr+"/") // a new flow of another
	w.in("isp", "ping", "-c1", "-W2", lab.NodeAt)
	entries := strings.Count(w.in("node", "conntrack", "-L", "-s", addr.String(), "-d", lab.WebAddr), "src="+addr.String()+
		" ")
	if entries < limit/2 || entries > limit {
		t.Errorf("the app has %d flows, %d are its most", entries, limit)
	}
	t.Logf("%d flows are tracked", entries)
	if dropped := w.in("node", "iptables", "-vxnL",
		"ES1-1L"); !regexp.MustCompile(`\n +[1-9]\d+ .*DROP`).MatchString(dropped) {
		t.Errorf("no drop is counted: %s", dropped)
	}
	w.fails("web", "curl", "-sf", "--max-time", "1", "http://"+lab.WebAddr+"/")
	// An observation that finds something reads the counters, as each minute's does.
	w.in("node", "iptables", "-F", "ES1-1E")
	const told = "packets of new flows dropped: more than 8192 flows, or too many TCP connections a second (maxFlows)"
	w.eventually("the drops are told", func() bool {
		warning, _ := w.status("ni", ni(1))["warning"].(string)
		return regexp.MustCompile("adapter "+app(1)+"/0: [1-9][0-9]{3,} ").MatchString(warning) &&
			strings.Contains(warning, told)
	})
	w.says(func() string { return w.cli("explain", "adapter/"+app(1)+"/0") }, "warning: ", told)
	if out := w.cli("explain", "adapter/"+app(2)+"/0"); strings.Contains(out, told) {
		t.Errorf("another app: %s", out)
	}
}
