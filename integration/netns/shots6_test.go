package netns_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/probe"
	shots "edgespan/platform/probe"

	"github.com/miekg/dns"
)

// What both providers of uplinks6 have, and the next hop by wan0.
const (
	remoteTarget6 = "2001:db8:1::1"
	nextHop6      = "fe80::1"
)

// newUplinks6 is newUplinks with IPv6 alone: both providers are fe80::1 on their links.
func newUplinks6(t *testing.T) *uplinks {
	t.Helper()
	u := newUplinks(t)
	for i, net := range []string{"2001:db8:99", "2001:db8:98"} {
		wan := []string{"wan0", "wan1"}[i]
		u.node.Exec(t, "ip", "addr", "add", net+"::2/64", "dev", wan, "nodad")
		u.isp[i].Exec(t, "ip", "addr", "add", net+"::1/64", "dev", "eth0", "nodad")
		u.isp[i].Exec(t, "ip", "addr", "add", nextHop6+"/64", "dev", "eth0", "nodad")
		u.isp[i].Exec(t, "ip", "addr", "add", remoteTarget6+"/128", "dev", "lo", "nodad")
		u.node.Exec(t, "ip", "-6", "route", "add", "default", "via", nextHop6, "dev", wan, "metric", []string{"200", "100"}[i])
	}
	for _, ns := range []*netns.NS{u.node, u.isp[0], u.isp[1]} {
		until(t, "no address is tentative", func() bool {
			return !strings.Contains(ns.Exec(t, "ip", "-6", "addr", "show", "tentative"), "inet6")
		})
	}
	return u
}

// fails6 shoots at an IPv6 address, or at the one of a name, and expects words.
func (u *uplinks) fails6(method probe.Method, target, words string) {
	u.t.Helper()
	_, err := u.shootFor(shotTime, probe.ID{IfName: "wan0", Method: method, Target: target, Servers: remoteTarget6, IPv6: true})
	if err == nil && words != "" || err != nil && (words == "" || err.Error() != words) {
		u.t.Errorf("%s %s: %v, want %q", method, target, err, words)
	}
}

// Each method works over IPv6, by the interface alone, and names its failures.
func TestShotsOverIPv6(t *testing.T) {
	u := newUplinks6(t)
	for _, i := range []int{0, 1} {
		var conn net.PacketConn
		var web net.Listener
		u.isp[i].Do(t, func() (err error) {
			if conn, err = net.ListenPacket("udp6", "["+remoteTarget6+"]:53"); err != nil {
				return err
			}
			web, err = net.Listen("tcp6", "["+remoteTarget6+"]:80")
			return err
		})
		server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			r, name := new(dns.Msg).SetReply(q), q.Question[0].Name
			if q.Question[0].Qtype == dns.TypeAAAA && name == "six.example." {
				r.Answer = []dns.RR{&dns.AAAA{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeAAAA, Class: dns.ClassINET, Ttl: 1},
					AAAA: net.ParseIP(remoteTarget6)}}
			} else if q.Question[0].Qtype == dns.TypeA {
				r.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1},
					A: net.ParseIP(remoteTarget)}}
			}
			_ = w.WriteMsg(r)
		})}
		go func() { _ = server.ActivateAndServe() }()
		go func() { _ = http.Serve(web, http.NotFoundHandler()) }()
		t.Cleanup(func() { _, _ = conn.Close(), web.Close() })
	}
	for _, c := range []struct {
		method        probe.Method
		target, words string
	}{
		{probe.ND, nextHop6, ""}, {probe.ND, "2001:db8:99::1", ""}, {probe.ICMP, remoteTarget6, ""},
		{probe.ICMP, "six.example", ""}, {probe.TCP, "[" + remoteTarget6 + "]:80", ""}, {probe.TCP, "six.example:80", ""},
		{probe.DNS, remoteTarget6, ""},
		{probe.HTTP, "http://[" + remoteTarget6 + "]/", "[" + remoteTarget6 + "] answers 404 Not Found"},
		{probe.ICMP, "four.example", "resolve four.example: no IPv6 address"},
		{probe.TCP, "[" + remoteTarget6 + "]:81", "[" + remoteTarget6 + "]:81 refused the connection"},
	} {
		u.fails6(c.method, c.target, c.words)
	}
	u.node.Exec(t, "ip6tables", "-A", "OUTPUT", "-p", "tcp", "-d", remoteTarget6, "-j", "DROP")
	u.fails6(probe.TCP, "["+remoteTarget6+"]:80",
		"connect to ["+remoteTarget6+"]:80: operation not permitted: not asked")
	u.node.Exec(t, "ip6tables", "-F", "OUTPUT")
	u.isp[0].Exec(t, "ip6tables", "-A", "INPUT", "-j", "DROP") // the better default route is by wan1, where all is well
	u.fails6(probe.ND, nextHop6, "no neighbour advertisement from "+nextHop6)
	u.fails6(probe.ICMP, remoteTarget6, "no echo reply from "+remoteTarget6)
	u.node.Exec(t, "ip", "tuntap", "add", "mode", "tun", "name", "tun7")
	u.node.Exec(t, "ip", "link", "set", "tun7", "up")
	_, err := u.shootAt(shotTime, probe.ID{IfName: "tun7", Method: probe.ND, Target: nextHop6})
	if err == nil || err.Error() != "tun7: no neighbour discovery on the interface: no such probe" {
		t.Errorf("a tunnel: %v", err)
	}
}

// Only the next hop's own answer counts, and others are not even read: a neighbour that floods the link with
// advertisements wakes no shot and uses up no budget of a metered port.
func TestForgedAdvertisementsAreNotRead(t *testing.T) {
	u := newUplinks6(t)
	u.fails6(probe.ND, nextHop6, "")
	u.isp[0].Exec(t, "ip6tables", "-A", "OUTPUT", "-p", "icmpv6", "--icmpv6-type", "136", "-m", "mark", "!", "--mark", "7",
		"-j", "DROP")
	// An answer of another host, one without a question, and one that a router has forwarded.
	for name, forged := range map[string]struct {
		target string
		flags  byte
		hops   int
	}{
		"of another":  {"fe80::9", 0x60, 255},
		"not asked":   {nextHop6, 0x20, 255},
		"from afar":   {nextHop6, 0x60, 254},
		"its own one": {nextHop6, 0x60, 255},
	} {
		message := append([]byte{136, 0, 0, 0, forged.flags, 0, 0, 0}, net.ParseIP(forged.target)...)
		stop, sent := u.floodICMP6(message, forged.hops)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, bytes, err := shots.Shoot(ctx, u.node.Path, probe.ID{IfName: "wan0", Method: probe.ND, Target: nextHop6})
		cancel()
		stop()
		if honest := name == "its own one"; (err == nil) != honest || bytes > 200 || !honest && sent() < 50 {
			t.Errorf("%s, %d times: %d bytes, %v", name, sent(), bytes, err)
		}
	}
}
