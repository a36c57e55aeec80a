package scenario

import (
	"math/rand/v2"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// A controller that is killed at any moment of a deployment or its removal, as by a power failure, leaves nothing
// incomplete: after its restart, the hosts match its documents.
func TestADeployGoesOnWhenItsControllerIsKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	f := newField(t, 3)
	before := f.pictures()
	f.apply(f.describePeers() + "---\n" + f.describeCluster(f.peers[0], "star"))
	for range 2 {
		moment := time.Duration(rand.IntN(900)) * time.Millisecond
		t.Logf("killed %v after the command of the deploy", moment)
		if !f.cut(moment, "clusters", "deploy", "yard") && !f.cluster().Deployed {
			f.ok("clusters", "deploy", "yard")
		}
		f.untilReady()
		f.connected()
		f.tellsTheTruth(map[string]int{"edge-1": 2, "edge-2": 1, "edge-3": 1})

		moment = time.Duration(rand.IntN(900)) * time.Millisecond
		t.Logf("killed %v after the command of its end", moment)
		if !f.cut(moment, "clusters", "undeploy", "yard") && f.cluster().Deployed {
			f.ok("clusters", "undeploy", "yard")
		}
		f.isAsBefore(before)
	}
}

// cut runs a command, kills the controller a moment later, and restarts it. It reports whether the command succeeded:
// then its effect must be stored.
func (f *field) cut(after time.Duration, args ...string) bool {
	f.w.Helper()
	end := make(chan lab.Result, 1)
	go func() {
		r, err := f.w.Exec(f.w.ctx, "isp", f.argv(append([]string{f.w.Binary}, args...))...)
		if err != nil {
			r.Code = -1
		}
		end <- r
	}()
	time.Sleep(after) // the moment is random: there is no condition to wait for
	f.kill()
	f.begin()
	return (<-end).Code == 0
}
