package rollouts

import (
	"maps"
	"slices"

	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/httpapi/fleetapi"
)

// Listed is a stored rollout, and the form in which the API shows it.
type Listed struct {
	*staged.RolloutRecord
	Shown fleetapi.Rollout
}

// listRollouts returns the stored rollouts, newest first, or the one of a revision. The caller must not
// change them.
func (a *rolloutActor) listRollouts(q List) []Listed {
	out := []Listed{}
	for _, number := range slices.Backward(slices.Sorted(maps.Keys(a.storedRecords))) {
		if !q.All && number != q.Number {
			continue
		}
		record := a.storedRecords[number]
		out = append(out, Listed{record, a.viewRollout(record)})
	}
	return out
}

// viewRollout returns a rollout in the form in which the API shows it. The API says acked for confirmed; NodeAcked of
// config/fleet/rollout is an earlier step, the receipt.
func (a *rolloutActor) viewRollout(s *staged.RolloutRecord) fleetapi.Rollout {
	c := s.Counts(func(name string) bool {
		n := a.nodeByName(name)
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
