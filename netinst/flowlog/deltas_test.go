package flowlog

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"edgespan/netinst/netstate"
)

// counts is a record of the n-th flow of a network's app, with as many packets out as bytes in, until a second.
func counts(network, n int, packets uint64, at int64, goesOn bool) Record {
	return Record{Network: id(network), Adapter: key(network), Proto: tcp, Start: time.Unix(1, 0), End: time.Unix(at, 0),
		Local:  netip.AddrPortFrom(netip.MustParseAddr("10.1.0.2"), uint16(n)),
		Remote: netip.MustParseAddrPort("192.0.2.9:443"), Out: netstate.Traffic{Packets: packets}, In: netstate.Traffic{Bytes: packets}, GoesOn: goesOn}
}

func TestDeltas(t *testing.T) {
	d := NewDeltas(1000)
	say := func(r Record, ok bool) string {
		return fmt.Sprintf("%d/%d from %d to %d %t", r.Out.Packets, r.In.Bytes, r.Start.Unix(), r.End.Unix(), ok)
	}
	unknown := func(r Record) Record { r.Start = time.Time{}; return r }
	for i, c := range []struct {
		what string
		r    Record
		want string
	}{
		{"the first record of a flow has all", counts(1, 1, 10, 300, true), "10/10 from 1 to 300 true"},
		{"the next one has the rest", counts(1, 1, 15, 600, true), "5/5 from 300 to 600 true"},
		{"one without packets has none", counts(1, 1, 15, 900, true), "0/0 from 600 to 900 true"},
		{"another flow has all of its own", counts(1, 2, 7, 900, false), "7/7 from 1 to 900 true"},
		{"one of another app with these ends, too", counts(2, 1, 8, 900, false), "8/8 from 1 to 900 true"},
		{"the end has the rest", counts(1, 1, 18, 1000, false), "3/3 from 900 to 1000 true"},
		{"and is forgotten", counts(1, 1, 18, 1100, false), "18/18 from 1 to 1100 true"},
		{"a flow of unknown begin", unknown(counts(1, 3, 50, 300, true)), "50/50 from -62135596800 to 300 true"},
		{"one that follows it with less", unknown(counts(1, 3, 4, 600, false)), "4/4 from -62135596800 to 600 true"},
		{"a denied packet is no flow", Record{Packet: true, Out: netstate.Traffic{Packets: 1}, Start: time.Unix(0, 0),
			End: time.Unix(0, 0)}, "1/0 from 0 to 0 true"},
	} {
		if got := say(d.Next(c.r, 1)); got != c.want {
			t.Errorf("%d: %s: %s, want %s", i, c.what, got, c.want)
		}
	}
	if len(d.flows)+len(d.of) != 0 {
		t.Errorf("%d flows are remembered, %d networks", len(d.flows), len(d.of))
	}
	d.Begin(counts(1, 1, 100, 300, true), 1)
	if got, want := say(d.Next(counts(1, 1, 101, 400, false), 1)), "1/1 from 300 to 400 true"; got != want {
		t.Errorf("of a flow that was there before: %s, want %s", got, want)
	}
}

// TestAFlowThatCannotBeRememberedIsExportedAtItsEnd lets a network have more flows than its share: of these all counts
// come at the end, once, and another network has its own share.
func TestAFlowThatCannotBeRememberedIsExportedAtItsEnd(t *testing.T) {
	d := NewDeltas(200)
	sent := map[int]uint64{}
	for round := range uint64(3) {
		for n := range 150 {
			if r, ok := d.Next(counts(1, n, 10*(round+1), int64(300*(round+1)), true), 2); ok {
				sent[n] += r.Out.Packets
			}
		}
	}
	if _, ok := d.Next(counts(2, 1, 5, 900, true), 2); len(sent) != 100 || !ok {
		t.Errorf("%d flows are remembered, one of another network: %t", len(sent), ok)
	}
	for n := range 150 {
		r, ok := d.Next(counts(1, n, 35, 1000, false), 2)
		if sent[n] += r.Out.Packets; !ok || sent[n] != 35 {
			t.Fatalf("flow %d: %d packets of 35, %t", n, sent[n], ok)
		}
	}
	if d.Forget(time.Unix(900, 0)); len(d.flows) != 1 {
		t.Errorf("%d flows are remembered", len(d.flows))
	}
	if d.Forget(time.Unix(901, 0)); len(d.flows)+len(d.of) != 0 {
		t.Errorf("%d flows whose ends were missed are remembered, %d networks", len(d.flows), len(d.of))
	}
}
