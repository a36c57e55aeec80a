package controller

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
	"edgespan/config/layers/metadata"
)

// hourly is a rig whose wall clock advances by hours.
type hourly struct {
	*rig
	hours atomic.Int64
}

func (r *hourly) later() func() time.Time {
	return func() time.Time { return time.Now().Add(time.Duration(r.hours.Load()) * time.Hour) }
}

func onHourlyRig(t *testing.T, f func(*hourly)) { onRig(t, func(r *rig) { f(&hourly{rig: r}) }) }

func TestTheHistoryIsPruned(t *testing.T) {
	onHourlyRig(t, func(r *hourly) {
		r.change = func(o *Options) {
			o.Now = r.later()
			o.E2E = map[string]*metadata.Metadata{ownFile: rolloutMetadata(t)}
		}
		a, b := r.start("a"), r.start("b")
		r.fleetOf(a, 1)
		for i := range 60 {
			r.hours.Add(1)
			r.network(a, fmt.Sprintf(`{"envParams":{"B":"%d"}}`, i))
		}
		objects := func() int {
			page, err := r.store.List(r.Context(), "objects/", kv.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return len(page.Entries)
		}
		head, err := a.History(r.Context(), fleetapi.HistoryQuery{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		newest, had := head[0].Number, objects()
		dry, err := a.PruneHistory(r.Context(), alice, r.later()().Add(-30*time.Hour), true)
		if err != nil || dry.From != newest-30 || dry.Revisions == 0 || objects() != had {
			t.Fatalf("dry: %+v, %v, of %d", dry, err, newest)
		}
		p, err := a.PruneHistory(r.Context(), alice, r.later()().Add(-30*time.Hour), false)
		if err != nil || p.From != dry.From || p.Revisions != dry.Revisions || p.Objects != dry.Objects ||
			objects() != had-p.Objects || p.Objects < 30 {
			t.Fatalf("%+v, %v; %d objects of %d", p, err, objects(), had)
		}
		for _, c := range []*Controller{a, b} {
			all, err := c.History(r.Context(), fleetapi.HistoryQuery{Limit: 1000})
			if err != nil || len(all) != 31 || len(all[29].Layers) != 1 || len(all[30].Layers) != 0 {
				t.Fatalf("%d revisions, %v", len(all), err)
			}
			if _, err := c.Diff(r.Context(), 3, newest); !errors.As(err, new(*ops.NotFoundError)) {
				t.Errorf("a diff with what is gone: %v", err)
			}
			if _, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice,
				Write: ops.Restore{Revision: 3}}); !errors.As(err, new(*ops.NotFoundError)) {
				t.Errorf("what is gone is brought back: %v", err)
			}
		}
		r.write(b, ops.Restore{Revision: p.From})
		r.write(a, ops.Revert{Revision: newest + 1})
		r.pass(time.Minute)
		r.wants(a, "n0", "InSync")
		layer := history.Layer{Kind: history.Network}
		if all, err := a.History(r.Context(), fleetapi.HistoryQuery{Layer: &layer, Limit: 1000}); err != nil ||
			len(all) < 30 {
			t.Errorf("%d editions, %v", len(all), err)
		}
	})
}

// A staged rollout under way can be reverted whatever is pruned meanwhile.
func TestAPruneKeepsWhatARolloutNeeds(t *testing.T) {
	onHourlyRig(t, func(r *hourly) {
		r.change = func(o *Options) {
			o.Now = r.later()
			o.E2E = map[string]*metadata.Metadata{ownFile: rolloutMetadata(t)}
		}
		c := r.start("a")
		r.network(c, `{"envParams":{"B":"first"}}`)
		r.fleetOf(c, 5)
		r.flag(c, "true")
		r.pass(10 * time.Second)
		r.behave("n0", silent)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(2 * time.Second)
		number := r.newest(c).Revision
		r.rollout(c, number, fleetapi.PauseRollout)
		for i := range 30 { // of a layer that belongs to no node
			r.hours.Add(1)
			r.write(c, ops.SetTopology{Document: r.doc(fmt.Sprintf(`{"name":"t%d","nodes":[],"links":[],"sites":[]}`, i))})
		}
		p, err := c.PruneHistory(r.Context(), alice, r.later()().Add(-time.Hour), false)
		if err != nil || p.From != number-1 {
			t.Fatalf("%+v, %v: the rollout of revision %d is paused", p, err, number)
		}
		r.behave("n0", speaks)
		r.rollout(c, number, fleetapi.RevertRollout)
		r.pass(time.Minute)
		for name := range r.nodes {
			if got := r.config(c, name); got != "first" {
				t.Errorf("%s has %s", name, got)
			}
		}
	})
}
