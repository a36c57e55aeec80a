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

// CommandRollout runs an operator's command on a staged rollout. A revert aborts the rollout and reverts its revisions;
// the reverts go out in batches too.
func (c *Controller) CommandRollout(ctx context.Context, by fleetapi.Caller, number uint64,
	what fleetapi.RolloutCommand) error {
	s, err := c.stagedRollout(ctx, number)
	if err != nil {
		return err
	}
	revisions := slices.DeleteFunc(slices.Clone(s.Revisions), func(n uint64) bool { return n == 0 }) // not made by a write
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
		err := c.d.sendCommand(ctx, rollouts.Outbox,
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
	if s, err = c.stagedRollout(ctx, number); err != nil { // now with all nodes that it reached
		return fmt.Errorf("rollout aborted, nothing reverted: %w", err)
	}
	slices.Reverse(revisions)
	for _, n := range revisions {
		if !c.isDelivered(ctx, by, s, n) {
			continue
		}
		if _, err := c.Write(ctx, fleetapi.WriteRequest{Caller: by, Write: ops.Revert{Revision: n},
			Message: fmt.Sprintf("revert revision %d with its rollout", n)}); err != nil {
			return fmt.Errorf("rollout aborted, revision %d not reverted: %w", n, err)
		}
	}
	return nil
}

// mayRevert checks that the caller may revert the revisions, before the rollout is aborted for it. Other errors of a
// revert come from the revert itself.
func (c *Controller) mayRevert(ctx context.Context, by fleetapi.Caller, revisions []uint64) error {
	for _, n := range revisions {
		_, err := c.Write(ctx, fleetapi.WriteRequest{Caller: by, Write: ops.Revert{Revision: n}, DryRun: true})
		if errors.Is(err, fleetapi.ErrRole) {
			return err
		}
	}
	return nil
}

// isDelivered reports whether a rollout brings the changes of a revision to any node. The last revision does; an
// earlier one that no rollout carried does if it affects one of the rollout's nodes.
func (c *Controller) isDelivered(ctx context.Context, by fleetapi.Caller, s rollouts.Listed, n uint64) bool {
	if n == s.Revision {
		return true
	}
	w, err := c.Write(ctx, fleetapi.WriteRequest{Caller: by, Write: ops.Revert{Revision: n}, DryRun: true})
	if err != nil {
		return true // the revert itself reports the error
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

// stagedRollout returns one of the stored rollouts.
func (c *Controller) stagedRollout(ctx context.Context, number uint64) (rollouts.Listed, error) {
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

// ExplainRollout returns the decisions of a staged rollout, with their reasons.
func (c *Controller) ExplainRollout(ctx context.Context, number uint64) (fleetapi.RolloutDetail, error) {
	if err := c.d.checkUpToDate(ctx); err != nil {
		return fleetapi.RolloutDetail{}, err
	}
	s, err := c.stagedRollout(ctx, number)
	if err != nil {
		return fleetapi.RolloutDetail{}, err
	}
	d := fleetapi.RolloutDetail{Rollout: s.Shown, Next: s.Next()}
	for _, one := range s.Decisions {
		d.Decisions = append(d.Decisions, fleetapi.Verdict(one))
	}
	return d, nil
}

// withStaged merges the rollouts that this replica follows with the staged ones.
func (c *Controller) withStaged(ctx context.Context, all []fleetapi.Rollout) ([]fleetapi.Rollout, error) {
	answer, err := c.d.Request(ctx, c.d.rollout, rollouts.List{All: true})
	if err != nil {
		return nil, err
	}
	return lastRollouts(all, answer.([]rollouts.Listed)), nil
}

// lastRollouts returns the last rollouts of both kinds, newest first. For the same revision the staged one is shown, as
// it says more. Staged rollouts that have not ended are always included.
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
