package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/operate"
	"edgespan/config/revision"
	"edgespan/config/rollout"
)

// rolloutMailbox is the mailbox of the leader, whoever that is.
const rolloutMailbox = "rollout"

// command takes a command of an operator, on the replica that leads. One that is done is not
// done again where the letter is still there: the leader may have died before it answered, or
// the store lost its answer to the leader.
func (a *rolloutActor) command(k revision.Key, l letter) {
	if a.leads == nil {
		return
	}
	delete(a.letters, k)
	if s := a.rollout(l.Rollout); s == nil || !slices.Contains(s.Obeyed, k) {
		if why := a.obey(l); why != "" {
			a.answer(answer{k, l, why})
			return
		}
		a.now.obeyed(k)
	}
	a.stir(true)
	a.answers = append(a.answers, answer{key: k, letter: l})
}

// rollout is the one of a revision, nil for none.
func (a *rolloutActor) rollout(number uint64) *stagedRollout {
	if a.now != nil && a.now.Revision == number {
		return a.now
	}
	return a.kept[number]
}

// obey does what an operator wants, or says why not.
func (a *rolloutActor) obey(l letter) (refused string) {
	s := a.now
	switch {
	case s == nil || s.Revision != l.Rollout:
		if s = a.rollout(l.Rollout); s == nil {
			return "there is no staged rollout of this revision"
		}
		fallthrough
	case s.End != "":
		out := fmt.Sprintf("it has ended: it is %s since %s", s.End, s.Ended.Format(time.RFC3339))
		if s.By != "" {
			out += ", by " + s.By
		}
		return out
	}
	now := a.d.Now()
	switch what := fleetapi.RolloutCommand(l.What); what {
	case fleetapi.PauseRollout:
		if a.machine.Paused() {
			return "it is paused already, by " + s.By
		}
		s.By = author(l.By)
		s.decide(now, s.By, "paused", "the batch that is out goes on")
		a.step(rollout.Pause{})
	case fleetapi.ResumeRollout:
		if !a.machine.Paused() && !a.machine.IsHalted() {
			return "it is running"
		}
		s.By = ""
		s.decide(now, author(l.By), "resumed", "")
		a.step(rollout.Resume{})
	case fleetapi.AbortRollout:
		s.By, s.End = author(l.By), endAborted
		for _, w := range a.nodes {
			s.Barrier = max(s.Barrier, w.since)
		}
		a.step(rollout.Abort{})
	default:
		return fmt.Sprintf("%q is no command of a rollout", what)
	}
	return ""
}

// answer tells the replica that asked.
func (a *rolloutActor) answer(one answer) {
	l := one.letter
	l.Answered, l.Refused = true, one.refused
	lease := a.d.leaseID()
	if lease == 0 {
		return // who asked gives up
	}
	there := revision.Exists(one.key)
	a.d.saver.add(entry{op: revision.PutLeased(one.key, encode(l), lease), compare: &there})
}

// CommandRollout does what an operator wants of a staged rollout. A revert aborts it, and takes
// back what its revisions have changed: that goes out in batches itself.
func (c *Controller) CommandRollout(ctx context.Context, by fleetapi.Caller, number uint64, what fleetapi.RolloutCommand) error {
	s, err := c.staged(ctx, number)
	if err != nil {
		return err
	}
	revisions := slices.DeleteFunc(slices.Clone(s.Revisions), func(n uint64) bool { return n == 0 }) // which nobody wrote
	if what == fleetapi.RevertRollout && len(revisions) == 0 {
		return fmt.Errorf("revert rollout %d: %w: no write made it: its base files as they were before, or abort, are allowed", number, fleetapi.ErrRefused)
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
		err := c.d.mailTo(ctx, rolloutMailbox, letter{From: c.d.Replica, By: by, What: fleetapi.Command(send), Rollout: number})
		if errors.Is(err, fleetapi.ErrRefused) {
			return fmt.Errorf("%s rollout %d: %w", what, number, err)
		}
		if err != nil || what != fleetapi.RevertRollout {
			return err
		}
	} else if s.End == endSuperseded || s.End == endReleased {
		return fmt.Errorf("revert rollout %d: %w: it is %s: the history reverts single revisions", number, fleetapi.ErrRefused, s.End)
	}
	if s, err = c.staged(ctx, number); err != nil { // with the nodes that it has come to
		return fmt.Errorf("the rollout is aborted, nothing is reverted: %w", err)
	}
	slices.Reverse(revisions)
	for _, n := range revisions {
		if !c.brought(ctx, by, s, n) {
			continue
		}
		if _, err := c.Write(ctx, fleetapi.WriteRequest{Caller: by, Write: operate.Revert{Revision: n}, Message: fmt.Sprintf("revert revision %d with its rollout", n)}); err != nil {
			return fmt.Errorf("the rollout is aborted, revision %d is not reverted: %w", n, err)
		}
	}
	return nil
}

// mayRevert finds out whether a caller may take revisions back, before anything is aborted for it.
// What else is in the way of one is told by the revert itself.
func (c *Controller) mayRevert(ctx context.Context, by fleetapi.Caller, revisions []uint64) error {
	for _, n := range revisions {
		_, err := c.Write(ctx, fleetapi.WriteRequest{Caller: by, Write: operate.Revert{Revision: n}, DryRun: true})
		if errors.Is(err, fleetapi.ErrRole) {
			return err
		}
	}
	return nil
}

// brought says whether a rollout brings what a revision changed to any node: the last revision
// does, and of those before that no rollout took up the ones that count for a node of it.
func (c *Controller) brought(ctx context.Context, by fleetapi.Caller, s listedRollout, n uint64) bool {
	if n == s.Revision {
		return true
	}
	w, err := c.Write(ctx, fleetapi.WriteRequest{Caller: by, Write: operate.Revert{Revision: n}, DryRun: true})
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
	return slices.ContainsFunc(w.Peers, touches) || slices.ContainsFunc(w.Effects, func(e fleetapi.Effect) bool { return slices.ContainsFunc(e.Nodes, touches) })
}

// staged is a rollout that is kept.
func (c *Controller) staged(ctx context.Context, number uint64) (listedRollout, error) {
	a, err := c.d.ask(ctx, c.d.rollout, listStaged{number: number})
	if err != nil {
		return listedRollout{}, err
	}
	if all := a.([]listedRollout); len(all) > 0 {
		return all[0], nil
	}
	return listedRollout{}, &operate.NotFoundError{What: fmt.Sprintf("staged rollout of revision %d", number), Allowed: "the last ones are kept"}
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
	return fleetapi.RolloutDetail{Rollout: s.shown, Next: s.next(), Decisions: slices.Clone(s.Decisions)}, nil
}
