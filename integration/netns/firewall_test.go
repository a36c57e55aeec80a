package netns_test

import (
	"context"
	"fmt"
	"math/rand"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// fwEnd is one end of a flow: its namespace and its address.
type fwEnd struct {
	ns   string
	addr netip.Addr
}

var (
	fwA     = fwEnd{"a", netip.MustParseAddr("10.1.0.128")}
	fwB     = fwEnd{"b", netip.MustParseAddr("10.1.0.129")}
	fwC     = fwEnd{"c", netip.MustParseAddr("10.2.0.128")}
	fwNode  = fwEnd{"node", netip.MustParseAddr("192.0.2.10")}
	fwGate  = fwEnd{"node", netip.MustParseAddr("10.1.0.1")}
	fwGate2 = fwEnd{"node", netip.MustParseAddr("10.2.0.1")}
	fwWorld = fwEnd{"world", netip.MustParseAddr("198.51.100.9")}
	fwNext  = fwEnd{"world", netip.MustParseAddr("192.0.2.77")}
)

// fwPaths are the ways that a packet can take.
var fwPaths = [][2]fwEnd{
	{fwA, fwWorld},
	{fwA, fwNext},
	{fwWorld, fwA},
	{fwNext, fwA},
	{fwA, fwB},
	{fwB, fwA},
	{fwA, fwC},
	{fwC, fwA},
	{fwA, fwGate},
	{fwA, fwNode},
	{fwA, fwGate2},
	{fwNode, fwA},
	{fwGate, fwA},
}

var fwPorts = []uint16{53, 80, 443}

const fwLocalPort = 4000 // local port of each flow

type fwRules struct {
	a, b  []netinst.ACLRule
	flows int // limit of flows of a, 0 for the default
}

// fwAllows states the design's rule about ACLs again, independently of the code: the first match wins, in the given
// order; destinations on the node must be named; both ends must allow; networks don't meet.
func fwAllows(rules fwRules, src, dst fwEnd, proto string, port uint16) bool {
	acls := map[string][]netinst.ACLRule{"a": rules.a, "b": rules.b, "c": fwAllowAll}
	says := func(app string, dir netinst.Direction, remote fwEnd, remotePort, localPort uint16) bool {
		for _, r := range acls[app] {
			if r.Direction != dir && r.Direction != netinst.Both {
				continue
			}
			if r.IP.IsValid() && !r.IP.Contains(remote.addr) || r.Protocol != "" && r.Protocol != proto {
				continue
			}
			if r.PortLabel != "" && (remote.ns != "world" || !fwWanLabels[r.PortLabel]) {
				continue
			}
			if !fwHas(r.Ports, remotePort) || !fwHas(r.LocalPort, localPort) {
				continue
			}
			if r.Action == netinst.Allow && remote.ns == "node" && (!r.IP.IsValid() || r.IP.Bits() == 0) {
				continue
			}
			return r.Action == netinst.Allow
		}
		return false
	}
	isApp := func(e fwEnd) bool { return e.addr.Is4() && e.addr.As4()[0] == 10 && e.ns != "node" }
	if isApp(src) && isApp(dst) && src.addr.As4()[1] != dst.addr.As4()[1] {
		return false
	}
	if isApp(src) && dst == fwGate && port == 53 {
		return true
	}
	if isApp(src) && !says(src.ns, netinst.Egress, dst, port, fwLocalPort) {
		return false
	}
	return !isApp(dst) || says(dst.ns, netinst.Ingress, src, fwLocalPort, port)
}

// fwWanLabels are the labels of the port that leads to the world; the lab's other port leads nowhere.
var fwWanLabels = map[string]bool{"wan": true, "shared": true, "uplink": true}

func fwHas(ranges []netinst.PortRange, port uint16) bool {
	for _, r := range ranges {
		if port >= r.First && port <= r.Last {
			return true
		}
	}
	return len(ranges) == 0
}

var fwAllowAll = []netinst.ACLRule{{Direction: netinst.Both, Action: netinst.Allow}}

// fwRuleSets returns a few deliberate sets and many random ones with a fixed seed.
func fwRuleSets() []fwRules {
	named := netinst.ACLRule{Direction: netinst.Both, Action: netinst.Allow, IP: netip.MustParsePrefix("192.0.2.0/24")}
	gate2 := netinst.ACLRule{Direction: netinst.Egress, Action: netinst.Allow, IP: netip.MustParsePrefix("10.2.0.0/24")}
	sets := []fwRules{{}, {a: fwAllowAll, b: fwAllowAll}, {a: fwAllowAll}, {b: fwAllowAll}, {a: []netinst.ACLRule{named}},
		{a: []netinst.ACLRule{gate2}}}
	for _, label := range []string{"wan", "shared", "lab", "nowhere"} {
		allow := netinst.ACLRule{Direction: netinst.Both, Action: netinst.Allow, PortLabel: label}
		drop := netinst.ACLRule{Direction: netinst.Both, Action: netinst.Drop, PortLabel: label}
		sets = append(sets, fwRules{a: []netinst.ACLRule{allow}, b: fwAllowAll},
			fwRules{a: append([]netinst.ACLRule{drop}, fwAllowAll...), b: fwAllowAll})
	}
	// All of them name the address: the chains toward the node are those toward the world.
	named.IP = netip.MustParsePrefix("0.0.0.0/1")
	for _, label := range []string{"", "wan", "shared", "lab", "nowhere"} {
		net := netinst.ACLRule{Direction: netinst.Both, Action: netinst.Allow, IP: netip.MustParsePrefix("192.0.2.0/24"),
			PortLabel: label}
		drop := net
		drop.Action = netinst.Drop
		sets = append(sets, fwRules{a: []netinst.ACLRule{net}, b: []netinst.ACLRule{gate2}},
			fwRules{a: []netinst.ACLRule{drop, net, named}},
			fwRules{a: []netinst.ACLRule{drop, {Direction: netinst.Both, Action: netinst.Allow, IP: net.IP}}})
	}
	rnd := rand.New(rand.NewSource(1))
	pick := func(n int) int { return rnd.Intn(n) }
	ips := []string{"", "", "0.0.0.0/0", "192.0.2.0/24", "192.0.2.10/32", "198.51.100.9/32", "10.1.0.129/32",
		"10.1.0.1/32", "10.0.0.0/8"}
	ports := [][]netinst.PortRange{nil, nil, {{First: 80, Last: 80}}, {{First: 50, Last: 100}},
		{{First: 53, Last: 53}, {First: 400, Last: 500}}, {{First: fwLocalPort, Last: fwLocalPort}}}
	list := func() (acl []netinst.ACLRule) {
		for range 1 + pick(5) {
			r := netinst.ACLRule{
				Direction: []netinst.Direction{netinst.Egress, netinst.Ingress, netinst.Both}[pick(3)],
				Action:    []netinst.Action{netinst.Allow, netinst.Allow, netinst.Drop}[pick(3)],
				Protocol:  []string{"", "udp", "tcp"}[pick(3)],
				PortLabel: []string{"", "", "", "wan", "shared", "lab", "nowhere"}[pick(7)],
			}
			if s := ips[pick(len(ips))]; s != "" {
				r.IP = netip.MustParsePrefix(s)
			}
			if r.Protocol != "" {
				r.Ports, r.LocalPort = ports[pick(len(ports))], ports[pick(len(ports))]
			}
			acl = append(acl, r)
		}
		return acl
	}
	for range 34 {
		sets = append(sets, fwRules{a: list(), b: list()})
	}
	return sets
}

// fwTwoNetworks builds the lab's two networks and returns the function that replaces the rules of the first one's
// apps.
func fwTwoNetworks(t *testing.T, guard bool) (*fwLab, func(fwRules) netinst.Input) {
	l := newFwLab(t)
	one := func(r fwRules) netinst.Input {
		in := l.fwInput(1, guard, l.fwAdapter("a", 1, "10.1.0.128", r.a...), l.fwAdapter("b", 2, "10.1.0.129", r.b...))
		in.Adapters[0].Config.Spec.MaxFlows = r.flows
		return in
	}
	two := l.fwInput(2, guard, l.fwAdapter("c", 1, "10.2.0.128", fwAllowAll...))
	l.apply(netstate.State{}, netinst.HostState([]netinst.HostNetwork{
		{Number: 1, Subnet: netip.MustParsePrefix("10.1.0.0/24"), Ports: eth0()},
		{Number: 2, Subnet: netip.MustParsePrefix("10.2.0.0/24")},
	}))
	have := fwWithoutServices(netinst.DesiredState(one(fwRules{})).State)
	l.apply(netstate.State{}, have)
	l.apply(netstate.State{}, fwWithoutServices(netinst.DesiredState(two).State))
	l.plug("a", "10.1.0.128", "10.1.0.1")
	l.plug("b", "10.1.0.129", "10.1.0.1")
	l.plug("c", "10.2.0.128", "10.2.0.1")
	return l, func(r fwRules) netinst.Input {
		in := one(r)
		want := fwWithoutServices(netinst.DesiredState(in).State)
		l.apply(have, want)
		have = want
		l.in("node", "conntrack", "-F")
		return in
	}
}

// fwInbox records what arrived: "udp a>b:80".
type fwInbox struct {
	mu  sync.Mutex
	got map[string]bool
}

func (b *fwInbox) put(s string) { b.mu.Lock(); b.got[s] = true; b.mu.Unlock() }
func (b *fwInbox) has(s string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got[s]
}

// listen records each UDP payload that arrives in a namespace, and answers none.
func (b *fwInbox) listen(l *fwLab, ns string) {
	l.do(ns, func() error {
		for _, port := range fwPorts {
			u, err := net.ListenUDP("udp4", &net.UDPAddr{Port: int(port)})
			if err != nil {
				return err
			}
			l.t.Cleanup(func() { _ = u.Close() })
			go func() {
				buf := make([]byte, 200)
				for {
					n, _, err := u.ReadFrom(buf)
					if err != nil {
						return
					}
					b.put(string(buf[:n]))
				}
			}()
			k, err := net.Listen("tcp4", fmt.Sprintf(":%d", port))
			if err != nil {
				return err
			}
			l.t.Cleanup(func() { _ = k.Close() })
			go func() {
				for {
					c, err := k.Accept()
					if err != nil {
						return
					}
					_ = c.Close()
				}
			}()
		}
		return nil
	})
}

// fwReuse lets one port open many flows.
func fwReuse(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR,
			1)
	}); e != nil {
		return e
	}
	return err
}

func (l *fwLab) send(src, dst fwEnd, port uint16, payload string) {
	l.sendFrom(src, dst, fwLocalPort, port, payload)
}

func (l *fwLab) sendFrom(src, dst fwEnd, local, port uint16, payload string) {
	l.do(src.ns, func() error {
		lc := net.ListenConfig{Control: fwReuse}
		c, err := lc.ListenPacket(context.Background(), "udp4", netip.AddrPortFrom(src.addr, local).String())
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.WriteTo([]byte(payload), net.UDPAddrFromAddrPort(netip.AddrPortFrom(dst.addr, port)))
		if err != nil && strings.Contains(err.Error(), "operation not permitted") {
			return nil // the node's own OUTPUT chain refuses it
		}
		return err
	})
}

// fwSettle is how long the test waits for a denied packet.
const fwSettle = 60 * time.Millisecond

func TestFirewallVerdictsOfRealPackets(t *testing.T) {
	t.Parallel()
	l, set := fwTwoNetworks(t, true)
	inbox := &fwInbox{got: map[string]bool{}}
	for _, ns := range []string{"a", "b", "c", "node", "world"} {
		inbox.listen(l, ns)
	}
	count := map[bool]int{}
	for i, rules := range fwRuleSets() {
		denies := netinst.DeniesFlow(set(rules))
		want := map[string]bool{}
		for _, p := range fwPaths {
			for _, port := range fwPorts {
				name := fmt.Sprintf("set %d: %s %s > %s %s:%d", i, p[0].ns, p[0].addr, p[1].ns, p[1].addr, port)
				want[name] = fwAllows(rules, p[0], p[1], "udp", port)
				l.send(p[0], p[1], port, name)
				f := netstate.Flow{Proto: 17, Src: netip.AddrPortFrom(p[0].addr, fwLocalPort),
					Dst: netip.AddrPortFrom(p[1].addr, port)}
				// Judge doesn't know the other network: its apps and its gateway are remote ends.
				if p[1] != fwC && p[0] != fwC && p[1] != fwGate2 && denies(f) == want[name] {
					t.Errorf("%s: DeniesFlow says %v; rules %+v", name, denies(f), rules)
				}
			}
		}
		for name, passes := range want {
			count[passes]++
			if passes {
				l.until("packet of "+name+fmt.Sprintf(" %+v", rules), func() bool { return inbox.has(name) })
			}
		}
		time.Sleep(fwSettle) // the absence of a packet has no event
		for name, passes := range want {
			if inbox.has(name) != passes {
				t.Errorf("%s: arrived, with rules %+v", name, rules)
			}
		}
	}
	if count[true] < 100 || count[false] < 100 {
		t.Errorf("%d flows that pass and %d that don't prove little", count[true], count[false])
	}
}

// The replies of an allowed TCP connection pass, whichever side opened it.
func TestFirewallIsStateful(t *testing.T) {
	t.Parallel()
	l, set := fwTwoNetworks(t, true)
	inbox := &fwInbox{got: map[string]bool{}}
	for _, ns := range []string{"a", "b", "node", "world"} {
		inbox.listen(l, ns)
	}
	egress := []netinst.ACLRule{{Direction: netinst.Egress, Action: netinst.Allow, Protocol: "tcp"}}
	ingress := []netinst.ACLRule{
		{Direction: netinst.Ingress, Action: netinst.Allow, Protocol: "tcp",
			LocalPort: []netinst.PortRange{{First: 80, Last: 80}}},
		{Direction: netinst.Ingress, Action: netinst.Allow, IP: netip.MustParsePrefix("10.1.0.1/32")},
	}
	for _, tc := range []struct {
		name     string
		rules    fwRules
		src, dst fwEnd
		port     uint16
		passes   bool
	}{
		{"out", fwRules{a: egress}, fwA, fwWorld, 443, true},
		{"out without a rule", fwRules{}, fwA, fwWorld, 443, false},
		{"in", fwRules{a: ingress}, fwNext, fwA, 80, true},
		{"in by another port", fwRules{a: ingress}, fwNext, fwA, 443, false},
		{"across", fwRules{a: egress, b: ingress}, fwA, fwB, 80, true},
		{"across without the receiver", fwRules{a: egress}, fwA, fwB, 80, false},
		{"to the gateway's DNS", fwRules{}, fwA, fwGate, 53, true},
		{"to the gateway's other ports", fwRules{a: egress}, fwA, fwGate, 80, false},
		{"from the node", fwRules{a: ingress}, fwGate, fwA, 443, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			set(tc.rules)
			l.do(tc.src.ns, func() error {
				d := net.Dialer{Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{IP: tc.src.addr.AsSlice()}}
				if !tc.passes {
					d.Timeout = 300 * time.Millisecond
				}
				c, err := d.Dial("tcp4", netip.AddrPortFrom(tc.dst.addr, tc.port).String())
				if err == nil {
					_ = c.Close()
				}
				if (err == nil) != tc.passes {
					t.Errorf("dial: %v", err)
				}
				return nil
			})
		})
	}
}

// A packet that leaves a port has the port's address; the world never sees an app's.
func TestFirewallMasquerades(t *testing.T) {
	t.Parallel()
	l, set := fwTwoNetworks(t, true)
	set(fwRules{a: fwAllowAll})
	var from net.Addr
	l.do("world", func() error {
		u, err := net.ListenPacket("udp4", ":80")
		if err != nil {
			return err
		}
		defer u.Close()
		l.send(fwA, fwWorld, 80, "x")
		if err := u.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
			return err
		}
		_, from, err = u.ReadFrom(make([]byte, 10))
		return err
	})
	if host, _, _ := net.SplitHostPort(from.String()); host != "192.0.2.10" {
		t.Errorf("the world sees %s", from)
	}
}
