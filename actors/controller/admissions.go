package controller

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/actors/controller/nodes"
	"edgespan/actors/controller/rollouts"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/fleet/topology"
	"edgespan/config/kv"
)

// admissions is what the fleet knows of admission. While staged rollouts are on, a node's admission names the config
// that the store names and no other: a node that no rollout has reached gets nothing, whichever replica fails.
type admissions struct {
	staged.Staging
	open     map[string]staged.Admission // by id
	rollouts map[kv.Key]bool
	stands   map[string]bool
	outbox   map[kv.Key]bool // keys of commands to the rollouts and to the leader
	cause    staged.Cause    // the last revision that touched nodes
	topology *topology.Topology
	events   []kv.Event // not yet sent to /rollout
}

func newAdmissions() admissions {
	return admissions{open: map[string]staged.Admission{}, rollouts: map[kv.Key]bool{}, stands: map[string]bool{},
		outbox: map[kv.Key]bool{}}
}

// applyFlags applies the flags of the controller's config, before any node learns its desired config of the same
// revision.
func (a *fleetActor) applyFlags(c actor.Context, doc config.Object) {
	was := a.admissions.On
	a.admissions.Staging = staged.StagingOf(doc, a.d.Flags)
	if a.admissions.On == was {
		return
	}
	for id, r := range a.nodes {
		a.updateAdmission(c, id, r)
	}
}

// updateAdmission updates a node's admission from the store.
func (a *fleetActor) updateAdmission(c actor.Context, id string, r *record) {
	g := fleet.Admission{Staged: a.admissions.On, Open: a.admissions.open[id].Open}
	if r.handle.SetAdmission(g) {
		c.Send(r.pid, nodes.AdmissionChanged{})
	}
}

// storeRolloutKey stores the keys that staged rollouts use, and collects the events for /rollout.
func (a *fleetActor) storeRolloutKey(c actor.Context, e kv.Event, id string) {
	k := e.Entry.Key
	put := e.Kind == kv.EventPut
	switch {
	case history.InAdmissions.Has(k):
		if put {
			a.admissions.open[id] = storage.ValueOf[staged.Admission](e)
		} else {
			delete(a.admissions.open, id)
		}
		if r := a.nodes[id]; r != nil {
			a.updateAdmission(c, id, r)
		}
	case history.InRolloutProgress.Has(k):
		setKey(a.admissions.stands, id, put)
	case history.InRollouts.Has(k):
		setKey(a.admissions.rollouts, k, put)
	case history.InOutboxes.Has(k) && id == rollouts.Outbox:
		setKey(a.admissions.outbox, k, put)
	case history.InOutboxes.Has(k) && id == storage.LeaderOutbox:
		setKey(a.admissions.outbox, k, put)
		return // /leader gets them
	case history.InNodes.Has(k), history.InGenerations.Has(k), history.InOwners.Has(k):
	default:
		return
	}
	a.admissions.events = append(a.admissions.events, e)
}

func setKey[K comparable](in map[K]bool, k K, put bool) {
	if put {
		in[k] = true
	} else {
		delete(in, k)
	}
}

// forMissingRolloutKeys calls gone for each key of rollouts that is known: a listing may lack it.
func (a *fleetActor) forMissingRolloutKeys(gone func(kv.Key)) {
	for id := range a.admissions.open {
		gone(history.AdmissionKey(id))
	}
	for id := range a.admissions.stands {
		gone(history.ProgressKey(id))
	}
	for k := range a.admissions.rollouts {
		gone(k)
	}
	for k := range a.admissions.outbox { // or the next leader would run a command that no caller waits for
		gone(k)
	}
}

// notifyRollout sends /rollout the collected events, after the nodes have theirs.
func (a *fleetActor) notifyRollout(c actor.Context, m headRead, first bool) {
	touches := first || slices.ContainsFunc(m.diffs, func(d history.LayerDiff) bool {
		return d.Layer.Kind == history.Network || d.Layer.Kind == history.Node || d.Layer.Kind == history.Auto
	})
	if touches && m.record.Number > 0 {
		a.admissions.cause = staged.Cause{Number: m.record.Number, Author: m.record.Author, Message: m.record.Message}
	}
	c.Send(a.d.rollout, rollouts.Changes{Cause: a.admissions.cause, Topology: a.admissions.topology,
		Staging: a.admissions.Staging,
		Events:  a.admissions.events})
	a.admissions.events = nil
}
