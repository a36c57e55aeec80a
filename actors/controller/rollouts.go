package controller

import (
	"time"

	"edgespan/actors/controller/nodes"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/httpapi/fleetapi"
)

// maxRollouts is how many of the last revisions are followed.
const maxRollouts = 10

type (
	// listRollouts asks for the last revisions on their way to the nodes.
	listRollouts struct{}
)

// rolloutProgress is a revision on its way to the nodes that it touches.
type rolloutProgress struct {
	by         history.RevisionRecord
	began      time.Time
	ended      time.Time
	nodes      int
	acked      int
	superseded int                     // nodes that got a newer config before they reached this one
	left       map[string]fleet.Digest // by name: the configs that nodes have not reached yet
}

// rollOut starts to follow a revision that changed the configs of the named nodes.
func (a *fleetActor) rollOut(by *history.RevisionRecord, names []string) {
	if by == nil {
		return
	}
	now := a.d.Now()
	r := &rolloutProgress{by: *by, began: now, nodes: len(names), left: make(map[string]fleet.Digest, len(names))}
	for _, name := range names {
		for _, older := range a.rollouts {
			if _, waits := older.left[name]; waits {
				older.superseded++
				older.done(name, now)
			}
		}
		r.left[name] = a.nodes[a.ids[name]].sent.Digest
	}
	r.done("", now)
	a.rollouts = append(a.rollouts, r)
	if len(a.rollouts) > maxRollouts {
		a.rollouts = a.rollouts[1:]
	}
}

func (r *rolloutProgress) done(name string, now time.Time) {
	delete(r.left, name)
	if len(r.left) == 0 && r.ended.IsZero() {
		r.ended = now
		r.left = nil
	}
}

// noteReached records that a node runs its desired config.
func (a *fleetActor) noteReached(m nodes.Reached) {
	for _, r := range a.rollouts {
		if d, waits := r.left[m.Name]; waits && d == m.Digest {
			r.acked++
			r.done(m.Name, a.d.Now())
		}
	}
}

// listRollouts lists the followed revisions, newest first.
func (a *fleetActor) listRollouts() []fleetapi.Rollout {
	out := make([]fleetapi.Rollout, 0, len(a.rollouts))
	for i := len(a.rollouts) - 1; i >= 0; i-- {
		r := a.rollouts[i]
		one := fleetapi.Rollout{
			Revision: r.by.Number, Message: r.by.Message, Author: r.by.Author, Began: r.began.UTC(), State: "running",
			Nodes: r.nodes, Acked: r.acked, Failed: map[string]string{}, Waiting: map[string]string{},
		}
		if !r.ended.IsZero() {
			ended := r.ended.UTC()
			one.Ended, one.State = &ended, "done"
			if r.superseded > 0 {
				one.State = "superseded"
			}
		}
		for name := range r.left {
			s := a.d.dir.nodeByName(name)
			if s == nil {
				continue
			}
			switch row := s.Row(); {
			case row == nil:
				one.Waiting[name] = string(fleet.Pending)
			case row.Key.State == fleet.RolledBack:
				one.Failed[name] = row.Why
			default:
				one.Waiting[name] = string(row.Key.State) + ": " + row.Why
			}
		}
		out = append(out, one)
	}
	return out
}
