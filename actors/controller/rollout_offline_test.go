package controller

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/fleetapi"
)

// onDelaying is onStaged with a canary, and all other nodes in one batch of which one may be offline.
func onDelaying(t *testing.T, f func(*rig, *Controller)) {
	t.Helper()
	onRig(t, func(r *rig) {
		r.change = func(o *Options) {
			o.Flags = map[string]string{"config_staged_rollout_enabled": "true", "config_rollout_stages": "100"}
		}
		c := r.start("a")
		r.fleetOf(c, 5)
		f(r, c)
	})
}

// A node that goes offline before it gets the change delays only itself: the rollout ends without it and continues once
// it is back.
func TestAnOfflineNodeHaltsNoRollout(t *testing.T) {
	onDelaying(t, func(r *rig, c *Controller) {
		r.nodes["n3"].lose() // no one notices for 40 s
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(4 * time.Minute)
		d := r.is(c, "done", "one", "n0 n1 n2 n4")
		if len(d.Failed) > 0 || d.Waiting["n3"] != "it is offline" ||
			!strings.Contains(decisions(d), "n3 waits for a later batch: it went offline before it took the change") {
			t.Errorf("failed %v, waiting %v\n%s", d.Failed, d.Waiting, decisions(d))
		}
		r.nodes["n3"].connect(c)
		r.pass(time.Minute)
		r.is(c, "done", "one", "n0 n1 n2 n3 n4")
	})
}

// While the rollout is paused, a delayed node gets nothing when it returns.
func TestADelayedNodeWaitsForItsBatch(t *testing.T) {
	onDelaying(t, func(r *rig, c *Controller) {
		r.nodes["n3"].lose()
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Minute)
		r.rollout(c, r.newest(c).Revision, fleetapi.PauseRollout)
		r.pass(3 * time.Minute)
		if d := r.is(c, "paused", "one",
			"n0 n1 n2 n4"); d.Waiting["n3"] != "it went offline before it took the change; it is offline" {
			t.Errorf("waiting %v", d.Waiting)
		}
		r.nodes["n3"].connect(c)
		r.pass(time.Minute)
		d := r.is(c, "paused", "one", "n0 n1 n2 n4")
		r.rollout(c, d.Revision, fleetapi.ResumeRollout)
		r.pass(time.Minute)
		r.is(c, "done", "one", "n0 n1 n2 n3 n4")
	})
}

// A node that the change cuts off differs from one that happens to be offline: it has confirmed receipt of the change
// and does not return within the time of its batch.
func TestANodeThatTheChangeCutsOffHalts(t *testing.T) {
	onDelaying(t, func(r *rig, c *Controller) {
		r.behave("n3", silent)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(3 * time.Second)
		r.is(c, "running", "one", "n0 n1 n2 n3 n4")
		r.nodes["n3"].cut()
		r.pass(4 * time.Minute)
		d := r.is(c, "halted", "one", "n0 n1 n2 n3 n4")
		if want := "it took the change, went offline and did not return within 3m0s"; d.Failed["n3"] != want {
			t.Errorf("failed %v, want %s", d.Failed, want)
		}
	})
}

// If the change cuts a node off before its answer is out, the node is delayed. When it returns it reports that it undid
// the change, and that halts the rest of the rollout.
func TestADelayedNodeThatUndidTheChangeHalts(t *testing.T) {
	onDelaying(t, func(r *rig, c *Controller) {
		it := r.nodes["n3"]
		var cutOff atomic.Bool
		cutOff.Store(true)
		r.wire = func(_ *Controller, n *fakeNode, m any, pass func()) {
			// the caller holds the lock
			if _, says := m.(nodeproto.FromNode); says && n == it && cutOff.Load() && len(it.pushes) > 0 {
				go n.cut()
				return
			}
			pass()
		}
		r.behave("n3", silent)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Minute)
		r.rollout(c, r.newest(c).Revision, fleetapi.PauseRollout)
		r.pass(3 * time.Minute)
		if d := r.is(c, "paused", "one", "n0 n1 n2 n3 n4"); !strings.HasPrefix(d.Waiting["n3"],
			"it went offline before it took the change") {
			t.Fatalf("waiting %v\n%s", d.Waiting, decisions(d))
		}
		cutOff.Store(false)
		it.connect(c)
		r.pass(20 * time.Second)
		d := r.newest(c)
		if want := "not confirmed in time: the node went back to its previous config"; d.Failed["n3"] != want {
			t.Errorf("failed %v, want %s\n%s", d.Failed, want, decisions(d))
		}
		if pushes, _ := it.got(); pushes != 1 {
			t.Errorf("it was pushed %d times", pushes)
		}
	})
}
