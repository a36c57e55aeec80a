package fleetapi

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"edgespan/config/events"
)

// The newest events are those of a plain sort, whatever the order in which nodes and events come.
func TestTheNewestEventsOfManyNodes(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		q := EventQuery{Last: draw.IntN(8), Why: round%2 == 0}
		s := q.Select()
		want := []NodeEvent{}
		for n := range draw.IntN(6) {
			var list []events.Event
			for i := range draw.IntN(30) {
				list = append(list, events.Event{Seq: uint64(i + 1), Kind: events.State, Object: "ni/a",
					Time: at.Add(time.Duration(draw.IntN(20)) * time.Second), Cause: events.Cause{Event: uint64(i)}})
			}
			name := fmt.Sprintf("n%d", n)
			s.Add(name, list)
			for _, e := range list {
				if q.Why {
					e.Chain = events.Chain(list, e)
				}
				want = append(want, NodeEvent{name, e})
			}
		}
		want = MergeEvents(want, q.Last)
		same := func(a, b NodeEvent) bool { return a.Node == b.Node && a.Seq == b.Seq && len(a.Chain) == len(b.Chain) }
		if got := s.Newest(); got == nil || !slices.EqualFunc(got, want, same) {
			t.Fatalf("round %d, %+v:\n%v\n%v", round, q, got, want)
		}
	}
}

// Of one event that two replicas have, with different times if its node's clock is fast, the newest counts.
func TestEventsOfSeveralReplicasAreMerged(t *testing.T) {
	t.Parallel()
	e := func(node string, seq, rev uint64, after int) NodeEvent {
		return NodeEvent{node, events.Event{Seq: seq, Rev: rev, Time: at.Add(time.Duration(after) * time.Second)}}
	}
	got := MergeEvents([]NodeEvent{e("b", 1, 0, 3), e("a", 7, 0, 9), e("a", 7, 8, 1), e("a", 6, 0, 0), e("b", 1, 0, 5)}, 2)
	if len(got) != 2 || got[0].Node != "a" || got[0].Rev != 8 || got[1].Node != "b" {
		t.Errorf("%+v", got)
	}
}

// A viewer asks for the causes of the newest events of a large fleet: that must not take memory, and time, for all of
// them.
func TestAQuestionForEventsOfALargeFleetIsCheap(t *testing.T) {
	var list []events.Event
	for i := range 200 {
		list = append(list, events.Event{Seq: uint64(i + 1), Kind: events.State, Object: "ni/a",
			Time: at.Add(time.Duration(i) * time.Second), Cause: events.Cause{Event: uint64(i)}})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := EventQuery{Last: 100, Why: true}.Select()
	for n := range 10_000 {
		s.Add(fmt.Sprintf("n%d", n), list)
	}
	got := s.Newest()
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; len(got) != 100 || len(got[0].Chain) == 0 || used > 16<<20 {
		t.Errorf("%d events, %d bytes", len(got), used)
	}
}
