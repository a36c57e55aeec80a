package netns_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst"
)

// flows opens n flows one after the other, each from another port, and returns how many came through. The receiver
// gets packets in order, so packets that are missing before the final one of another app never arrive.
func (l *fwLab) flows(inbox *fwInbox, what string, src, dst fwEnd, port uint16, n int, last func()) int {
	l.t.Helper()
	for i := range n {
		l.sendFrom(src, dst, uint16(20000+i), port, fmt.Sprintf("%s %d.", what, i))
	}
	last()
	got := 0
	for i := range n {
		if inbox.has(fmt.Sprintf("%s %d.", what, i)) {
			got++
		}
	}
	return got
}

// The number of an app's flows is bounded, including those to it. Other apps can open flows, replies and open flows
// pass, and a flow that has ended makes room.
func TestFirewallBoundsTheFlowsOfAnAdapter(t *testing.T) {
	t.Parallel()
	const limit = 64
	l, set := fwTwoNetworks(t, true)
	inbox := &fwInbox{got: map[string]bool{}}
	for _, ns := range []string{"a", "b", "node", "world"} {
		inbox.listen(l, ns)
	}
	node := netinst.ACLRule{Direction: netinst.Both, Action: netinst.Allow, IP: netip.MustParsePrefix("192.0.2.0/24")}
	rules := fwRules{a: append([]netinst.ACLRule{node}, fwAllowAll...), b: fwAllowAll, flows: limit}
	fence := 0
	of := func(src, dst fwEnd) func() { // a valid packet of another flow
		return func() {
			fence++
			mark := fmt.Sprintf("honest %d", fence)
			l.until(mark, func() bool { l.sendFrom(src, dst, 19999, 80, mark); return inbox.has(mark) })
		}
	}
	for _, x := range []struct {
		what     string
		src, dst fwEnd
		port     uint16
		fence    func()
	}{
		{"bridged", fwA, fwB, 80, of(fwNext, fwB)},
		{"routed out", fwA, fwWorld, 80, of(fwB, fwWorld)},
		{"routed in", fwNext, fwA, 80, of(fwNext, fwB)},
		{"to the node", fwA, fwNode, 80, of(fwNext, fwNode)},
		{"to the gateway's DNS", fwA, fwGate, 53, of(fwNext, fwNode)},
		{"from the node", fwNode, fwA, 80, of(fwNode, fwNext)},
	} {
		set(fwRules{}) // removes the chains and their counts
		set(rules)
		l.sendFrom(x.src, x.dst, 20000, x.port, "first")
		if got := l.flows(inbox, x.what, x.src, x.dst, x.port, 3*limit, x.fence); got != limit {
			t.Errorf("%s: %d flows of %d opened, want %d", x.what, got, 3*limit, limit)
		}
		// An open flow continues.
		l.until("a packet of an open flow "+x.what, func() bool {
			mark := x.what + " again"
			l.sendFrom(x.src, x.dst, 20000, x.port, mark)
			return inbox.has(mark)
		})
		out := l.try("node", "conntrack", "-L", "-s", x.src.addr.String(), "-d", x.dst.addr.String())
		if n := strings.Count(out, "dport="+fmt.Sprint(x.port)+" "); n > 2*limit { // each line has it once per direction
			t.Errorf("%s: %d entries:\n%s", x.what, n, out)
		}
	}
	l.in("node", "conntrack", "-F") // all flows have ended
	// The kernel forgets ended flows at the next packets, a few in each tick of its clock.
	got := 0
	l.until("as many flows anew", func() bool {
		got = l.flows(inbox, "anew", fwNode, fwA, 80, 3*limit, of(fwNode, fwNext))
		return got >= limit
	})
	if got != limit {
		t.Errorf("%d flows after the others ended, want %d", got, limit)
	}
}

// Many unanswered packets of one flow count as one flow, although each of them is NEW.
func TestFirewallCountsAFlowWithoutAnswersOnce(t *testing.T) {
	t.Parallel()
	l, set := fwTwoNetworks(t, true)
	set(fwRules{a: fwAllowAll, flows: 16})
	inbox := &fwInbox{got: map[string]bool{}}
	inbox.listen(l, "world")
	l.do("a", func() error {
		c, err := net.DialUDP("udp4", &net.UDPAddr{Port: 20100},
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(fwWorld.addr, 443)))
		if err != nil {
			return err
		}
		defer c.Close()
		for range 5000 {
			if _, err := c.Write([]byte("burst")); err != nil {
				return err
			}
		}
		return nil
	})
	if got := l.flows(inbox, "other", fwA, fwWorld, 80, 10, func() {
		l.until("the last of the burst", func() bool {
			l.sendFrom(fwA, fwWorld, 20000, 80, "end")
			return inbox.has("end")
		})
	}); got != 10 {
		t.Errorf("%d of 10 flows opened beside one of 5,000 packets", got)
	}
}

// Closed flows remain in the table for two minutes and no longer count. So an app that opens and closes flows in a
// loop leaves a bounded number.
func TestFirewallBoundsFlowsThatAreClosedAtOnce(t *testing.T) {
	t.Parallel()
	const limit, tries, rate, burst = 16, 150, 4, 64
	l, set := fwTwoNetworks(t, true)
	set(fwRules{a: fwAllowAll, flows: limit})
	world := netip.AddrPortFrom(fwWorld.addr, 8080).String()
	l.do("world", func() error {
		in, err := net.Listen("tcp4", world)
		if err != nil {
			return err
		}
		t.Cleanup(func() { in.Close() })
		go func() {
			for {
				c, err := in.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		}()
		return nil
	})
	began := time.Now()
	l.do("a", func() error {
		for range tries {
			c, err := net.DialTimeout("tcp4", world, 20*time.Millisecond)
			if err != nil {
				continue // dropped
			}
			_, _ = c.Read(make([]byte, 1)) // its end
			c.Close()
		}
		return nil
	})
	bound := burst + rate*int(time.Since(began)/time.Second+1)
	entries := strings.Count(l.in("node", "conntrack", "-L", "-p", "tcp", "-s", fwA.addr.String()), " src="+
		fwA.addr.String()+" ")
	if entries > bound || entries < limit {
		t.Errorf("%d flows tried leave %d, want %d to %d", tries, entries, limit, bound)
	}
}

// An app's queries to its gateway's DNS create flows of the node, so their rate is bounded; other apps can still
// query.
func TestFirewallBoundsTheQuestionsOfAnAdapter(t *testing.T) {
	t.Parallel()
	l, set := fwTwoNetworks(t, true)
	set(fwRules{a: fwAllowAll, b: fwAllowAll})
	inbox := &fwInbox{got: map[string]bool{}}
	inbox.listen(l, "node")
	const asked, burst = 20000, 4096
	began := time.Now()
	app, own, node := l.fwRaw("a", "eth0"), l.mac("a", "eth0"), l.mac("node", "es1")
	for i := range asked {
		if _, err := unix.Write(app, fwFrame(node,
			own, 0x0800, fwUDP(fwA.addr, fwGate.addr, 4001, 53, fmt.Sprintf("question %d.", i)))); err != nil {
			t.Fatal(err)
		}
	}
	limit := burst + 1024*int(time.Since(began)/time.Second+1)
	l.until("a question of another", func() bool { l.send(fwB, fwGate, 53, "another's"); return inbox.has("another's") })
	got := 0
	for i := range asked {
		if inbox.has(fmt.Sprintf("question %d.", i)) {
			got++
		}
	}
	if got == 0 || got > limit {
		t.Errorf("%d of %d questions came through in %v, %d are the most", got, asked, time.Since(began), limit)
	}
}
