package nodes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/bisect"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// BisectChanged is the key of the search that tests configs on the node.
type BisectChanged struct{ Entry kv.Entry }

// search is the search that tests configs on the node. The replica with the node's stream continues it; without a
// stream every replica may, and the store takes the first one.
type search struct {
	record   *bisect.Record // nil: none
	revision kv.Revision    // that wrote the key last
	inFlight []byte         // the record that is being stored
	other    *kv.Entry      // another writer's record meanwhile
	checkDue bool           // a bisectDue is scheduled
}

// bisectDue makes the search look at the time.
type bisectDue struct{}

const bisectInterval = time.Second

// handleBisect handles a change of the key by another writer: an operator, the API, another replica.
func (n *node) handleBisect(e kv.Entry) {
	s := &n.search
	if e.ModRevision <= s.revision {
		return
	}
	if s.inFlight != nil {
		s.other = &e // the save may have been before it
		return
	}
	n.loadBisect(e)
	n.stepBisect()
}

func (n *node) loadBisect(e kv.Entry) {
	s := &n.search
	s.record, s.revision = nil, e.ModRevision
	if len(e.Value) == 0 {
		return
	}
	var r bisect.Record
	if err := json.Unmarshal(e.Value, &r); err != nil {
		n.d.Log.Error("read the search on a node: it is ignored", zap.String("node", n.id), zap.Error(err))
		return
	}
	s.record = &r
}

// stepBisect continues the search with what is known of the node, and stores it.
func (n *node) stepBisect() {
	s := &n.search
	if s.record == nil || s.inFlight != nil || s.record.Phase == bisect.Ended || n.stream == nil && n.replica != "" {
		return
	}
	n.scheduleOnce(&s.checkDue, bisectInterval, bisectDue{})
	if s.record.Step(n.d.Now(), n.observeBisect()) {
		s.inFlight = storage.Encode(s.record)
		n.saveBisect()
	}
}

func (n *node) observeBisect() bisect.Observation {
	now := n.d.Now()
	o := bisect.Observation{Process: fmt.Sprint(n.d.Replica, "/", n.d.Began.UnixNano()), Up: n.d.Began,
		Online:  n.stream != nil && n.report != nil && n.machine.Reported(),
		Desired: n.desired.Config, Trial: n.desired.Trial > 0, Fault: n.desired.Fault}
	if !o.Online {
		return o
	}
	o.Stuck, o.Taken = n.machine.Blocked(now), n.machine.IsTrying(now)
	o.Failed, o.Why = n.machine.Failed()
	r := n.report
	o.Heard = n.lastReport()
	o.Report = bisect.SnapshotOf(r, n.record.Check)
	o.Pending, o.Settled = r.Pending != nil, r.Settled
	if p := r.Pending; p != nil {
		o.Settled = o.Settled && p.Settled
	}
	return o
}

func (n *node) saveBisect() {
	// Not on the node's budget: a large record would hold up the pushes. A search writes a few times for each test.
	compare := kv.AtRevision(history.BisectKey(n.id), n.search.revision)
	n.d.Saver.Add(storage.Save{Op: kv.Put(compare.Key, n.inFlight), Compare: &compare, To: n.self, What: savedBisect})
}

// handleBisectSaved handles the result of that write. If another one was first, the search continues with that.
func (n *node) handleBisectSaved(m storage.Saved) {
	s := &n.search
	switch {
	case s.inFlight == nil:
		return
	case m.Err != nil:
		n.d.Log.Warn("store the search on a node", zap.String("node", n.id), zap.Error(m.Err))
		n.retryLater(savedBisect)
		return
	case m.Done:
		s.revision = m.Rev
	case bytes.Equal(m.Now.Value, s.inFlight): // stored, but the answer was lost
		s.revision = m.Now.ModRevision
	default:
		n.loadBisect(m.Now)
	}
	other := s.other
	if s.inFlight, s.other = nil, nil; other != nil && other.ModRevision > s.revision {
		n.loadBisect(*other)
	}
	n.stepBisect()
}
