package scenario

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"edgespan/netinst"
	"edgespan/platform/lab"
)

// names6Prefix is the prefix of the addresses that the server of names gives for AAAA (host_test.go).
const names6Prefix = "2001:db8:80::/48"

// hostWorld6 is hostWorld with IPv6.
func hostWorld6(t *testing.T, more string, rules ...string) *world {
	t.Helper()
	w := newWorld6(t, "web", "client")
	w.names()
	w.in("isp", "ip", "-6", "route", "add", "local", names6Prefix, "dev", "lo")
	w.echo("isp", "tcp6", "[::]:8")
	net := strings.Replace(network6(1, `subnet: "`+net6+`", nat: true`), "{domain: n1.edge}",
		"{domain: n1.edge, servers: "+namesAddr+more+"}", 1)
	w.start(doc([]string{net}, onNet(1, 1, "web", rules[0]), onNet(2, 1, "client", rules[1])))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	for _, a := range []string{"web", "client"} {
		w.lease(a)
		w.slaac(a, net6)
	}
	return w
}

// resolve6 asks the gateway of network 1 for the IPv6 address of a name.
func (w *world) resolve6(app, name string) netip.Addr {
	w.Helper()
	q, m := new(dns.Msg), new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), dns.TypeAAAA)
	for range 10 { // the node limits an app's questions a second
		c, err := w.dial(app, "udp4", "", "10.1.0.1:53", timeout)
		if err != nil {
			w.Fatal(err)
		}
		answer, _, err := (&dns.Client{Timeout: 300 * time.Millisecond}).ExchangeWithConn(q, &dns.Conn{Conn: c})
		_ = c.Close()
		if err == nil {
			m = answer
			break
		}
	}
	for _, rr := range m.Answer {
		if a, ok := rr.(*dns.AAAA); ok {
			addr, _ := netip.AddrFromSlice(a.AAAA)
			return addr
		}
	}
	w.Fatalf("%s: no address for %s", app, name)
	return netip.Addr{}
}

// firstSYN6 is firstSYN for IPv6, to port 8.
func (w *world) firstSYN6(app string, to netip.Addr) bool {
	c, err := w.dial(app, "tcp6", "", netip.AddrPortFrom(to, 8).String(), 900*time.Millisecond)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// As a user I allow a host, and my app reaches whichever of its addresses it was told, over either family.
func TestTheSetOfAHostHasAnIPv6AddressBeforeTheFirstSYN(t *testing.T) {
	t.Parallel()
	w := hostWorld6(t, "", acl("allow egress host: many.test"), acl("allow egress host: other.test"))
	const names = 1000
	reached, reached4 := 0, 0
	for i := range names {
		name := fmt.Sprintf("n%d.many.test", i)
		if w.firstSYN6("web", w.resolve6("web", name)) {
			reached++
		}
		if i%10 == 0 {
			if addrs, _ := w.resolve("web", name); len(addrs) == 1 && w.firstSYN("web", addrs[0]) {
				reached4++
			}
		}
	}
	t.Logf("%d of %d names reached by the first SYN over IPv6, %d of 100 over IPv4", reached, names, reached4)
	if reached != names || reached4 != 100 {
		t.Errorf("%d of %d, %d of 100", reached, names, reached4)
	}
}

func TestARuleMatchesAHostOverIPv6(t *testing.T) {
	t.Parallel()
	w := hostWorld6(t, `, hosts: {printer.host.test: "2001:db8:80::9"}`, acl("allow egress host: host.test"),
		acl("drop egress host: host.test", "allow egress ip: \""+names6Prefix+"\""))
	sees := func(app, name string, want bool) netip.Addr {
		t.Helper()
		a := w.resolve6(app, name)
		if w.firstSYN6(app, a) != want {
			t.Errorf("%s reaches %s at %s: %v", app, name, a, !want)
		}
		return a
	}
	for _, name := range []string{"host.test", "a.host.test", "alias.host.test", "printer.host.test"} {
		sees("web", name, true)
		sees("client", name, false)
	}
	for _, name := range []string{"nothost.test", "alias.nothost.test"} {
		sees("web", name, false)
		sees("client", name, true)
	}
	last := sees("web", "b.host.test", true)
	old, err := w.dial("web", "tcp6", "", netip.AddrPortFrom(last, 8).String(), timeout)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	pid := w.dnsmasq()
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	if err := say(old, timeout); err != nil || !w.firstSYN6("web", last) || w.dnsmasq() != pid {
		t.Errorf("after a restart the flow, or the set, or dnsmasq is another: %v", err)
	}
	// A set in use cannot be destroyed by others, and one that they empty does not open anything.
	w.in("node", "ipset", "flush")
	if w.firstSYN6("web", last) {
		t.Error("an address that is in no set is reached")
	}
	sees("web", "c.host.test", true)
}

// As a user I limit what my app sends and receives, and IPv6 is no way around it.
func TestALimitCountsPacketsOfIPv6(t *testing.T) {
	t.Parallel()
	w := newWorld6(t, "web", "client")
	const more = ", rest: {action: allow}"
	nets := []string{network6(1, `subnet: "`+net6+`", nat: true`)}
	w.start(doc(nets,
		onNet(1, 1, "web", limitRule("a", "egress", "8", `protocol: udp, ip: "`+isp6Web+`", port: 2000`)+more),
		onNet(2, 1, "client", limitRule("a", "ingress", "5", "protocol: udp, localPort: 2000")+more)))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	own, client := w.slaac("web", net6), w.slaac("client", net6)
	web := w.raw("web")
	for _, x := range []struct {
		what, short, link string
		addr              netip.Addr
		burst             int64
	}{
		{"the world", "isp", "es1", netip.MustParseAddr(isp6Web), 8}, {"a neighbour", "client", "", client, 5},
	} {
		to := w.mac("client", "eth0")
		if x.link != "" {
			to = w.mac("node", x.link)
		}
		count := func(port int) *udpCounter {
			return w.countUDP(x.short, net.JoinHostPort(x.addr.String(), fmt.Sprint(port)))
		}
		got, other := count(2000), count(2001)
		const each = 60
		for n := range uint16(each) {
			for _, ports := range [][2]uint16{{3000, 2000}, {4000 + n, 2000}, {3000, 2001}} { // one flow, a flow each, and others
				packet := packet6(own, x.addr, 17, udp6From(ports[0], own, x.addr, ports[1], "x"))
				if err := web.send(ether(to, w.mac("web", "eth0"), etherIPv6, packet)); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.eventually("the packets without a limit to "+x.what, func() bool { return other.n.Load() == each })
		if n := got.n.Load(); n < x.burst || n > x.burst+1 { // a minute may end meanwhile
			t.Errorf("%d packets arrive at %s, want the %d of the burst", n, x.what, x.burst)
		}
	}
}

// As a user I route an IPv6 prefix by another port than the network's, and everything else by the network's.
func TestStaticRoutesOfIPv6(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	w.provide6(0)
	w.provide6(1)
	const other = "2001:db8:2::80"
	for _, isp := range []string{"isp", "isp2"} {
		w.in(isp, "ip", "addr", "add", other+"/128", "dev", "lo", "nodad")
		if err := w.HTTPServer(w.ctx, isp, "["+other+"]:80", "hello"); err != nil {
			t.Fatal(err)
		}
	}
	router := w.in("isp2", "ip", "-6", "-o", "addr", "show", "dev", w.Provider(1).Peer, "scope", "link")
	router = strings.Split(strings.Fields(router)[3], "/")[0]
	config := func(gateway string) string {
		n := network6(1, `subnet: "`+net6+`", nat: true`) + `    routes: {r: {destination: "2001:db8:2::/64", gateway: "` +
			gateway + `", port: lte}}` + "\n"
		return wan2 + "networkInstances:\n" + n + "appNetworks:\n" +
			onNet(1, 1, "web", allowAll)
	}
	w.start(config(router))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.slaac("web", net6)
	from := func(to, want string) {
		t.Helper()
		if got := w.in("web", "curl", "-sg", "-m", "5", "http://["+to+"]/"); !strings.Contains(got, "you are ["+want) {
			t.Errorf("%s by another way than %s: %q", to, want, got)
		}
	}
	from(isp6Web, "2001:db8:99:")
	from(other, "2001:db8:98:")
	w.apply(config("2001:db8:98::1"))
	w.wait("ready", "ni/"+ni(1))
	from(other, "2001:db8:98:")
	from(isp6Web, "2001:db8:99:")
	w.apply(config("2001:db8:97::1")) // no neighbour
	w.eventually("a warning", func() bool {
		return strings.Contains(fmt.Sprint(w.status("ni", ni(1))["warning"]), "gateway 2001:db8:97::1 is on no subnet of port lte")
	})
	w.wait("ready", "ni/"+ni(1))
	from(other, "2001:db8:99:")
	// The host's own prefix is no subnet of a network.
	clash := strings.ReplaceAll(config(router), net6, "2001:db8:99::/64")
	b, err := w.Config([]byte(clash))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := w.CLIWith(w.ctx, string(b), "apply", "-f", "-"); err != nil || r.Code != 4 ||
		!strings.Contains(r.Err, "ipv6.subnet: overlaps 2001:db8:99:") {
		t.Errorf("a config with the uplink's prefix: exit %d, %v: %s", r.Code, err, r.Err)
	}
}

// segment6 makes the segment's station a router that advertises fd77::/64.
func (w *world) segment6() {
	w.Helper()
	w.in("lan", "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
	w.in("lan", "ip", "addr", "add", "fd77::1/64", "dev", "eth0", "nodad")
	conf := filepath.Join(w.TempDir(), "router.conf")
	if err := os.WriteFile(conf, []byte("port=0\nlog-facility=-\npid-file=\ndhcp-leasefile="+conf+".leases\nuser=root\n"+
		"bind-interfaces\ninterface=eth0\nenable-ra\ndhcp-range=fd77::,ra-only\nra-param=eth0,4,1800\n"), 0o600); err != nil {
		w.Fatal(err)
	}
	w.background("lan", "dnsmasq", "--keep-in-foreground", "--conf-file="+conf)
}

// As a user I join apps to a segment with IPv6, and my rules and the guards hold there as for IPv4.
func TestASwitchNetworkPassesIPv6UnderItsRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lan", "a", "b", "c")
	w.segment()
	w.in("node", "sysctl", "-qw", "net.ipv6.conf.lan0.accept_ra=0") // an address of the host would keep it out of a bridge
	w.segment6()
	six := strings.Replace(switchNetwork(1, "lan"), "type: switch", "type: switch, ipv6: {mode: bridged}", 1)
	nets := []string{six, network(2, "")}
	const out = `out: {action: allow, direction: egress, match: {ip: "fd77::1"}}`
	const in = "in: {action: allow, direction: ingress, match: {protocol: tcp, localPort: 80}}"
	w.start(lanDoc(nets, onNet(1, 1, "a", out), onNet(2, 1, "b", in), onNet(3, 1, "c", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2), "app/"+app(3))
	a, b := w.slaac("a", "fd77::/64"), w.slaac("b", "fd77::/64") // neighbour discovery and advertisements need no rule
	w.slaac("c", "fd77::/64")
	w.reaches6("a", "fd77::1")
	w.misses6("b", "fd77::1")
	w.misses6("lan", a.String())
	w.misses6("c", a.String())
	w.echo("b", "tcp6", "[::]:80")
	w.echo("b", "tcp6", "[::]:81")
	for _, x := range []struct{ from, port, want string }{{"lan", "80", answered}, {"lan", "81", silence}, {"c", "80", answered},
		{"a", "80", silence}} {
		if got := w.meets(x.from, "tcp6", "", net.JoinHostPort(b.String(), x.port), denial); got != x.want {
			t.Errorf("%s to port %s meets %s, want %s", x.from, x.port, got, x.want)
		}
	}
	// The addresses that an app uses are reported.
	for id, addr := range map[string]netip.Addr{app(1): a, app(2): b} {
		w.eventually("the address of "+id, func() bool {
			return strings.Contains(w.cli("get", "adapter", id+"/0", "-o", "json"), addr.String())
		})
	}
	for _, x := range []struct{ app, way, peer, port, want string }{ // the answers agree with what the packets met
		{app(1), "--to", "fd77::1", "9", "allow"}, {app(2), "--to", "fd77::1", "9", "deny"},
		{app(1), "--from", "fd77::1", "9", "deny"}, {app(2), "--from", "fd77::1", "80", "allow"},
		{app(2), "--from", "fd77::1", "81", "deny"}, {app(1), "--to", b.String(), "80", "deny"},
		{app(3), "--to", b.String(), "80", "allow"},
	} {
		r, err := w.CLI(w.ctx, "acl", "explain", "app/"+x.app+"/0", x.way, x.peer, "--port", x.port, "-o", "json")
		if err != nil || !strings.Contains(r.Out, `"verdict": "`+x.want+`"`) {
			t.Errorf("app/%s %s %s port %s: want %s: %v, %s%s", x.app, x.way, x.peer, x.port, x.want, err, r.Out, r.Err)
		}
	}
	// What the router of the segment says is said by no app.
	heard := w.sniff("b", "eth0", "advertisement", "DHCPv6 answer", "redirect", "the good one")
	own, gone := w.mac("c", "eth0"), net.HardwareAddr{2, 0, 0, 0, 0, 9}
	local := netinst.EUI64(netip.MustParsePrefix("fe80::/64"), own.String())
	all := netip.MustParseAddr("ff02::1")
	raw := w.raw("c")
	send := func(from net.HardwareAddr, packet []byte) {
		if err := raw.send(ether(group6(all), from, etherIPv6, packet)); err != nil {
			t.Fatal(err)
		}
	}
	option := func(mark string) []byte { return append([]byte{253, byte((len(mark) + 9) / 8)}, pad8(mark)...) }
	advert := icmp6(local, all, 134, slices.Concat([]byte{64, 0, 7, 8}, make([]byte, 8), option("advertisement")))
	send(own, packet6(local, all, 58, advert))
	send(own, packet6(local, all, 60, append([]byte{58, 0, 1, 4, 0, 0, 0, 0}, advert...)))
	send(own, packet6(local, all, 44, append([]byte{58, 0, 0, 0, 0, 0, 0, 7}, advert...)))
	send(own, packet6(local, all, 58, icmp6(local, all, 137, slices.Concat(make([]byte, 36), option("redirect")))))
	send(own, packet6(local, all, 17, udp(547, 546, []byte("DHCPv6 answer"))))
	send(gone, packet6(local, all, 17, udp6(local, all, 80, "the good one"))) // not its own MAC
	// c takes no other's MAC in neighbour discovery: lan keeps finding a.
	for range 20 {
		send(own, packet6(a, all, 58, icmp6(a, all, 136, slices.Concat([]byte{0x20, 0, 0, 0}, a.AsSlice(), []byte{2, 1},
			gone))))
	}
	w.reaches6("a", "fd77::1")
	if text := w.in("lan", "ip", "-6", "neigh", "show", "dev", "eth0"); strings.Contains(text, gone.String()) {
		t.Errorf("neighbours of the segment: %s", text)
	}
	w.apply(lanDoc(nets, onNet(1, 1, "a", out), onNet(2, 1, "b", "udp: {action: allow, direction: both, match: {protocol: udp}}"),
		onNet(3, 1, "c", allowAll)))
	w.wait("ready", "app/"+app(2))
	w.eventually("what is allowed", func() bool {
		send(own, packet6(local, all, 17, udp6(local, all, 80, "the good one")))
		return heard.count("the good one") > 0
	})
	for _, mark := range []string{"advertisement", "DHCPv6 answer", "redirect"} {
		if n := heard.count(mark); n > 0 {
			t.Errorf("%d of %s arrived", n, mark)
		}
	}
	if got := w.meets("lan", "tcp6", "", net.JoinHostPort(b.String(), "80"), denial); got != silence {
		t.Errorf("a port that is no longer allowed meets %s", got)
	}
	// Without IPv6 nothing of it passes, and nothing of it is left.
	nets[0] = switchNetwork(1, "lan")
	w.apply(lanDoc(nets, onNet(1, 1, "a", out), onNet(2, 1, "b", in), onNet(3, 1, "c", allowAll)))
	w.wait("ready", "ni/"+ni(1))
	w.misses6("a", "fd77::1")
	w.eventually("no table", func() bool { return !strings.Contains(w.in("node", "nft", "list", "tables"), "ip6 edgespan") })
}
