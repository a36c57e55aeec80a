package controller

import (
	"slices"
	"testing"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers/metadata"
)

// A revert undoes what its rollout brought, but not what all nodes got at once while staged rollouts were off, nor what
// was there before the controller began.
func TestARevertTakesNothingOlderBack(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		onRig(t, func(r *rig) {
			r.change = func(o *Options) { o.E2E = map[string]*metadata.Metadata{ownFile: rolloutMetadata(t)} }
			c := r.start("a")
			r.network(c, `{"envParams":{"B":"first"}}`)
			r.fleetOf(c, 3)
			r.network(c, `{"envParams":{"B":"second"}}`)
			r.pass(10 * time.Second)
			r.flag(c, "true")
			r.pass(10 * time.Second)
			if restarted {
				r.stop("a")
				c = r.start("a")
				for _, n := range r.nodes {
					n.connect(c)
				}
				r.pass(10 * time.Second)
			}
			r.network(c, `{"envParams":{"B":"third"}}`)
			r.pass(time.Minute)
			r.is(c, "done", "third", "n0 n1 n2")
			all, err := c.Rollouts(r.Context())
			if err != nil || len(all) == 0 {
				t.Fatal(err)
			}
			r.rollout(c, all[0].Revision, fleetapi.RevertRollout)
			r.pass(time.Minute)
			editions, err := c.History(r.Context(), fleetapi.HistoryQuery{})
			if err != nil {
				t.Fatal(err)
			}
			reverts := slices.DeleteFunc(editions,
				func(e fleetapi.Edition) bool { return len(e.Message) < 6 || e.Message[:6] != "revert" })
			if len(reverts) != 1 {
				t.Errorf("restarted %v: %d revisions are reverted: %+v", restarted, len(reverts), reverts)
			}
			for name := range r.nodes {
				r.wants(c, name, "InSync")
				if d := r.config(c, name); d != "second" {
					t.Errorf("restarted %v: %s has %s", restarted, name, d)
				}
			}
		})
	}
}

// config returns B in a node's config.
func (r *rig) config(c *Controller, name string) string {
	r.Helper()
	d, err := c.Config(r.Context(), ops.ConfigQuery{Node: name})
	if err != nil {
		r.Fatal(err)
	}
	env, _ := d.Object["envParams"].(config.Object)
	text, _ := env["B"].(string)
	return text
}

// Revisions before a rollout that touch none of its nodes are not reverted with it.
func TestARevertTakesNothingElseBack(t *testing.T) {
	onRig(t, func(r *rig) {
		r.change = func(o *Options) { o.E2E = map[string]*metadata.Metadata{ownFile: rolloutMetadata(t)} }
		c := r.start("a")
		r.network(c, `{"envParams":{"B":"first"}}`)
		r.fleetOf(c, 2)
		r.join(c, "late") // it has joined and never connected
		r.flag(c, "true")
		r.pass(10 * time.Second)
		own := func(node, text string) {
			r.write(c, ops.SetNodes{Overrides: r.doc(`{"` + node + `":{"envParams":{"B":"` + text + `"}}}`)})
			r.pass(2 * time.Second)
		}
		own("late", "its own")
		own("n0", "one")
		r.pass(time.Minute)
		d := r.is(c, "done", "one", "n0")
		r.rollout(c, d.Revision, fleetapi.RevertRollout)
		r.pass(time.Minute)
		s, err := history.Head(storage.NewReader(r.Context(), r.store))
		if err != nil {
			t.Fatal(err)
		}
		if v, err := s.Layer(history.Layer{Kind: history.Node, Name: "late"}); err != nil || v.Document == nil {
			t.Errorf("what another node was given is taken back: %v", err)
		}
		for name, want := range map[string]string{"n0": "first", "n1": "first"} {
			if got := r.config(c, name); got != want {
				t.Errorf("%s has %s, want %s", name, got, want)
			}
		}
	})
}
