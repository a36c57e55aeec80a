package scenario

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// namesAddr is a DNS server at the provider that has every name below test: each answer has an address, or more, that
// none before had, from a prefix that the provider serves.
const (
	namesAddr   = "198.51.100.54"
	namesPrefix = "100.80.0.0/16"
)

// names starts the server. A name that begins with "alias." is a CNAME of cdn.test, one with "big." has 60 addresses;
// all have a TTL of a day.
func (w *world) names() {
	w.Helper()
	w.in("isp", "ip", "addr", "add", namesAddr+"/32", "dev", "lo")
	w.in("isp", "ip", "addr", "add", "100.80.0.1/16", "dev", "lo") // all of it, as of loopback
	w.echo("isp", "tcp4", "0.0.0.0:7")
	var next atomic.Uint32
	address := func(of string) dns.RR {
		n := next.Add(1) + 255
		return &dns.A{Hdr: dns.RR_Header{Name: of, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 86400},
			A: net.IPv4(100, 80, byte(n>>8), byte(n))}
	}
	answer := func(r dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		name := q.Question[0].Name
		of := name
		if strings.HasPrefix(name, "alias.") {
			of = "cdn.test."
			m.Answer = append(m.Answer, &dns.CNAME{Target: of,
				Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 86400}})
		}
		if q.Question[0].Qtype == dns.TypeA {
			m.Answer = append(m.Answer, address(of))
			for strings.HasPrefix(name, "big.") && len(m.Answer) < 60 {
				m.Answer = append(m.Answer, address(of))
			}
		} else if q.Question[0].Qtype == dns.TypeAAAA {
			m.Answer = append(m.Answer, &dns.AAAA{AAAA: net.ParseIP(fmt.Sprintf("2001:db8:80::1:%x", next.Add(1))),
				Hdr: dns.RR_Header{Name: of, Rrtype: dns.TypeAAAA, Class: dns.ClassINET, Ttl: 86400}})
		}
		if _, udp := r.RemoteAddr().(*net.UDPAddr); udp {
			m.Truncate(dns.MinMsgSize)
		}
		_ = r.WriteMsg(m)
	}
	var servers []*dns.Server
	err := w.inside("isp", func() error {
		pc, err := net.ListenPacket("udp4", namesAddr+":53")
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp4", namesAddr+":53")
		servers = []*dns.Server{{PacketConn: pc, Handler: dns.HandlerFunc(answer)},
			{Listener: l, Handler: dns.HandlerFunc(answer)}}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	for _, s := range servers {
		go func() { _ = s.ActivateAndServe() }()
		w.Cleanup(func() { _ = s.ShutdownContext(context.Background()) })
	}
}

// resolve asks the gateway of network 1 for a name from an app, again over TCP if the answer is truncated, and returns
// its addresses and the highest TTL.
func (w *world) resolve(app, name string) (addrs []netip.Addr, ttl uint32) {
	w.Helper()
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), dns.TypeA)
	var m *dns.Msg
	for try := 0; m == nil && try < 3; try++ {
		for _, network := range []string{"udp4", "tcp4"} {
			c, err := w.dial(app, network, "", "10.1.0.1:53", timeout)
			if err != nil {
				w.Fatal(err)
			}
			m, _, err = (&dns.Client{Timeout: timeout}).ExchangeWithConn(q, &dns.Conn{Conn: c})
			_ = c.Close()
			if err != nil || !m.Truncated {
				break
			}
		}
	}
	if m == nil {
		w.Fatalf("%s: no answer for %s", app, name)
	}
	for _, rr := range m.Answer {
		ttl = max(ttl, rr.Header().Ttl)
		if a, ok := rr.(*dns.A); ok {
			addr, _ := netip.AddrFromSlice(a.A.To4())
			addrs = append(addrs, addr)
		}
	}
	return addrs, ttl
}

// firstSYN reports whether the first SYN of an app to port 7 of an address is answered: it is repeated after 1 s.
func (w *world) firstSYN(app string, to netip.Addr) bool {
	c, err := w.dial(app, "tcp4", "", netip.AddrPortFrom(to, 7).String(), 900*time.Millisecond)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// hostWorld has a network whose DNS server asks names, and apps on it with rules.
func hostWorld(t *testing.T, more string, rules ...string) (w *world, nets []string) {
	t.Helper()
	w = newWorld(t, "web", "client")
	w.names()
	nets = []string{strings.Replace(network(1, ""), "{domain: n1.edge}", "{domain: n1.edge, servers: "+namesAddr+more+"}", 1)}
	w.start(doc(nets, onNet(1, 1, "web", rules[0]), onNet(2, 1, "client", rules[1])))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	w.lease("web")
	w.lease("client")
	return w, nets
}

func TestTheSetOfAHostHasAnAddressBeforeTheFirstSYN(t *testing.T) {
	t.Parallel()
	w, _ := hostWorld(t, "", acl("allow egress host: many.test"), acl("allow egress host: other.test"))
	const names = 1000
	reached := 0
	began := time.Now()
	for i := range names {
		addrs, ttl := w.resolve("web", fmt.Sprintf("n%d.many.test", i))
		if len(addrs) != 1 || ttl > 1800 {
			t.Fatalf("%v with a TTL of %d s", addrs, ttl)
		}
		if w.firstSYN("web", addrs[0]) {
			reached++
		}
	}
	t.Logf("%d of %d names reached by the first SYN, in %v", reached, names, time.Since(began).Round(time.Millisecond))
	if reached != names {
		t.Errorf("%d of %d", reached, names)
	}
}

func TestARuleMatchesAHostAndAllBelowIt(t *testing.T) {
	t.Parallel()
	const static = "100.80.0.9"
	long := strings.Repeat("a-long-label-of-a-name.", 9) + "host.test"
	w, nets := hostWorld(t, ", hosts: {printer.host.test: "+static+", nothost.test: 100.80.0.10}",
		acl("allow egress host: host.test", "allow egress host: deep.host.test, protocol: udp"),
		acl("drop egress host: host.test", "allow egress ip: "+namesPrefix))
	sees := func(app, name string, want bool) netip.Addr {
		t.Helper()
		addrs, _ := w.resolve(app, name)
		if len(addrs) == 0 {
			t.Fatalf("%s has no address for %s", app, name)
		}
		if !want {
			addrs = addrs[:min(len(addrs), 2)] // each takes a second
		}
		for _, a := range addrs {
			if w.firstSYN(app, a) != want {
				t.Errorf("%s reaches %s at %s: %v", app, name, a, !want)
			}
		}
		return addrs[0]
	}
	// The name, names below it, names with a set of their own below it, long ones, aliases of others, answers that are
	// too long for UDP, and static names.
	for _, name := range []string{"host.test", "a.host.test", "a.deep.host.test", "HOST.test", long, "alias.host.test",
		"big.host.test", "printer.host.test"} {
		sees("web", name, true)
		sees("client", name, false)
	}
	for _, name := range []string{"nothost.test", "the.test", "alias.nothost.test", "host.test.more.test"} {
		sees("web", name, false)
		sees("client", name, true)
	}
	// Another app's question for the target of an alias is no answer for the alias.
	w.resolve("web", "alias.host.test")
	w.resolve("client", "cdn.test")
	last := sees("web", "alias.host.test", true)

	// What was resolved stays reachable while rules, names and processes change.
	old, err := w.dial("web", "tcp4", "", netip.AddrPortFrom(last, 7).String(), timeout)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	still := func(after string) {
		t.Helper()
		if err := say(old, timeout); err != nil {
			t.Errorf("after %s a flow ended: %v", after, err)
		}
		if !w.firstSYN("web", last) {
			t.Errorf("after %s an address of the set is not reached", after)
		}
	}
	w.killDnsmasq()
	w.eventually("another dnsmasq", func() bool { return w.dnsmasq() != "" })
	still("the end of dnsmasq")
	web := onNet(1, 1, "web", acl("allow egress host: host.test"))
	w.obey(nets, web, onNet(2, 1, "client", acl("allow egress host: third.test")))
	still("another app's rule for another host")
	sees("client", "a.third.test", true)
	sees("client", "a.host.test", false)
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	pid := w.dnsmasq()
	w.restart()
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	still("a restart of the daemon")
	if now := w.dnsmasq(); now != pid {
		t.Errorf("a restart replaced dnsmasq %s by %s", pid, now)
	}
	sees("web", "b.host.test", true)

	w.obey(nets, onNet(1, 1, "web", ""), onNet(2, 1, "client", ""))
	if left := w.in("node", "ipset", "list", "-n"); left != "" || say(old, denial) == nil {
		t.Errorf("sets %q are left, or the flow goes on", left)
	}
}

// Rules of hosts and sets hold on both backends of iptables, and a change of them leaves nothing behind.
func TestRulesOfHostsAndSetsHoldOnBothBackends(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env []string) {
		t.Parallel()
		w := newWorld(t, "web", "client")
		w.names()
		const inSet, other = "198.51.100.81", "198.51.100.82"
		for _, a := range []string{inSet, other} {
			w.in("isp", "ip", "addr", "add", a+"/32", "dev", "lo")
		}
		nets := []string{strings.Replace(network(1, "    sets: {good: {"+inSet+": a server}}\n"), "{domain: n1.edge}",
			"{domain: n1.edge, servers: "+namesAddr+"}", 1)}
		w.start(doc(nets, onNet(1, 1, "web", acl("allow egress host: host.test", "allow egress set: good")),
			onNet(2, 1, "client", acl("drop egress host: host.test", "drop egress set: good", "allow egress"))), env...)
		w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
		w.lease("web")
		w.lease("client")
		sees := func(app string, to netip.Addr, want bool) {
			t.Helper()
			if w.firstSYN(app, to) != want {
				t.Errorf("%s reaches %s: %v", app, to, !want)
			}
		}
		for name, of := range map[string]bool{"a.host.test": true, "nothost.test": false} {
			for app, want := range map[string]bool{"web": of, "client": !of} {
				addrs, _ := w.resolve(app, name)
				sees(app, addrs[0], want)
			}
		}
		sees("web", netip.MustParseAddr(inSet), true)
		sees("web", netip.MustParseAddr(other), false)
		sees("client", netip.MustParseAddr(inSet), false)
		sees("client", netip.MustParseAddr(other), true)
		w.obey(nets, onNet(1, 1, "web", ""), onNet(2, 1, "client", ""))
		if left := w.in("node", "ipset", "list", "-n"); left != "" {
			t.Errorf("sets %q are left", left)
		}
		sees("web", netip.MustParseAddr(inSet), false)
	})
}
