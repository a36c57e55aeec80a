package fleetcli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
)

// rolloutSpecs are the commands for rollouts.
var rolloutSpecs = []fleetSpec{{use: "rollout", short: "Show and control rollouts of changes to the nodes",
	sub: []fleetSpec{
		{use: "list", short: "List the last changes, the newest first",
			example: "  edgespan rollout list",
			args:    term.ExactArgs(0, ""), forms: tableForms,
			run: listRollouts},
		{
			use:   "show REVISION",
			short: "Show the progress of a rollout, node by node",
			long: `Show the progress of a rollout: which nodes have the change, which failed, and
what the others wait for.`,
			example: "  edgespan rollout show 12",
			args:    term.ExactArgs(1, "one REVISION"), forms: tableForms, run: showRollout,
		},
		{
			use: "explain REVISION", short: "Explain the decisions of a staged rollout, and what comes next",
			example: "  edgespan rollout explain 12",
			args:    term.ExactArgs(1, "one REVISION"), forms: tableForms, run: explainRollout,
		},
		rolloutSpec("pause REVISION", "Pause a staged rollout: the current batch continues, no other follows",
			fleetapi.PauseRollout, "paused"),
		rolloutSpec("resume REVISION", "Resume a staged rollout after a pause, or after too many nodes failed",
			fleetapi.ResumeRollout,
			"resumed"),
		{
			use: "abort REVISION [--revert]", short: "Abort a staged rollout: no further node gets the change",
			example: "  edgespan rollout abort 12 --revert",
			long: `End a staged rollout. Nodes without the change keep their config until the layers
change.

--revert also reverts the rollout's revisions, as history revert does; a new staged rollout takes
the change back on the nodes that have it.`,
			args: term.ExactArgs(1, "one REVISION"),
			flags: func(cmd *cobra.Command, c *fleetCall) {
				cmd.Flags().BoolVar(&c.revert, "revert", false, "revert the change where it was applied")
			},
			run: func(c *fleetCall) error {
				if c.revert {
					return c.commandRollout(fleetapi.RevertRollout, "aborted and reverted")
				}
				return c.commandRollout(fleetapi.AbortRollout, "aborted")
			},
		},
		{
			use: "watch REVISION", short: "Watch the decisions of a staged rollout until it ends",
			example: "  edgespan rollout watch 12 --wait 1h",
			long: `Print the decisions and the progress of a staged rollout, a line each, until it
ends. It exits 6 if nodes failed or were not reached, and if the rollout has not ended after --wait.`,
			args: term.ExactArgs(1, "one REVISION"), run: watchRollout,
			flags: func(cmd *cobra.Command, c *fleetCall) {
				cmd.Flags().DurationVar(&c.timeout, "wait", 24*time.Hour, "how long to watch")
			},
		},
	}}}

func rolloutSpec(use, short string, what fleetapi.RolloutCommand, done string) fleetSpec {
	word, _, _ := strings.Cut(use, " ")
	return fleetSpec{use: use, short: short, example: "  edgespan rollout " + word + " 12",
		args: term.ExactArgs(1, "one REVISION"),
		run:  func(c *fleetCall) error { return c.commandRollout(what, done) }}
}

func (c *fleetCall) commandRollout(what fleetapi.RolloutCommand, done string) error {
	n, err := term.RevisionOf("REVISION", c.args[0])
	if err != nil {
		return err
	}
	if err := c.client.CommandRollout(c.ctx, n, what); err != nil {
		return err
	}
	c.a.Printf("rollout %d: %s", n, done)
	return nil
}

func listRollouts(c *fleetCall) error {
	all, err := c.client.Rollouts(c.ctx)
	if err != nil {
		return err
	}
	s := term.Shown{Data: term.OrEmpty(all), Empty: "no rollouts"}
	t := &term.Table{Head: []string{"REVISION", "STATE", "NODES", "ACKED", "FAILED", "WAITING", "BEGAN", "AUTHOR",
		"MESSAGE"}, Wide: c.output == "wide"}
	for _, r := range all {
		s.Names = append(s.Names, fmt.Sprint(r.Revision))
		t.Add(fmt.Sprint(r.Revision), r.State, fmt.Sprint(r.Nodes), fmt.Sprint(r.Acked),
			fmt.Sprint(max(r.FailedNodes, len(r.Failed))), fmt.Sprint(max(r.WaitingNodes, len(r.Waiting))),
			term.FormatTime(&r.Began), r.Author, r.Message)
	}
	s.Table = func(bool) *term.Table { return t }
	return c.a.Show(s, c.output)
}

func showRollout(c *fleetCall) error {
	n, err := term.RevisionOf("REVISION", c.args[0])
	if err != nil {
		return err
	}
	r, err := c.client.Rollout(c.ctx, n)
	if err != nil {
		return err
	}
	failed, waiting := slices.Sorted(maps.Keys(r.Failed)), slices.Sorted(maps.Keys(r.Waiting))
	t := &term.Table{Head: []string{"NODE", "STATE", "ERROR"}, Wide: c.output == "wide"}
	for _, name := range failed {
		t.Add(name, "failed", r.Failed[name])
	}
	for _, name := range waiting {
		t.Add(name, "waiting", r.Waiting[name])
	}
	s := term.Shown{Data: r, Names: append(failed, waiting...), Table: func(bool) *term.Table { return t },
		Empty: "no nodes failed or waiting"}
	if err := c.a.Show(s, c.output); err != nil {
		return err
	}
	for _, b := range r.Batches {
		c.a.Printf("%s", batchLine(b))
	}
	c.a.Printf("%s", rolloutLine(r))
	return nil
}

// batchLine describes the progress of a batch in one line.
func batchLine(b fleetapi.RolloutBatch) string {
	return fmt.Sprintf("batch %d: %d of %s acked, %d failed, %d not answered", b.Number, b.Acked,
		term.Many(b.Nodes, "node"), b.Failed, b.Out)
}

// rolloutLine describes the progress of a rollout in one line.
func rolloutLine(r fleetapi.Rollout) string {
	return term.Printable(fmt.Sprintf("revision %d, %s: %d of %s acked, %d failed, %d waiting",
		r.Revision, r.State, r.Acked, term.Many(r.Nodes, "node"), len(r.Failed), len(r.Waiting)))
}

func explainRollout(c *fleetCall) error {
	n, err := term.RevisionOf("REVISION", c.args[0])
	if err != nil {
		return err
	}
	d, err := c.client.ExplainRollout(c.ctx, n)
	if err != nil {
		return err
	}
	t := &term.Table{Head: []string{"TIME", "BY", "DECISION", "REASON"}, Wide: c.output == "wide"}
	s := term.Shown{Data: d, Empty: "no decisions", Table: func(bool) *term.Table { return t }}
	for _, v := range d.Decisions {
		s.Names = append(s.Names, v.What)
		t.Add(term.FormatTime(&v.At), cmp.Or(v.By, "controller"), v.What, v.Why)
	}
	if err := c.a.Show(s, c.output); err != nil {
		return err
	}
	c.a.Printf("%s; next: %s", rolloutLine(d.Rollout), term.Printable(d.Next))
	return nil
}

// rolloutPoll is the interval at which the command asks the controller for a rollout's progress.
const rolloutPoll = time.Second

func watchRollout(c *fleetCall) error {
	n, err := term.RevisionOf("REVISION", c.args[0])
	if err != nil {
		return err
	}
	tick, over := time.NewTicker(rolloutPoll), time.NewTimer(c.timeout)
	defer tick.Stop()
	defer over.Stop()
	var reported time.Time // time of the last decision
	for line := ""; ; {
		d, err := c.client.ExplainRollout(c.ctx, n)
		if err != nil {
			return err
		}
		for _, v := range d.Decisions {
			if !v.At.After(reported) {
				continue
			}
			if err := c.line("%s  %s: %s", term.FormatTime(&v.At), v.What,
				cmp.Or(v.Why, "by "+cmp.Or(v.By, "the controller"))); err != nil {
				return err
			}
		}
		if k := len(d.Decisions); k > 0 {
			reported = d.Decisions[k-1].At
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
			return &rest.Incomplete{Missing: []string{"the rollout has not ended after " + c.timeout.String()}}
		case <-c.ctx.Done():
			return &rest.Incomplete{Missing: []string{"the rollout has not ended"}}
		case <-tick.C:
		}
	}
}

func (c *fleetCall) line(format string, args ...any) error {
	_, err := fmt.Fprintln(c.a.Out, term.Printable(fmt.Sprintf(format, args...)))
	return err
}

// endOf returns an error unless every node has the change.
func endOf(r fleetapi.Rollout) error {
	var missing []string
	if n := len(r.Failed); n > 0 {
		missing = append(missing, term.Many(n, "node")+" failed")
	}
	if n := len(r.Waiting); n > 0 {
		missing = append(missing, term.Many(n, "node")+" not reached")
	}
	if missing != nil {
		return &rest.Incomplete{Missing: missing}
	}
	return nil
}
