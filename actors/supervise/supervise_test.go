package supervise

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

func TestEveryProcessIsFoundInAFewBuckets(t *testing.T) {
	sys := actor.NewActorSystem()
	defer sys.Shutdown()
	r := sys.ProcessRegistry
	for range 5000 { // one in each of the library's buckets, and more
		r.Add(sys.DeadLetter, r.NextID())
	}
	const pidBuckets = 8
	fewBuckets(r.LocalPIDs, pidBuckets)
	if n := len(r.LocalPIDs.LocalPIDs); n != pidBuckets {
		t.Errorf("%d buckets are left, want %d", n, pidBuckets)
	}
	last := r.SequenceID
	r.SequenceID = 0
	for range last {
		if _, found := r.Get(sys.NewLocalPID(r.NextID())); !found {
			t.Fatalf("process %d is lost", r.SequenceID)
		}
	}
	if _, found := r.Get(sys.NewLocalPID("eventstream")); !found {
		t.Error("the event stream is lost")
	}
	for i, b := range r.LocalPIDs.LocalPIDs {
		if b.Count() < 5000/pidBuckets/2 {
			t.Errorf("bucket %d holds %d of 5000", i, b.Count())
		}
	}
}
