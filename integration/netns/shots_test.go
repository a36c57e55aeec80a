package netns_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/probe"
	shots "edgespan/platform/probe"

	"github.com/miekg/dns"
)

// remoteTarget is an address that both providers of uplinks have.
const remoteTarget = "198.51.100.1"

// uplinks is a node with two uplinks that both work: wan0 to the neighbour 192.0.2.1 and wan1 to 203.0.113.1. The
// default route by wan1 is the better one, so whatever is not bound leaves by it.
type uplinks struct {
	t    *testing.T
	node *netns.NS
	isp  [2]*netns.NS
}

func newUplinks(t *testing.T) *uplinks {
	t.Helper()
	u := &uplinks{t: t, node: netns.New(t)}
	for i, net := range []string{"192.0.2", "203.0.113"} {
		wan := fmt.Sprintf("wan%d", i)
		u.isp[i] = netns.New(t)
		u.node.Exec(t, "ip", "link", "add", wan, "type", "veth", "peer", "name", "eth0", "netns", u.isp[i].Name)
		u.node.Exec(t, "ip", "addr", "add", net+".2/24", "dev", wan)
		u.node.Exec(t, "ip", "link", "set", wan, "up")
		u.node.Exec(t, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf."+wan+".rp_filter=0")
		u.isp[i].Exec(t, "ip", "addr", "add", net+".1/24", "dev", "eth0")
		u.isp[i].Exec(t, "ip", "addr", "add", remoteTarget+"/32", "dev", "lo")
		u.isp[i].Exec(t, "ip", "link", "set", "eth0", "up")
		u.node.Exec(t, "ip", "route", "add", "default", "via", net+".1", "dev", wan, "metric", fmt.Sprint(200-100*i))
	}
	until(t, "the uplinks have carrier", func() bool {
		return !strings.Contains(u.node.Exec(t, "ip", "link", "show"), "LOWERLAYERDOWN")
	})
	return u
}

// kill makes the far side of an uplink silent; the link stays up.
func (u *uplinks) kill(i int) { u.isp[i].Exec(u.t, "ip", "addr", "flush", "dev", "eth0") }

// names serves DNS at remoteTarget in a provider's namespace.
func (u *uplinks) names(i int, answer dns.HandlerFunc) {
	u.t.Helper()
	var conn net.PacketConn
	u.isp[i].Do(u.t, func() (err error) {
		conn, err = net.ListenPacket("udp4", remoteTarget+":53")
		return err
	})
	server := &dns.Server{PacketConn: conn, Handler: answer}
	go func() { _ = server.ActivateAndServe() }()
	u.t.Cleanup(func() { _ = conn.Close() })
}

// listen opens a port of remoteTarget in a provider's namespace.
func (u *uplinks) listen(i, port int) net.Listener {
	u.t.Helper()
	var l net.Listener
	u.isp[i].Do(u.t, func() (err error) {
		l, err = net.Listen("tcp4", fmt.Sprintf("%s:%d", remoteTarget, port))
		return err
	})
	u.t.Cleanup(func() { _ = l.Close() })
	return l
}

// answerA answers each question for an address with a.
func answerA(a string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			r.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET,
				Ttl: 1}, A: net.ParseIP(a)}}
		}
		_ = w.WriteMsg(r)
	}
}

// shotTime bounds one shot, as a probe's timeout does. It is long enough for a busy machine.
const shotTime = time.Second

// shoot shoots by wan0 and checks that nothing is left of the shot.
func (u *uplinks) shoot(method probe.Method, target string) (time.Duration, error) {
	u.t.Helper()
	return u.shootFor(shotTime, probe.ID{IfName: "wan0", Method: method, Target: target, Servers: remoteTarget})
}

func (u *uplinks) shootFor(limit time.Duration, id probe.ID) (time.Duration, error) {
	u.t.Helper()
	goroutines, sockets := runtime.NumGoroutine(), openSockets(u.t)
	took, err := u.shootAt(limit, id)
	// A server of this process closes its end of a connection a moment after the shot.
	until(u.t, string(id.Method)+" "+id.Target+" leaves no socket", func() bool { return openSockets(u.t) <= sockets })
	until(u.t, "the goroutines of the shot are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
	return took, err
}

// shootAt checks that the deadline is kept.
func (u *uplinks) shootAt(limit time.Duration, id probe.ID) (time.Duration, error) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), limit)
	defer cancel()
	began := time.Now()
	took, _, err := shots.Shoot(ctx, u.node.Path, id)
	if lasted := time.Since(began); lasted > limit+limit/2 {
		u.t.Errorf("%s %s lasted %v of %v", id.Method, id.Target, lasted, limit)
	}
	if err == nil && (took <= 0 || took > limit) {
		u.t.Errorf("%s %s took %v", id.Method, id.Target, took)
	}
	return took, err
}

// openSockets counts the sockets of this process: those of the tests' servers, and what a shot left.
func openSockets(t *testing.T) (n int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// fails checks the words of an error.
func (u *uplinks) fails(method probe.Method, target, words string) {
	u.t.Helper()
	if _, err := u.shoot(method, target); err == nil || err.Error() != words {
		u.t.Errorf("%s %s: %v, want %q", method, target, err, words)
	}
}

func (u *uplinks) succeeds(method probe.Method, target string) {
	u.t.Helper()
	if _, err := u.shoot(method, target); err != nil {
		u.t.Errorf("%s %s: %v", method, target, err)
	}
}

// Each target works by wan0 while the provider behind it lives. When that is silent, no shot succeeds although wan1
// leads to the same address by the better route.
func TestAShotLeavesByItsInterfaceAlone(t *testing.T) {
	u := newUplinks(t)
	for i := range u.isp {
		u.names(i, answerA(remoteTarget))
		u.listen(i, 443)
	}
	for _, x := range []struct {
		method        probe.Method
		target, words string
	}{
		{probe.ARP, "192.0.2.1", "no ARP reply from 192.0.2.1"},
		{probe.ICMP, remoteTarget, "no echo reply from 198.51.100.1"},
		{probe.ICMP, "www.example.org", "resolve www.example.org: no answer from DNS server 198.51.100.1"},
		{probe.TCP, remoteTarget + ":443", "no connection to 198.51.100.1:443"},
		{probe.TCP, "www.example.org:443", "resolve www.example.org: no answer from DNS server 198.51.100.1"},
		{probe.DNS, remoteTarget, "no answer from DNS server 198.51.100.1"},
	} {
		u.isp[0].Exec(t, "ip", "addr", "replace", "192.0.2.1/24", "dev", "eth0")
		u.succeeds(x.method, x.target)
		u.kill(0)
		u.fails(x.method, x.target, x.words)
	}
	if out := u.node.Exec(t, "ip", "neigh", "show", "dev", "wan1"); strings.Contains(out, "203.0.113.1") {
		t.Errorf("a shot left by wan1, whose neighbours are %s", out)
	}
}

func TestAnARPReplyIsTheTargetsOwnAndForTheShot(t *testing.T) {
	u := newUplinks(t)
	u.fails(probe.ARP, "192.0.2.77", "no ARP reply from 192.0.2.77")
	u.fails(probe.ARP, "192.0.2.2", "192.0.2.2 is this node's own address: no such probe")
	u.fails(probe.ARP, "gateway", `invalid target "gateway": must be an IPv4 address`)
	// A second address of the interface asks in its own subnet.
	u.node.Exec(t, "ip", "addr", "add", "10.9.0.2/24", "dev", "wan0")
	u.isp[0].Exec(t, "ip", "addr", "add", "10.9.0.1/24", "dev", "eth0")
	u.isp[0].Exec(t, "sysctl", "-qw", "net.ipv4.conf.all.arp_filter=1")
	u.succeeds(probe.ARP, "10.9.0.1")
	if out := u.isp[0].Exec(t, "ip", "neigh", "show"); !strings.Contains(out, "10.9.0.2 ") {
		t.Errorf("asked from another address: the target knows %s", out)
	}
}

func TestAnInterfaceWithoutARPSaysSo(t *testing.T) {
	u := newUplinks(t)
	u.node.Exec(t, "ip", "tuntap", "add", "tun0", "mode", "tun")
	u.node.Exec(t, "ip", "addr", "add", "10.8.0.2/24", "dev", "tun0")
	u.node.Exec(t, "ip", "link", "set", "tun0", "up")
	u.node.Exec(t, "ip", "link", "add", "quiet0", "type", "veth", "peer", "quiet1")
	u.node.Exec(t, "ip", "link", "set", "quiet0", "arp", "off")
	u.node.Exec(t, "ip", "addr", "add", "10.7.0.2/24", "dev", "quiet0")
	u.node.Exec(t, "ip", "link", "set", "quiet0", "up")
	for name, target := range map[string]string{"tun0": "10.8.0.1", "quiet0": "10.7.0.1"} {
		_, err := u.shootFor(shotTime, probe.ID{IfName: name, Method: probe.ARP, Target: target})
		if !errors.Is(err, shots.ErrNoARP) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnInterfaceThatCannotBeUsedIsNamed(t *testing.T) {
	u := newUplinks(t)
	u.node.Exec(t, "ip", "link", "set", "wan0", "down")
	for ifName, words := range map[string]string{"wan0": "wan0 is down", "wan7": "no interface wan7"} {
		for _, x := range []probe.ID{
			{IfName: ifName, Method: probe.ARP, Target: "192.0.2.1"},
			{IfName: ifName, Method: probe.ICMP, Target: remoteTarget},
			{IfName: ifName, Method: probe.TCP, Target: remoteTarget + ":443"},
			{IfName: ifName, Method: probe.DNS, Target: remoteTarget},
		} {
			if _, err := u.shootFor(shotTime, x); err == nil || err.Error() != words {
				t.Errorf("%s by %s: %v, want %q", x.Method, ifName, err, words)
			}
		}
	}
}

func TestAShotFailsInTheSameWordsForTheSameFault(t *testing.T) {
	u := newUplinks(t)
	u.names(0, func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
		if q.Question[0].Name == "absent.example.org." {
			r.Rcode = dns.RcodeNameError
		}
		if q.Question[0].Name == "six.example.org." {
			r.Rcode = dns.RcodeSuccess
		}
		_ = w.WriteMsg(r)
	})
	for _, x := range []struct {
		method        probe.Method
		target, words string
	}{
		{probe.TCP, remoteTarget + ":9", "198.51.100.1:9 refused the connection"},
		{probe.TCP, remoteTarget, `invalid target "198.51.100.1": must be host:port`},
		{probe.TCP, remoteTarget + ":http", `invalid port "http": must be 1 to 65535`},
		{probe.DNS, remoteTarget, "DNS server 198.51.100.1 answers SERVFAIL"},
		{probe.DNS, "192.0.2.1", "no DNS server at 192.0.2.1"},
		{probe.DNS, "127.0.0.53", "127.0.0.53 is not the address of another host: no such probe"},
		{probe.DNS, "192.0.2.2", "192.0.2.2 is this node's own address: no such probe"},
		{probe.ICMP, "0.0.0.0", "0.0.0.0 is not the address of another host: no such probe"},
		{probe.ICMP, "192.0.2.2", "192.0.2.2 is this node's own address: no such probe"},
		{probe.ICMP, "absent.example.org",
			"resolve absent.example.org: DNS server 198.51.100.1 answers NXDOMAIN"},
		{probe.ICMP, "six.example.org", "resolve six.example.org: no IPv4 address"},
		{"carrier pigeon", remoteTarget, `invalid method "carrier pigeon"`},
	} {
		for range 2 {
			u.fails(x.method, x.target, x.words)
		}
	}
	_, err := u.shootFor(shotTime, probe.ID{IfName: "wan0", Method: probe.ICMP, Target: "example.org"})
	if err == nil || err.Error() != "no DNS server for example.org" {
		t.Errorf("without a server: %v", err)
	}
}

// By a port whose gateway only the config knows, the host has no route to a remote target. The kernel would then ask
// for the target's address on the link: that it is not there says nothing about the port.
func TestATargetWithoutARouteByTheInterfaceIsNoProbe(t *testing.T) {
	u := newUplinks(t)
	u.names(0, answerA(remoteTarget))
	u.listen(0, 443)
	u.node.Exec(t, "ip", "route", "del", "default", "dev", "wan0")
	check := func(words string) {
		t.Helper()
		for _, x := range []probe.ID{
			{Method: probe.ICMP, Target: remoteTarget},
			{Method: probe.ICMP, Target: "www.example.org", Servers: remoteTarget},
			{Method: probe.TCP, Target: remoteTarget + ":443"},
			{Method: probe.HTTP, Target: "http://" + remoteTarget},
			{Method: probe.DNS, Target: remoteTarget},
		} {
			x.IfName = "wan0"
			_, err := u.shootFor(shotTime, x)
			if !errors.Is(err, probe.ErrNone) || !strings.Contains(err.Error(), words) {
				t.Errorf("%s %s: %v, want %s", x.Method, x.Target, err, words)
			}
		}
	}
	check("no route to 198.51.100.1 by wan0")
	u.succeeds(probe.ARP, "192.0.2.1") // a neighbour needs none
	u.succeeds(probe.ICMP, "192.0.2.1")
	u.node.Exec(t, "ip", "route", "add", "unreachable", "198.51.100.0/24")
	check("no route to 198.51.100.1 by wan0")
	u.node.Exec(t, "ip", "route", "del", "unreachable", "198.51.100.0/24")
	u.node.Exec(t, "ip", "route", "add", remoteTarget, "via", "192.0.2.1")
	u.succeeds(probe.ICMP, remoteTarget)
	u.succeeds(probe.TCP, remoteTarget+":443")
	u.succeeds(probe.DNS, remoteTarget)
}

// A strict rp_filter drops the answers of a remote target by every uplink but the best one. The node's networks have
// rules of their own, so that these work by it.
func TestAnswersThatTheKernelDropsAreNoProbe(t *testing.T) {
	u := newUplinks(t)
	u.names(0, answerA(remoteTarget))
	u.listen(0, 443)
	remote := []probe.ID{{Method: probe.ICMP, Target: remoteTarget}, {Method: probe.TCP, Target: remoteTarget + ":443"},
		{Method: probe.DNS, Target: remoteTarget}}
	strict := func(ifName, value string) {
		u.node.Exec(t, "sysctl", "-qw", "net.ipv4.conf."+ifName+".rp_filter="+value)
	}
	works := func(want bool) {
		t.Helper()
		for _, x := range remote {
			_, err := u.shoot(x.Method, x.Target)
			if want && err != nil || !want && !errors.Is(err, probe.ErrNone) {
				t.Errorf("%s: %v, want an answer: %v", x.Method, err, want)
			}
		}
		u.succeeds(probe.ARP, "192.0.2.1")
		u.succeeds(probe.ICMP, "192.0.2.1")
	}
	strict("wan0", "1")
	works(false)
	strict("wan0", "2") // loose
	works(true)
	strict("wan0", "0")
	strict("all", "1")
	works(false)
	u.node.Exec(t, "ip", "rule", "add", "from", "192.0.2.2", "lookup", "777", "pref", "777")
	works(false)
	u.node.Exec(t, "ip", "route", "add", "default", "via", "192.0.2.1", "dev", "wan0", "table", "777")
	works(true)
	u.node.Exec(t, "ip", "rule", "del", "pref", "777")
	works(false)
	u.node.Exec(t, "ip", "route", "flush", "default") // two equal ones by both uplinks
	u.node.Exec(t, "ip", "route", "add", "default", "nexthop", "via", "203.0.113.1", "nexthop", "via", "192.0.2.1")
	works(true)
}

// A second address of the subnet is asked from the first: the kernel's choice of the source does not show that it is
// the node itself that answers.
func TestTheNodesOwnAddressIsNoTarget(t *testing.T) {
	u := newUplinks(t)
	u.node.Exec(t, "ip", "addr", "add", "192.0.2.3/24", "dev", "wan0")
	for _, a := range []string{"192.0.2.2", "192.0.2.3"} {
		u.fails(probe.ICMP, a, a+" is this node's own address: no such probe")
		u.fails(probe.TCP, a+":443", a+" is this node's own address: no such probe")
		u.fails(probe.DNS, a, a+" is this node's own address: no such probe")
	}
	u.fails(probe.ICMP, "203.0.113.2", "no echo reply from 203.0.113.2") // that of wan1 is asked for by wan0
}

// A resolver that blocks a name answers with an address that this machine would answer for.
func TestANameOfThisMachineIsAFailure(t *testing.T) {
	for _, a := range []string{"0.0.0.0", "127.0.0.1", "192.0.2.2", "203.0.113.2"} {
		u := newUplinks(t)
		u.names(0, answerA(a))
		for method, target := range map[probe.Method]string{probe.ICMP: "www.example.org", probe.TCP: "www.example.org:443",
			probe.HTTP: "http://www.example.org"} {
			if _, err := u.shoot(method, target); err == nil || errors.Is(err, probe.ErrNone) {
				t.Errorf("%s %s, which is %s: %v", method, target, a, err)
			}
		}
	}
}

// The host shoots in its own namespace.
func TestTheHostShoots(t *testing.T) {
	l := newLab(t)
	far := netns.New(t)
	l.ns.Exec(t, "ip", "link", "set", "far0", "netns", far.Name)
	far.Exec(t, "ip", "addr", "add", "192.0.2.1/24", "dev", "far0")
	far.Exec(t, "ip", "link", "set", "far0", "up")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	took, _, err := l.host.Probe(ctx, probe.ID{IfName: "eth0", Method: probe.ICMP, Target: "192.0.2.1"})
	if err != nil || took <= 0 {
		t.Errorf("%v, %v", took, err)
	}
}

func TestACancelledShotEndsAtOnce(t *testing.T) {
	u := newUplinks(t)
	u.kill(0)
	for _, id := range []probe.ID{
		{IfName: "wan0", Method: probe.ARP, Target: "192.0.2.1"},
		{IfName: "wan0", Method: probe.ICMP, Target: remoteTarget},
		{IfName: "wan0", Method: probe.ICMP, Target: "example.org", Servers: remoteTarget},
		{IfName: "wan0", Method: probe.TCP, Target: remoteTarget + ":443"},
		{IfName: "wan0", Method: probe.DNS, Target: remoteTarget},
	} {
		goroutines, sockets := runtime.NumGoroutine(), openSockets(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, _, err := shots.Shoot(ctx, u.node.Path, id)
			ended <- err
		}()
		until(t, "the shot has opened its socket", func() bool { return openSockets(t) > sockets })
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s %s: %v", id.Method, id.Target, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s %s lasts", id.Method, id.Target)
		}
		until(t, string(id.Method)+" "+id.Target+" leaves no socket", func() bool { return openSockets(t) <= sockets })
		until(t, "the goroutines of the shot are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
	}
}
