package netns_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/platform/nft"
)

// fwStream sends frames from one app to another without a pause: in turn one that may pass and a forged one.
type fwStream struct {
	stop     atomic.Bool
	heard    atomic.Int64 // the last good frame
	ended    chan struct{}
	received chan struct{}
	sent     int64
	lost     int64
	forged   int64
}

// window is how many frames may be under way: more would overflow a queue.
const window = 64

func (l *fwLab) stream() *fwStream {
	own, forged, all := fwMAC(l.t, "02:00:00:00:61:01"), fwMAC(l.t, "02:00:00:00:00:77"), fwMAC(l.t, "ff:ff:ff:ff:ff:ff")
	from, to := l.fwRaw("a", "eth0"), l.fwRaw("b", "eth0")
	tv := unix.NsecToTimeval((2 * time.Second).Nanoseconds())
	if err := unix.SetsockoptTimeval(to, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		l.t.Fatal(err)
	}
	s := &fwStream{ended: make(chan struct{}), received: make(chan struct{})}
	go func() {
		defer close(s.ended)
		for !s.stop.Load() {
			for end := time.Now().Add(10 * time.Millisecond); s.sent-s.heard.Load() > window && time.Now().Before(end); {
			}
			s.sent++
			_, _ = unix.Write(from, fwFrame(all, own, 0x0806, fwARP(own, fwA.addr, fwB.addr, fmt.Sprintf("#good%016d", s.sent))))
			_, _ = unix.Write(from, fwFrame(all, forged, 0x0806, fwARP(forged, fwA.addr, fwB.addr, "#forged")))
		}
		_, _ = unix.Write(from, fwFrame(all, own, 0x0806, fwARP(own, fwA.addr, fwB.addr, "#end")))
	}()
	go func() {
		defer close(s.received)
		buf := make([]byte, 2000)
		for {
			n, _, err := unix.Recvfrom(to, buf, 0)
			if err == unix.EINTR {
				continue
			}
			if err != nil || bytes.Contains(buf[:n], []byte("#end")) {
				return
			}
			if bytes.Contains(buf[:n], []byte("#forged")) {
				s.forged++
			}
			if i := bytes.Index(buf[:n], []byte("#good")); i >= 0 {
				k, _ := strconv.ParseInt(string(buf[i+5:i+21]), 10, 64)
				s.lost += k - s.heard.Load() - 1
				s.heard.Store(k)
			}
		}
	}()
	return s
}

// verify ends the stream. Every good frame has arrived and no forged one.
func (s *fwStream) verify(t *testing.T, what string) {
	t.Helper()
	s.stop.Store(true)
	<-s.ended
	<-s.received
	if s.lost += s.sent - s.heard.Load(); s.lost > 0 || s.forged > 0 || s.sent < window {
		t.Errorf("%s: of %d frames %d were lost, and %d forged ones arrived", what, s.sent, s.lost, s.forged)
	}
	t.Logf("%s: %d frames", what, s.sent)
}

// fwPart returns a network's part of the table of frames, and its removal.
func fwPart(in netinst.Input) (add, remove nft.Update) {
	add.Table, remove.Table = framesTable, framesTable
	for _, o := range netinst.DesiredState(in).State {
		c, ok := o.(netstate.Chain)
		if !ok || c.Family != framesTable.Family {
			continue
		}
		add.Lines = append(append(append(add.Lines, "chain "+c.Name+" {"), c.Rules...), "}")
		add.Set = append(add.Set, fwElements(c)...)
		remove.Delete, remove.Unset = append(remove.Delete, c.Name), append(remove.Unset, fwElements(c)...)
	}
	return add, remove
}

// While networks are changed, no frame of an unchanged network and none of the changed one is lost, and no forged frame
// passes at any instant.
func TestFramesPassWhileNetworksChange(t *testing.T) {
	l, set := fwTwoNetworks(t, true)
	one := set(fwRules{a: fwAllowAll, b: fwAllowAll})
	c, err := nft.Open("/run/netns/" + l.ns("node"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Claim(func(nft.Table) bool { return true }); err != nil {
		t.Fatal(err)
	}
	update := func(us ...nft.Update) {
		t.Helper()
		if err := c.Update(us...); err != nil {
			t.Fatal(err)
		}
	}
	plain, _ := fwPart(one)
	one.Adapters[0].Config.Spec.MaxFlows = 100 // other rules of one's chain
	other, _ := fwPart(one)
	two, twoGone := fwPart(l.fwInput(2, true, l.fwAdapter("c", 1, "10.2.0.128"), l.fwAdapter("d", 2, "10.2.0.129")))
	for what, change := range map[string]func(i int){
		"another network comes and goes": func(int) { update(two); update(twoGone) },
		"another network changes":        func(int) { update(two) },
		"its own rules change":           func(i int) { update([]nft.Update{plain, other}[i%2]) },
		"host's part is written again":   func(int) { update(hostPart()) },
	} {
		s := l.stream()
		for i := range 500 {
			change(i)
		}
		s.verify(t, what)
	}
}

// oldTable is a network's table of frames as releases before the shared table wrote it.
var oldTable = []string{
	"chain a1 {",
	"ether saddr != 02:00:00:00:61:01 drop",
	"ether type arp arp htype 1 arp ptype ip arp hlen 6 arp plen 4 arp saddr ether 02:00:00:00:61:01 arp saddr ip " +
		"10.1.0.128 accept",
	"drop",
	"}",
	"chain frames {",
	"type filter hook prerouting priority -300; policy accept;",
	`iifname "es1a1" goto a1`,
	`iifname "es1a*" drop`,
	"}",
}

// When the shared table takes the place of a network's own, every frame passes one of them: none is lost and no forged
// one passes.
func TestNoFrameIsUnguardedInAnUpgrade(t *testing.T) {
	l, set := fwTwoNetworks(t, true)
	in := set(fwRules{a: fwAllowAll, b: fwAllowAll})
	part, _ := fwPart(in)
	c, err := nft.Open("/run/netns/" + l.ns("node"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Claim(func(nft.Table) bool { return true }))
	host := func(old bool) nft.Update {
		u := hostPart()
		st := netinst.HostState([]netinst.HostNetwork{{Number: 1, Subnet: netip.MustParsePrefix("10.1.0.0/24"),
			OldFrames: old}})
		u.Lines = st[netstate.Chain{Family: framesTable.Family, Name: framesTable.Name}.ID()].(netstate.Chain).Rules
		return u
	}
	for i := range 10 {
		must(c.Replace(bridgeTable, oldTable))
		must(c.Delete(framesTable))
		s := l.stream()
		for s.heard.Load() < 1000 { // until frames flow
		}
		must(c.Update(host(true)))
		must(c.Update(part))
		must(c.Delete(bridgeTable))
		must(c.Update(host(false)))
		for at := s.heard.Load(); s.heard.Load() < at+1000; {
		}
		s.verify(t, fmt.Sprintf("upgrade %d", i))
	}
}
