package rollouts

import (
	"maps"
	"slices"

	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/httpapi/fleetapi"
)

// Listed is a rollout, and its form in the API.
type Listed struct {
	*staged.RolloutRecord
	Shown fleetapi.Rollout
}

// list returns the stored rollouts, newest first, or the one of a revision. They are read-only.
func (a *rolloutActor) list(q List) []Listed {
	out := []Listed{}
	for _, number := range slices.Backward(slices.Sorted(maps.Keys(a.kept))) {
		if !q.All && number != q.Number {
			continue
		}
		s := a.kept[number]
		out = append(out, Listed{s, a.viewOf(s)})
	}
	return out
}

// viewOf returns a rollout in its form of the API.
func (a *rolloutActor) viewOf(s *staged.RolloutRecord) fleetapi.Rollout {
	c := s.Counts(func(name string) bool {
		n := a.named(name)
		return n != nil && n.Online
	})
	out := fleetapi.Rollout{
		Revision: s.Revision, Message: s.Message, Author: s.Author, Began: s.Began, State: s.State(), Staged: true,
		Nodes: c.Nodes, Acked: c.Acked, Failed: c.Failed, Waiting: c.Waiting, Batches: []fleetapi.RolloutBatch{},
	}
	if !s.Ended.IsZero() {
		ended := s.Ended
		out.Ended = &ended
	}
	for _, p := range s.Machine.Progress() {
		out.Batches = append(out.Batches,
			fleetapi.RolloutBatch{Number: p.Batch, Nodes: p.Nodes, Acked: p.Confirmed, Failed: p.Failed, Out: p.Out})
	}
	return out
}
