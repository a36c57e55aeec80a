package manager

import (
	"fmt"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// What the flow limit of an adapter drops is reported with its number, and no longer than it matters.
func TestWhatABoundOfFlowsDropsIsTold(t *testing.T) {
	bound := netstate.ID{Kind: netstate.KindChain, Name: "ipv4/filter/ES1-1L"}
	look := func(n uint64, second int64, dropped uint64) Applied {
		e := applied(n)
		e.At, e.Dropped = at(second), map[netstate.ID]uint64{bound: dropped}
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

func TestTheWarningNamesTheAdapterThatLosesMost(t *testing.T) {
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	m.adapters = map[netinst.AdapterKey]*adapterState{
		{AppUUID: appW, UnderlayIndex: 0}: {dropped: dropped{packets: 3, limit: 16}},
		{AppUUID: appX, UnderlayIndex: 1}: {dropped: dropped{packets: 9, limit: 32}},
		{AppUUID: appX, UnderlayIndex: 2}: {},
	}
	want := fmt.Sprintf("adapter %s/1: 9 packets of new flows dropped: more than 32 flows, or too many TCP connections "+
		"a second (maxFlows) (and of 1 more adapters)", appX)
	if got := m.droppedWarning(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
