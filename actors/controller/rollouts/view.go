package rollouts

import (
	"fmt"
	"maps"
	"slices"

	"edgespan/config/fleet/rollout"
	"edgespan/config/httpapi/fleetapi"
)

// Listed is a rollout and how people see it.
type Listed struct {
	*Record
	Shown fleetapi.Rollout
}

// list are the rollouts that are kept, the newest first, or the one of a revision. Nobody
// changes them.
func (a *rolloutActor) list(q List) []Listed {
	out := []Listed{}
	for _, number := range slices.Backward(slices.Sorted(maps.Keys(a.kept))) {
		if !q.All && number != q.Number {
			continue
		}
		s := a.kept[number]
		out = append(out, Listed{s, a.shown(s)})
	}
	return out
}

// shown is a rollout as people see it.
func (a *rolloutActor) shown(s *Record) fleetapi.Rollout {
	out := fleetapi.Rollout{
		Revision: s.Revision, Message: s.Message, Author: s.Author, Began: s.Began, State: s.state(), Staged: true,
		Failed: map[string]string{}, Waiting: map[string]string{}, Batches: []fleetapi.RolloutBatch{},
	}
	if !s.Ended.IsZero() {
		ended := s.Ended
		out.Ended = &ended
	}
	for _, g := range s.Machine.Nodes {
		out.Nodes += len(g.Names)
		if g.State == rollout.Confirmed {
			out.Acked += len(g.Names)
			continue
		}
		for _, name := range g.Names {
			switch {
			case g.State == rollout.Failed:
				out.Failed[name] = g.Why
			case s.End != "":
				out.Waiting[name] = s.Left[name]
			case g.State == rollout.Waiting && g.Delayed:
				out.Waiting[name] = g.Why + "; " + a.waits(name)
			case g.State == rollout.Waiting:
				out.Waiting[name] = a.waits(name)
			default:
				out.Waiting[name] = string(g.State) + why(g.Why)
			}
		}
	}
	for _, p := range s.Machine.Progress() {
		out.Batches = append(out.Batches,
			fleetapi.RolloutBatch{Number: p.Batch, Nodes: p.Nodes, Acked: p.Confirmed, Failed: p.Failed, Out: p.Out})
	}
	return out
}

func (a *rolloutActor) waits(name string) string {
	if w := a.nodes[a.ids[name]]; w == nil || !w.online {
		return "it is offline"
	}
	return "its batch has not come"
}

func why(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// Next says what happens next.
func (l Listed) Next() string {
	out := len(l.Machine.Out)
	switch {
	case l.End == EndAborted:
		return "nothing, until the layers change: nodes that did not get it keep what they have"
	case l.End != "":
		return "nothing"
	case l.Machine.Paused:
		return fmt.Sprintf("nothing new, until it is resumed or aborted; it was paused by %s, and %d nodes of the batch "+
			"that is out have not answered", l.By, out)
	case l.Machine.Halted:
		return "nothing new, until it is resumed, aborted or reverted, or another change comes"
	case out > 0:
		return fmt.Sprintf("%d nodes of batch %d answer, within %v of its start", out, l.Machine.Number,
			l.Machine.Settings.Confirm)
	case l.Machine.Resting:
		return fmt.Sprintf("the next batch, %v after the one before", l.Machine.Settings.Rest)
	}
	return "the next batch"
}
