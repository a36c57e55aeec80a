package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"edgespan/config/httpapi"
	"edgespan/config/httpapi/fleetapi"
)

// rolloutSpecs are the commands of changes on their way to the nodes.
var rolloutSpecs = []fleetSpec{{use: "rollout", short: "The last changes on their way to the nodes", sub: []fleetSpec{
	{use: "list", short: "List the last changes, the newest first", args: exactArgs(0, "none"), forms: tableForms, run: listRollouts},
	{
		use: "show REVISION", short: "Show which nodes have a change, which failed, what the others wait for, and how far its batches are",
		args: exactArgs(1, "one REVISION"), forms: tableForms, run: showRollout,
	},
	{
		use: "explain REVISION", short: "Show what was decided of a staged rollout, why, and what comes next",
		args: exactArgs(1, "one REVISION"), forms: tableForms, run: explainRollout,
	},
	rolloutSpec("pause REVISION", "Hold a staged rollout: the batch that is out goes on, no other follows", fleetapi.PauseRollout, "paused"),
	rolloutSpec("resume REVISION", "Go on after a pause, or after too many nodes failed", fleetapi.ResumeRollout, "resumed"),
	{
		use: "abort REVISION [--revert]", short: "End a staged rollout: no more node gets the change",
		long: `End a staged rollout. Nodes that do not have the change keep what they have until the layers change.

--revert takes back what the rollout's revisions changed, as history revert does: a rollout of its
own brings the nodes that have the change back, in batches too.`,
		args: exactArgs(1, "one REVISION"),
		flags: func(cmd *cobra.Command, c *fleetCall) {
			cmd.Flags().BoolVar(&c.revert, "revert", false, "take the change back where it is")
		},
		run: func(c *fleetCall) error {
			if c.revert {
				return c.commandRollout(fleetapi.RevertRollout, "aborted and reverted")
			}
			return c.commandRollout(fleetapi.AbortRollout, "aborted")
		},
	},
	{
		use: "watch REVISION", short: "Print the decisions of a staged rollout as they are made, until it ends",
		long: `Print what is decided of a staged rollout and how far it has come, a line each, until it ends.
It exits 6 where nodes failed or were not reached, and where it has not ended after --wait.`,
		args: exactArgs(1, "one REVISION"), run: watchRollout,
		flags: func(cmd *cobra.Command, c *fleetCall) {
			cmd.Flags().DurationVar(&c.patience, "wait", 24*time.Hour, "how long to watch")
		},
	},
}}}

func rolloutSpec(use, short string, what fleetapi.RolloutCommand, done string) fleetSpec {
	return fleetSpec{use: use, short: short, args: exactArgs(1, "one REVISION"), run: func(c *fleetCall) error { return c.commandRollout(what, done) }}
}

func (c *fleetCall) commandRollout(what fleetapi.RolloutCommand, done string) error {
	n, err := revisionOf("REVISION", c.args[0])
	if err != nil {
		return err
	}
	if err := c.client.CommandRollout(c.ctx, n, what); err != nil {
		return err
	}
	c.a.say("rollout %d: %s", n, done)
	return nil
}

func listRollouts(c *fleetCall) error {
	all, err := c.client.Rollouts(c.ctx)
	if err != nil {
		return err
	}
	s := shown{data: orEmpty(all), empty: "no rollouts"}
	t := &table{head: []string{"REVISION", "STATE", "NODES", "ACKED", "FAILED", "WAITING", "BEGAN", "AUTHOR", "MESSAGE"}, wide: c.output == "wide"}
	for _, r := range all {
		s.names = append(s.names, fmt.Sprint(r.Revision))
		t.add(fmt.Sprint(r.Revision), r.State, fmt.Sprint(r.Nodes), fmt.Sprint(r.Acked), fmt.Sprint(max(r.FailedNodes, len(r.Failed))), fmt.Sprint(max(r.WaitingNodes, len(r.Waiting))),
			moment(&r.Began), r.Author, r.Message)
	}
	s.table = func(bool) *table { return t }
	return c.a.show(s, c.output)
}

func showRollout(c *fleetCall) error {
	n, err := revisionOf("REVISION", c.args[0])
	if err != nil {
		return err
	}
	r, err := c.client.Rollout(c.ctx, n)
	if err != nil {
		return err
	}
	failed, waiting := slices.Sorted(maps.Keys(r.Failed)), slices.Sorted(maps.Keys(r.Waiting))
	t := &table{head: []string{"NODE", "STATE", "ERROR"}, wide: c.output == "wide"}
	for _, name := range failed {
		t.add(name, "failed", r.Failed[name])
	}
	for _, name := range waiting {
		t.add(name, "waiting", r.Waiting[name])
	}
	s := shown{data: r, names: append(failed, waiting...), table: func(bool) *table { return t }, empty: "no node failed or waits"}
	if err := c.a.show(s, c.output); err != nil {
		return err
	}
	for _, b := range r.Batches {
		c.a.say("%s", batchLine(b))
	}
	c.a.say("%s", rolloutLine(r))
	return nil
}

// batchLine is how far one batch is, in one line.
func batchLine(b fleetapi.RolloutBatch) string {
	return fmt.Sprintf("batch %d: %d of %s acked, %d failed, %d not answered", b.Number, b.Acked, many(b.Nodes, "node"), b.Failed, b.Out)
}

// rolloutLine is the same of a whole rollout.
func rolloutLine(r fleetapi.Rollout) string {
	return printable(fmt.Sprintf("revision %d, %s: %d of %s acked, %d failed, %d waiting",
		r.Revision, r.State, r.Acked, many(r.Nodes, "node"), len(r.Failed), len(r.Waiting)))
}

func explainRollout(c *fleetCall) error {
	n, err := revisionOf("REVISION", c.args[0])
	if err != nil {
		return err
	}
	d, err := c.client.ExplainRollout(c.ctx, n)
	if err != nil {
		return err
	}
	t := &table{head: []string{"TIME", "BY", "DECISION", "WHY"}, wide: c.output == "wide"}
	s := shown{data: d, empty: "nothing was decided", table: func(bool) *table { return t }}
	for _, v := range d.Decisions {
		s.names = append(s.names, v.What)
		t.add(moment(&v.At), cmp.Or(v.By, "controller"), v.What, v.Why)
	}
	if err := c.a.show(s, c.output); err != nil {
		return err
	}
	c.a.say("%s; next: %s", rolloutLine(d.Rollout), printable(d.Next))
	return nil
}

// rolloutPoll is how often the controller is asked for the progress of a rollout.
const rolloutPoll = time.Second

func watchRollout(c *fleetCall) error {
	n, err := revisionOf("REVISION", c.args[0])
	if err != nil {
		return err
	}
	tick, over := time.NewTicker(rolloutPoll), time.NewTimer(c.patience)
	defer tick.Stop()
	defer over.Stop()
	var told time.Time // of the last decision
	for line := ""; ; {
		d, err := c.client.ExplainRollout(c.ctx, n)
		if err != nil {
			return err
		}
		for _, v := range d.Decisions {
			if !v.At.After(told) {
				continue
			}
			if err := c.line("%s  %s: %s", moment(&v.At), v.What, cmp.Or(v.Why, "by "+cmp.Or(v.By, "the controller"))); err != nil {
				return err
			}
		}
		if k := len(d.Decisions); k > 0 {
			told = d.Decisions[k-1].At
		}
		if now := rolloutLine(d.Rollout); now != line {
			line = now
			if err := c.line("%s", line); err != nil {
				return err
			}
		}
		if d.Ended != nil {
			return endOf(d.Rollout)
		}
		select {
		case <-over.C:
			return &httpapi.Incomplete{Missing: []string{"the rollout has not ended after " + c.patience.String()}}
		case <-c.ctx.Done():
			return &httpapi.Incomplete{Missing: []string{"the rollout has not ended"}}
		case <-tick.C:
		}
	}
}

func (c *fleetCall) line(format string, args ...any) error {
	_, err := fmt.Fprintln(c.a.Out, printable(fmt.Sprintf(format, args...)))
	return err
}

// endOf is no error where every node has the change.
func endOf(r fleetapi.Rollout) error {
	var missing []string
	if n := len(r.Failed); n > 0 {
		missing = append(missing, many(n, "node")+" failed")
	}
	if n := len(r.Waiting); n > 0 {
		missing = append(missing, many(n, "node")+" not reached")
	}
	if missing != nil {
		return &httpapi.Incomplete{Missing: missing}
	}
	return nil
}
