package nodes

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/kv"
)

// While a node's record is not loaded yet, a bounded number of its messages is kept.
func TestWhatWaitsForTheMemoryIsBounded(t *testing.T) {
	n := &node{}
	for i := range 1000 {
		n.queueEarly(Message{Message: nodeproto.Report{Software: fmt.Sprint(i)}})
		n.queueEarly(Message{Message: nodeproto.Result{Attempt: uint64(i)}})
	}
	n.queueEarly(Desired{})
	reports, results := 0, 0
	for _, m := range n.before {
		switch w := m.(type) {
		case Message:
			if rep, ok := w.Message.(nodeproto.Report); ok {
				if reports++; rep.Software != "999" {
					t.Errorf("the report of %s", rep.Software)
				}
			} else {
				results++
			}
		}
	}
	if reports != 1 || results == 0 || len(n.before) > maxQueued+2 {
		t.Errorf("%d reports, %d results, %d messages", reports, results, len(n.before))
	}
}

// While the store is slow, no more than a handful of effects waits, all of them for the newest record.
func TestWhatWaitsForTheStoreIsBounded(t *testing.T) {
	n := &node{storeQueue: storeQueue{saving: []byte("x")}, on: "s"}
	for i := range uint64(1000) {
		for _, e := range []any{
			fleet.Save{Memory: fleet.Memory{Floor: i}}, ack{attempt: i}, ack{attempt: i},
			fleet.SetTimer{At: time.Unix(int64(i), 0)},
			fleet.Push{Attempt: i, Whole: true}, fleet.Push{Generation: fleet.Generation{Counter: i}}, fleet.Probe{Probe: i},
			fleet.SetManaged{Managed: i%2 == 0},
		} {
			n.queueEffect(e)
		}
	}
	if len(n.effects) != 6+maxQueued {
		t.Errorf("%d wait", len(n.effects))
	}
	if s, ok := n.effects[0].effect.(fleet.Save); !ok || s.Memory.Floor != 999 {
		t.Errorf("the first one is %+v", n.effects[0].effect)
	}
	acks := 0
	for _, one := range n.effects {
		switch e := one.effect.(type) {
		case ack:
			acks++
			if e.attempt < 1000-maxQueued {
				t.Errorf("attempt %d is acknowledged", e.attempt)
			}
		case fleet.Push:
			if e.Whole && e.Attempt != 999 || !e.Whole && e.Generation.Counter != 999 {
				t.Errorf("%+v waits", e)
			}
		}
	}
	if acks != maxQueued {
		t.Errorf("%d acknowledgements wait", acks)
	}
}

// An actor that begins gets the results of writes of the one that had its name before.
func TestWritesOfAFormerActorAreNotTakenForOwn(t *testing.T) {
	for what := savedRead + 1; what < savedNothing; what++ {
		for _, m := range []storage.Saved{
			{What: what, Done: true, Rev: 7},
			{What: what, Now: kv.Entry{Key: "k", Value: []byte("{}"), ModRevision: 7}},
			{What: what, Err: errors.New("full")},
		} {
			n := &node{}
			n.handleSaved(m)
			if n.machine != nil || n.waiting || n.ownings != 0 || n.memoryRevision != 0 || n.countRevision != 0 {
				t.Errorf("result %+v: %+v", m, n)
			}
		}
	}
}
