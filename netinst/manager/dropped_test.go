package manager

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// What the flow limit of an adapter drops is reported with its number, and no longer than it matters.
func TestDropsOfTheFlowLimitAreReported(t *testing.T) {
	bound := netstate.ID{Kind: netstate.KindChain, Name: "ipv4/filter/ES1-1L"}
	look := func(n uint64, second int64, dropped uint64) Applied {
		e := applied(n)
		e.At, e.Counted = at(second), map[netstate.ID][]netstate.Counter{bound: {{}, {}, {}, {}, {Packets: dropped}}}
		return e
	}
	made := applied(2)
	made.At, made.Done = at(1),
		[]netstate.Op{{Kind: netstate.KindChain, Verb: netstate.Add,
			Items: []netstate.Item{{Want: netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: "ES1-1L"}}}}}
	reported := func(n int) string {
		return fmt.Sprintf("%d packets of new flows dropped: more than 8192 flows, or too many TCP connections a second "+
			"(maxFlows)", n)
	}
	both := func(n int) string {
		return fmt.Sprintf("adapter app1#0 v1 activated=true [%s], ni Present [adapter %s/0: %s]", reported(n), appW,
			reported(n))
	}
	touch := func(n int, second int64) managerStep {
		return managerStep{HostTouched{At: at(second)}, fmt.Sprintf("apply#%d something", n)}
	}
	const calm = int64(droppedReportEvery / time.Second)
	for name, steps := range map[string][]managerStep{
		"a chain that was just made counts from 0": {
			{made, "adapter app1#0 v1 activated=true"},
			touch(3, 100), {look(3, 100, 7), both(7)},
			touch(4, 200), {look(4, 200, 7), ""},
			touch(5, 300), {look(5, 300, 20), both(20)},
			touch(6, 400), {look(6, 400, 5), both(25)}, // rewritten
			touch(7, 400+calm), {look(7, 400+calm, 5), "adapter app1#0 v1 activated=true, ni Present"},
			touch(8, 500+calm), {look(8, 500+calm, 6), both(1)},
		},
		"what was dropped before the daemon began is of no day": {
			{applied(2), "adapter app1#0 v1 activated=true"},
			touch(3, 100), {look(3, 100, 1000), ""},
			touch(4, 200), {look(4, 200, 1001), both(1)},
		},
		"a look that reads no counter changes nothing": {
			{made, "adapter app1#0 v1 activated=true"},
			touch(3, 100), {look(3, 100, 7), both(7)},
			touch(4, 200), {Applied{Seq: ApplySeq{7, 4}, At: at(200)}, ""},
		},
		"an old chain has other rules": {
			{made, "adapter app1#0 v1 activated=true"},
			touch(3, 100), {Applied{Seq: ApplySeq{7, 3}, At: at(100),
				Counted: map[netstate.ID][]netstate.Counter{bound: {{Packets: 9}}}}, ""},
			touch(4, 200), {look(4, 200, 7), both(7)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
			all := append(begun(managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#2 something"}), steps...)
			for i, s := range all {
				if got := text(m.Step(s.event)); got != s.want {
					t.Fatalf("step %d, %T:\n got %q\nwant %q", i+1, s.event, got, s.want)
				}
			}
		})
	}
}

// The limits toward the network's DHCP and DNS are reported beside that of flows.
func TestDropsOfEachLimitAreReported(t *testing.T) {
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	steps := begun(managerStep{AdapterChanged{testAdapter(appW, 1, true)}, "apply#2 something"})
	for _, s := range steps {
		m.Step(s.event)
	}
	var frames netstate.Chain
	for _, id := range netinst.CountingChains(m.flight.desired.State) {
		if c := m.flight.desired.State[id].(netstate.Chain); c.Family == netstate.BridgeFamily {
			frames = c
		}
	}
	counted := func(n uint64) map[netstate.ID][]netstate.Counter {
		counters := make([]netstate.Counter, len(frames.Rules))
		for i, l := range netinst.LimitsOf(frames) {
			counters[i].Packets = 1000 // of no limit
			if l != 0 {
				counters[i].Packets = n * uint64(l)
			}
		}
		return map[netstate.ID][]netstate.Counter{frames.ID(): counters}
	}
	var got string
	for i, n := range []uint64{5, 7, 107} {
		e := applied(uint64(i + 2))
		e.At, e.Counted = at(int64(i)), counted(n)
		got = text(m.Step(e))
		m.Step(HostTouched{At: at(int64(i))})
	}
	if want := "204 DHCP requests dropped: more than 8 a second; 306 DNS queries dropped: more than 512 a second (maxFlows/16); " +
		"408 fragments dropped: more than 10 a second (maxFragments)"; !strings.Contains(
		got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// flows are drops of a limit of flows.
func flows(n uint64) netinst.Drops { return netinst.Drops{netinst.LimitedFlows: n} }

func TestTheWarningNamesTheAdapterThatLosesMost(t *testing.T) {
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	m.adapters = map[netinst.AdapterKey]*adapterState{
		{AppUUID: appW, Index: 0}: {dropped: dropped{packets: flows(3), flows: 16}},
		{AppUUID: appX, Index: 1}: {dropped: dropped{packets: flows(9), flows: 32}},
		{AppUUID: appX, Index: 2}: {},
	}
	want := fmt.Sprintf("adapter %s/1: 9 packets of new flows dropped: more than 32 flows, or too many TCP connections "+
		"a second (maxFlows) (and of 1 more adapters)", appX)
	if got := m.droppedWarning(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
