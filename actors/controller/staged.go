package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"edgespan/actors/controller/rollouts"
	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/httpapi/fleetapi"
)

// CommandRollout does what an operator wants of a staged rollout. A revert aborts it, and takes
// back what its revisions have changed: that goes out in batches itself.
func (c *Controller) CommandRollout(ctx context.Context, by fleetapi.Caller, number uint64,
	what fleetapi.RolloutCommand) error {
	s, err := c.staged(ctx, number)
	if err != nil {
		return err
	}
	revisions := slices.DeleteFunc(slices.Clone(s.Revisions), func(n uint64) bool { return n == 0 }) // which nobody wrote
	if what == fleetapi.RevertRollout && len(revisions) == 0 {
		const allowed = "restore its previous base files, or run 'edgespan rollout abort' without --revert"
		return fmt.Errorf("revert rollout %d: %w: not made by a write: %s", number, fleetapi.ErrRefused, allowed)
	}
	if what == fleetapi.RevertRollout {
		if err := c.mayRevert(ctx, by, revisions); err != nil {
			return fmt.Errorf("revert rollout %d: %w", number, err)
		}
	}
	send := what
	if what == fleetapi.RevertRollout {
		send = fleetapi.AbortRollout
	}
	if what != fleetapi.RevertRollout || s.End == "" {
		err := c.d.mailTo(ctx, rollouts.Outbox,
			storage.RemoteCommand{From: c.d.Replica, By: by, What: fleetapi.Command(send), Rollout: number})
		if errors.Is(err, fleetapi.ErrRefused) {
			return fmt.Errorf("%s rollout %d: %w", what, number, err)
		}
		if err != nil || what != fleetapi.RevertRollout {
			return err
		}
	} else if s.End == staged.EndSuperseded || s.End == staged.EndReleased {
		return fmt.Errorf("revert rollout %d: %w: it is %s: run 'edgespan history revert' to revert single revisions", number,
			fleetapi.ErrRefused, s.End)
	}
	if s, err = c.staged(ctx, number); err != nil { // with the nodes that it has come to
		return fmt.Errorf("rollout aborted, nothing reverted: %w", err)
	}
	slices.Reverse(revisions)
	for _, n := range revisions {
		if !c.brought(ctx, by, s, n) {
			continue
		}
		if _, err := c.Write(ctx, fleetapi.WriteRequest{Caller: by, Write: ops.Revert{Revision: n},
			Message: fmt.Sprintf("revert revision %d with its rollout", n)}); err != nil {
			return fmt.Errorf("rollout aborted, revision %d not reverted: %w", n, err)
		}
	}
	return nil
}

// mayRevert finds out whether a caller may take revisions back, before anything is aborted for it.
// What else is in the way of one is told by the revert itself.
func (c *Controller) mayRevert(ctx context.Context, by fleetapi.Caller, revisions []uint64) error {
	for _, n := range revisions {
		_, err := c.Write(ctx, fleetapi.WriteRequest{Caller: by, Write: ops.Revert{Revision: n}, DryRun: true})
		if errors.Is(err, fleetapi.ErrRole) {
			return err
		}
	}
	return nil
}

// brought says whether a rollout brings what a revision changed to any node: the last revision
// does, and of those before that no rollout took up the ones that count for a node of it.
func (c *Controller) brought(ctx context.Context, by fleetapi.Caller, s rollouts.Listed, n uint64) bool {
	if n == s.Revision {
		return true
	}
	w, err := c.Write(ctx, fleetapi.WriteRequest{Caller: by, Write: ops.Revert{Revision: n}, DryRun: true})
	if err != nil {
		return true // the revert tells it
	}
	has := map[string]bool{}
	for _, g := range s.Machine.Nodes {
		for _, name := range g.Names {
			has[name] = true
		}
	}
	touches := func(name string) bool { return has[name] }
	return slices.ContainsFunc(w.Peers, touches) ||
		slices.ContainsFunc(w.Effects, func(e fleetapi.Effect) bool { return slices.ContainsFunc(e.Nodes, touches) })
}

// staged is a rollout that is kept.
func (c *Controller) staged(ctx context.Context, number uint64) (rollouts.Listed, error) {
	a, err := c.d.Request(ctx, c.d.rollout, rollouts.List{Number: number})
	if err != nil {
		return rollouts.Listed{}, err
	}
	if all := a.([]rollouts.Listed); len(all) > 0 {
		return all[0], nil
	}
	return rollouts.Listed{}, &ops.NotFoundError{What: fmt.Sprintf("staged rollout of revision %d", number),
		Allowed: "'edgespan rollout list' lists the last ones"}
}

// ExplainRollout is what was decided of a staged rollout, and why.
func (c *Controller) ExplainRollout(ctx context.Context, number uint64) (fleetapi.RolloutDetail, error) {
	if err := c.d.upToDate(ctx); err != nil {
		return fleetapi.RolloutDetail{}, err
	}
	s, err := c.staged(ctx, number)
	if err != nil {
		return fleetapi.RolloutDetail{}, err
	}
	d := fleetapi.RolloutDetail{Rollout: s.Shown, Next: s.Next()}
	for _, one := range s.Decisions {
		d.Decisions = append(d.Decisions, fleetapi.Verdict(one))
	}
	return d, nil
}

// withStaged are the rollouts that this replica follows and those that are staged.
func (c *Controller) withStaged(ctx context.Context, all []fleetapi.Rollout) ([]fleetapi.Rollout, error) {
	answer, err := c.d.Request(ctx, c.d.rollout, rollouts.List{All: true})
	if err != nil {
		return nil, err
	}
	return lastRollouts(all, answer.([]rollouts.Listed)), nil
}

// lastRollouts are the last ones of both kinds, the newest first: of one revision the staged one
// says more. A staged one that has not ended is among them, however many came after it.
func lastRollouts(all []fleetapi.Rollout, staged []rollouts.Listed) []fleetapi.Rollout {
	by := map[uint64]fleetapi.Rollout{}
	for _, r := range all {
		by[r.Revision] = r
	}
	for _, s := range staged {
		by[s.Revision] = s.Shown
	}
	out := make([]fleetapi.Rollout, 0, len(by))
	for _, number := range slices.Backward(slices.Sorted(maps.Keys(by))) {
		if r := by[number]; len(out) < maxRollouts || r.Staged && r.Ended == nil {
			out = append(out, r)
		}
	}
	return out
}
