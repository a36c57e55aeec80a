package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

// TestEveryReplicaListsAllNodes lists at one replica the nodes of another one.
func TestEveryReplicaListsAllNodes(t *testing.T) {
	onRig(t, func(r *rig) {
		r.change = func(o *Options) { o.Shared = true }
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n1")
		n := r.nodes["n1"]
		at := func(c *Controller) fleetapi.NodeDetail {
			r.Helper()
			d, err := c.Node(r.Context(), "n1")
			if err != nil {
				t.Fatal(err)
			}
			list, err := c.Nodes(r.Context())
			if err != nil || len(list) != 1 || list[0].State != d.State || list[0].Ready != d.Ready {
				t.Errorf("it is listed as %+v, %v, and described as %+v", list, err, d.Node)
			}
			return d
		}
		same := func(when string) {
			r.Helper()
			x, y := at(a), at(b)
			x.LastReport, y.LastReport = nil, nil // heartbeats stay with the replica
			if x.State != y.State || x.Why != y.Why || x.Ready != y.Ready || x.Running != y.Running || x.Desired != y.Desired ||
				!y.Online ||
				x.Managed != y.Managed || y.Replica != "a" || len(x.Parameters) != len(y.Parameters) {
				t.Errorf("%s:\n a says %+v\n b says %+v", when, x, y)
			}
		}
		r.pass(2 * time.Second)
		same("InSync")
		// A replica of the previous release reads the old spelling.
		if e, _, _ := r.store.Get(r.Context(), history.OwnerKey(n.id)); !strings.Contains(string(e.Value),
			`"state":"in sync"`) {
			t.Errorf("the other replicas are told %s", e.Value)
		}
		if d := at(b); d.State != string(fleet.InSync) || !d.Ready {
			t.Errorf("b says %+v", d.Node)
		}
		r.write(b, ops.SetNodes{Overrides: r.doc(`{"n1":{"networkInstances":{"` + aNetwork +
			`":{"type":"switch","port":""}}}}`)})
		r.pass(10 * time.Second)
		same("a network is not reported yet")
		n.mu.Lock()
		n.parameters = []nodeproto.ParameterReport{{ID: "ni/" + aNetwork, Kind: "network-instance", State: "Present"}}
		n.mu.Unlock()
		r.pass(10 * time.Second)
		same("it is there")
		if d := at(b); !d.Ready || len(d.Parameters) != 1 || d.Parameters[0].State != "Present" {
			t.Errorf("b says %+v", d)
		}
		n.mu.Lock()
		n.reject = "bad"
		n.mu.Unlock()
		r.network(b, `{"envParams":{"B":"bad"}}`)
		r.pass(3 * time.Second)
		same("it has rejected a config")
		if d := at(b); d.State != string(fleet.RolledBack) || d.Ready {
			t.Errorf("b says %+v", d.Node)
		}
		count := r.store.Commits
		before := count()
		r.pass(time.Hour)
		if n := count() - before; n > 0 {
			t.Errorf("%d writes in an hour in which nothing changed", n)
		}
		n.cut()
		r.pass(time.Second)
		if d := at(b); d.Online || d.State != string(fleet.Offline) {
			t.Errorf("it has gone, and b says %+v", d.Node)
		}
		n.connect(b)
		r.pass(10 * time.Second)
		if x, y := at(a), at(b); x.State != y.State || x.Why != y.Why || x.Replica != "b" {
			t.Errorf("it has gone to b: a says %+v, b says %+v", x, y)
		}
	})
}

// TestANodeThatLeavesWhileItsStateIsToldIsOffline makes the store fail while the replica writes the node's state.
func TestANodeThatLeavesWhileItsStateIsToldIsOffline(t *testing.T) {
	onRig(t, func(r *rig) {
		r.change = func(o *Options) { o.Shared = true }
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n1")
		r.pass(2 * time.Second)
		fail := func(err error) {
			r.store.Fail(err)
		}
		n := r.nodes["n1"]
		n.mu.Lock()
		n.parameters = []nodeproto.ParameterReport{{ID: "x", Kind: "x", State: "Present"}}
		n.held = &nodeproto.Held{By: "eva", Since: time.Now()}
		n.mu.Unlock()
		r.pass(2500 * time.Millisecond) // it has reported, and its state is written within half a second
		fail(errors.New("no store"))
		r.pass(1500 * time.Millisecond)
		n.cut()
		r.pass(500 * time.Millisecond)
		fail(nil)
		r.pass(5 * time.Second)
		if state, why := r.state(b, "n1"); state != string(fleet.Offline) || strings.Contains(why, "eva") {
			t.Errorf("b says it is %s: %s", state, why)
		}
	})
}
