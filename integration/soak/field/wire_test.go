package field

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/integration/soak/guest"
	"edgespan/integration/soak/model"
)

// frameOf is an Ethernet frame with a beacon.
func frameOf(from, src, dst string) []byte {
	s, d := netip.MustParseAddr(src).As4(), netip.MustParseAddr(dst).As4()
	head := []byte{0x52, 0x54, 0, 0, 0, 9, 0x52, 0x54, 0, 0, 0, 1, 8, 0} // of node 1 on segment 0
	return append(head, guest.PacketOf(s, d, 0, []byte(guest.BeaconMagic+from+" x 0"))...)
}

func testReferee() *referee {
	return newReferee(time.Now(), model.Fleet{{Networks: map[int]model.Network{1: {Port: "uplink"}, 2: {}},
		Apps: map[int]model.App{1: {Network: 1, Rules: model.Narrow, Active: true},
			2: {Network: 2, Rules: model.Open, Active: true}}}})
}

// What went into a tunnel leaves in the clear only while a cluster without encryption may be in force.
func TestTheJudgeLooksIntoTunnels(t *testing.T) {
	src, dst := netip.MustParseAddr(model.Uplink(1, 0)).As4(), netip.MustParseAddr(model.Uplink(2, 0)).As4()
	outer := func(payload []byte) []byte {
		return append(frameOf("1.6", model.Uplink(1, 0), model.ServerAddr)[:14], guest.PacketOf(src, dst, 0, payload)...)
	}
	inner := append([]byte{8, 0, 0, 0, 0, 1, 0, 0}, frameOf("1.6", "172.20.0.1", "172.20.0.2")...) // VXLAN's head
	for _, c := range []struct {
		name          string
		joined, plain bool
		frame         []byte
		wrong         bool
	}{
		{"a cluster without encryption", true, true, outer(inner), false},
		{"an encrypted one", true, false, outer(inner), true},
		{"none", false, true, outer(inner), true},
		{"what is encrypted", true, false, outer(make([]byte, len(inner))), false},
		{"cut off", true, false, outer(inner)[:40], false},
	} {
		j := testReferee()
		f := j.history[0].fleet.Clone()
		f[0].Joined, f[0].Plain = c.joined, c.plain
		j.history[0].fleet = f
		j.frame(1, 0, c.frame)
		if _, _, _, got := j.seen(); (len(got) > 0) != c.wrong || c.wrong && got[0].Invariant != "tunnels are encrypted" {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// The referee beside the wire takes what a node may send, and notes all else.
func TestTheJudgeBesideTheWire(t *testing.T) {
	uplink := model.Uplink(1, 0)
	for _, c := range []struct {
		name, from, src, dst string
		want                 string // part of the violation, "" for none
	}{
		{"a beacon that may pass", "1.1", uplink, model.ServerAddr, ""},
		{"from the other uplink's address", "1.1", model.Uplink(1, 1), model.ServerAddr, ""},
		{"with the address of an app", "1.1", "10.11.0.2", model.ServerAddr, "a packet from 10.11.0.2"},
		{"of an app whose network has no port", "1.2", uplink, model.ServerAddr, "beacon of \"1.2\""},
		{"of an app of another node", "2.1", uplink, model.ServerAddr, "beacon of \"2.1\""},
		{"of a spoofing app", guest.Spoofed, uplink, model.ServerAddr, "beacon of"},
		{"from another node's address", "1.1", model.Uplink(2, 0), model.ServerAddr, "a packet from"},
		{"to what its rules do not name", "1.1", uplink, "10.21.0.2", "beacon of \"1.1\" to 10.21.0.2"},
	} {
		j := testReferee()
		j.frame(1, 0, frameOf(c.from, c.src, c.dst))
		switch {
		case c.want == "" && len(j.violations) > 0:
			t.Errorf("%s: %+v", c.name, j.violations)
		case c.want != "" && (len(j.violations) == 0 || !strings.Contains(j.violations[0].Text, c.want)):
			t.Errorf("%s: %+v, want %q", c.name, j.violations, c.want)
		}
	}
	j := testReferee()
	j.frame(1, 0, frameOf("1.1", uplink, model.ServerAddr)[:30]) // cut off: it does not fail
	j.frame(1, 0, frameOf("1.1", uplink, model.ServerAddr)[:14])
	if len(j.violations) > 0 {
		t.Errorf("%+v", j.violations)
	}
}

// What apps send appears on the wire of a provider under no address of theirs, of any layer and family.
func TestAFrameOfAnAppOnTheWireIsALeak(t *testing.T) {
	ipv6 := func(src string) []byte {
		head := append(frameOf("1.1", "0.0.0.0", "0.0.0.0")[:12], 0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 64)
		s, d := netip.MustParseAddr(src).As16(), netip.MustParseAddr("2001:db8::1").As16()
		return append(append(head, s[:]...), d[:]...)
	}
	changed := func(change func(frame []byte)) []byte {
		f := frameOf("x", model.Uplink(1, 0), model.ServerAddr)
		change(f)
		return f
	}
	arp := func(f []byte) { f[12], f[13] = 8, 6 }
	for _, c := range []struct {
		name  string
		frame []byte
		want  string // "" for none
	}{
		{"of the node", changed(func([]byte) {}), ""},
		{"ARP of the node", changed(arp), ""},
		{"ARP of an app", changed(func(f []byte) { arp(f); copy(f[6:], []byte{2, 0x50, 0, 0, 1, 1}) }),
			"a frame from 02:50:00:00:01:01"},
		{"of another node", changed(func(f []byte) { f[11] = 2 }), "a frame from 52:54:00:00:00:02"},
		{"with a tag", changed(func(f []byte) { f[12], f[13] = 0x81, 0 }), "a frame with the tag of a VLAN"},
		{"IPv6 of the node", ipv6("fe80::5054:ff:fe00:1"), ""},
		{"IPv6 without an address", ipv6("::"), ""},
		{"IPv6 of an app", ipv6("fd00:10:11::2"), "a packet from fd00:10:11::2 to 2001:db8::1, protocol 17"},
		{"IPv6 that is cut off", ipv6("fd00:10:11::2")[:50], ""},
	} {
		if got := leak(c.frame, 1, 0); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// What the former configuration allowed may arrive until the new one is settled, and not after.
func TestTheJudgeOfApps(t *testing.T) {
	j := testReferee()
	e := model.Endpoint{Node: 1, App: 1}
	seen := guest.Sighting{From: e.String(), Port: model.Served, N: 1}
	closed := j.history[0].fleet.Clone()
	closed[0].Apps[1] = model.App{Network: 1, Rules: model.Closed, Active: true}
	j.changed(closed)
	j.app(model.Outside, seen)
	if len(j.violations) > 0 {
		t.Errorf("before it is settled: %+v", j.violations)
	}
	j.settled()
	j.app(model.Outside, seen)
	if len(j.violations) != 1 {
		t.Errorf("after it is settled: %+v", j.violations)
	}
	for range 5000 {
		j.app(model.Outside, seen)
	}
	if len(j.violations) != 3 {
		t.Errorf("%d equal violations are noted, want 3", len(j.violations))
	}
}

// A node that is broken for a day takes no more memory than one that is broken for a minute.
func TestViolationsHaveABound(t *testing.T) {
	j := testReferee()
	for n := range 20 * maxViolations {
		j.violated("node1", "x", fmt.Sprint(n))
	}
	if len(j.violations) != maxViolations || len(j.told) > maxViolations {
		t.Errorf("%d violations, %d texts", len(j.violations), len(j.told))
	}
}

// What passes a node whose rules another program has removed is no violation until they are to be back, and is counted.
func TestTheRefereeOfFlushedRules(t *testing.T) {
	forged := frameOf("1.1", "10.11.0.2", model.ServerAddr)
	seen := guest.Sighting{From: guest.Spoofed, Port: model.Served, N: 4}
	app := model.Endpoint{Node: 1, App: 1}
	j := testReferee()
	j.opened(1, time.Now().Add(time.Minute))
	j.frame(1, 0, forged)
	j.frame(1, 0, frameOf("1.1", model.Uplink(1, 0), model.ServerAddr)) // allowed
	j.app(app, seen)
	if _, _, openly, violations := j.seen(); openly != 5 || len(violations) > 0 {
		t.Errorf("while they are away: %d packets, %+v", openly, violations)
	}
	j.frame(2, 0, forged)
	if len(j.violations) != 2 {
		t.Errorf("by another node: %+v", j.violations)
	}
	j.opened(1, time.Now().Add(-time.Second))
	j.app(app, seen) // it may be told later
	if len(j.violations) != 2 {
		t.Errorf("told later: %+v", j.violations)
	}
	j.frame(1, 0, forged)
	j.opened(1, time.Now().Add(-time.Minute))
	j.app(app, seen)
	if len(j.violations) != 4 {
		t.Errorf("with rules again: %+v", j.violations)
	}
}

func TestKernelsThatKeepTables(t *testing.T) {
	for release, want := range map[string]bool{"6.1.0-40-amd64": false, "6.9.0": true, "6.12.48+deb13-amd64": true,
		"7.0": true, "5.10.0": false, "": false} {
		if got := keepsTables(release); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
	// The script does what its number says.
	script := scripts[model.Flush].do
	if !strings.Contains(script, fmt.Sprintf("ARG %% %d)", flushChoices)) ||
		!strings.Contains(script, fmt.Sprintf(" %d) nft flush ruleset ", flushRuleset)) {
		t.Error(script)
	}
}

// A switch sends a frame where its destination is, and to all if it does not know; faults lose it.
func TestASegmentSwitches(t *testing.T) {
	got := map[int]int{}
	s := newSegment(0, 1, func(int, int, []byte) {})
	for n := range 3 {
		s.ports[n] = &port{write: func([]byte) error { got[n]++; return nil }}
	}
	frame := func(dst, src byte) []byte {
		f := frameOf("1.1", "192.0.2.11", model.ControllerAddr)
		f[5], f[11] = dst, src
		return f
	}
	expect := func(what string, from int, f []byte, want map[int]int) {
		t.Helper()
		clear(got)
		s.forward(from, f)
		for n := range 3 {
			if got[n] != want[n] {
				t.Errorf("%s: port %d got %d frames, want %d", what, n, got[n], want[n])
			}
		}
	}
	expect("unknown", 1, frame(2, 1), map[int]int{0: 1, 2: 1})
	expect("known", 2, frame(1, 2), map[int]int{1: 1})
	expect("known by now", 1, frame(2, 1), map[int]int{2: 1})
	s.set(2, func(p *port) { p.down = true })
	expect("to a link that is cut", 1, frame(2, 1), nil)
	expect("from a link that is cut", 2, frame(1, 2), nil)
	s.heal()
	s.set(1, func(p *port) { p.block = netip.MustParseAddr(model.ControllerAddr) })
	expect("to an address that is blocked", 1, frame(2, 1), nil)
	s.heal()
	s.set(1, func(p *port) { p.loss = 1 })
	expect("on a link that loses all", 1, frame(2, 1), nil)
	s.heal()
	broadcast := frame(2, 1)
	broadcast[0] = 0xff
	expect("broadcast", 1, broadcast, map[int]int{0: 1, 2: 1})
}

func TestBeaconsAreParsed(t *testing.T) {
	whole := frameOf("1.1", "10.1.0.2", "198.51.100.80")[14:]
	u, ok := guest.ParseUDP(whole)
	if !ok || u.Beacon() != "1.1" || u.Dst.String() != "198.51.100.80:7001" || u.Src.Addr().String() != "10.1.0.2" {
		t.Errorf("%+v, %v", u, ok)
	}
	for n := range 28 {
		if _, ok := guest.ParseUDP(whole[:n]); ok {
			t.Errorf("%d octets are a packet", n)
		}
	}
	later := append([]byte(nil), whole...)
	later[7] = 1 // a later fragment has no ports
	if _, ok := guest.ParseUDP(later); ok {
		t.Error("a later fragment is read")
	}
}
