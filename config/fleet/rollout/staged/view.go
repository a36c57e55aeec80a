package staged

import (
	"fmt"

	"edgespan/config/fleet/rollout"
)

// Counts counts the nodes of a rollout, and those without the config by reason.
type Counts struct {
	Nodes, Acked    int
	Failed, Waiting map[string]string
}

// Counts counts the nodes, by whether one is online.
func (r *RolloutRecord) Counts(online func(name string) bool) Counts {
	c := Counts{Failed: map[string]string{}, Waiting: map[string]string{}}
	waits := func(name string) string {
		if !online(name) {
			return "it is offline"
		}
		return "its batch has not come"
	}
	for _, g := range r.Machine.Nodes {
		c.Nodes += len(g.Names)
		if g.State == rollout.Confirmed {
			c.Acked += len(g.Names)
			continue
		}
		for _, name := range g.Names {
			switch {
			case g.State == rollout.Failed:
				c.Failed[name] = g.Why
			case r.End != "":
				c.Waiting[name] = r.Left[name]
			case g.State == rollout.Waiting && g.Delayed:
				c.Waiting[name] = g.Why + "; " + waits(name)
			case g.State == rollout.Waiting:
				c.Waiting[name] = waits(name)
			default:
				c.Waiting[name] = string(g.State) + formatReason(g.Why)
			}
		}
	}
	return c
}

func formatReason(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// Next describes the next step.
func (r *RolloutRecord) Next() string {
	out := len(r.Machine.Out)
	switch {
	case r.End == EndAborted:
		return "nothing, until the layers change: nodes that did not get it keep what they have"
	case r.End != "":
		return "nothing"
	case r.Machine.Paused:
		return fmt.Sprintf("nothing new, until it is resumed or aborted; it was paused by %s, and %d nodes of the batch "+
			"that is out have not answered", r.By, out)
	case r.Machine.Halted:
		return "nothing new, until it is resumed, aborted or reverted, or another change comes"
	case out > 0:
		return fmt.Sprintf("%d nodes of batch %d answer, within %v of its start", out, r.Machine.Number,
			r.Machine.Settings.Confirm)
	case r.Machine.Resting:
		return fmt.Sprintf("the next batch, %v after the one before", r.Machine.Settings.Rest)
	}
	return "the next batch"
}
