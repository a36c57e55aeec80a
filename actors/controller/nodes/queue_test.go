package nodes

import (
	"fmt"
	"testing"
	"time"

	"edgespan/config/fleet"
	"edgespan/config/fleet/nodeproto"
)

// While a node's record is not loaded yet, a bounded number of its messages is kept.
func TestWhatWaitsForTheMemoryIsBounded(t *testing.T) {
	n := &node{}
	for i := range 1000 {
		n.queueEarly(Message{Word: nodeproto.Report{Software: fmt.Sprint(i)}})
		n.queueEarly(Message{Word: nodeproto.Result{Attempt: uint64(i)}})
	}
	n.queueEarly(Desired{})
	reports, results := 0, 0
	for _, m := range n.before {
		switch w := m.(type) {
		case Message:
			if rep, is := w.Word.(nodeproto.Report); is {
				if reports++; rep.Software != "999" {
					t.Errorf("the report of %s", rep.Software)
				}
			} else {
				results++
			}
		}
	}
	if reports != 1 || results == 0 || len(n.before) > maxSaid+2 {
		t.Errorf("%d reports, %d results, %d messages", reports, results, len(n.before))
	}
}

// While the store is slow, no more than a handful of effects waits, all of them for the newest record.
func TestWhatWaitsForTheStoreIsBounded(t *testing.T) {
	n := &node{unstored: unstored{saving: []byte("x")}, on: "s"}
	for i := range uint64(1000) {
		for _, e := range []any{
			fleet.Save{Memory: fleet.Memory{Floor: i}}, ack{attempt: i}, ack{attempt: i},
			fleet.SetTimer{At: time.Unix(int64(i), 0)},
			fleet.Push{Attempt: i, Whole: true}, fleet.Push{Generation: fleet.Generation{Counter: i}}, fleet.Probe{Probe: i},
			fleet.SetManaged{Managed: i%2 == 0},
		} {
			n.plan(e)
		}
	}
	if len(n.todo) != 6+maxSaid {
		t.Errorf("%d wait", len(n.todo))
	}
	if s, is := n.todo[0].effect.(fleet.Save); !is || s.Memory.Floor != 999 {
		t.Errorf("the first one is %+v", n.todo[0].effect)
	}
	acks := 0
	for _, one := range n.todo {
		switch e := one.effect.(type) {
		case ack:
			acks++
			if e.attempt < 1000-maxSaid {
				t.Errorf("attempt %d is acknowledged", e.attempt)
			}
		case fleet.Push:
			if e.Whole && e.Attempt != 999 || !e.Whole && e.Generation.Counter != 999 {
				t.Errorf("%+v waits", e)
			}
		}
	}
	if acks != maxSaid {
		t.Errorf("%d acknowledgements wait", acks)
	}
}
