package nodes

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/bisect"
	"edgespan/config/kv"
)

// Another writer's record that arrives before the result of a save is not lost: a search that an operator begins as
// the one before ends would never be tested.
func TestARecordThatArrivesDuringASaveIsNotLost(t *testing.T) {
	d := &Deps{Access: &storage.Access{Host: &storage.Host{Log: zap.NewNop(), Now: time.Now}}}
	n := &node{d: d, replica: "other", machine: fleet.New("n", fleet.Memory{}, fleet.Defaults("me"))}
	ended := &bisect.Record{By: "alice", Phase: bisect.Ended}
	n.search = search{record: ended, revision: 4, inFlight: storage.Encode(ended)}
	next := kv.Entry{Value: storage.Encode(bisect.Record{By: "bob", Phase: bisect.Testing}), ModRevision: 6}
	n.handleBisect(next)
	n.handleBisectSaved(storage.Saved{Done: true, Rev: 5})
	if n.search.record == nil || n.search.record.By != "bob" || n.search.revision != 6 || n.search.inFlight != nil {
		t.Errorf("%+v", n.search)
	}
}
