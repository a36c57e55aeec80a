package fleetcli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/bisect"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
)

// bisectSpecs are the commands for searches.
var bisectSpecs = []fleetSpec{{
	use:   "bisect --nodes NAME,… --good REVISION --bad REVISION",
	short: "Check revisions on a canary for the first that made nodes bad",
	long: `Find the revision of the configuration with which the health of nodes went bad. The controller
searches: it skips revisions that leave the canary's config as it is, judges by simulation what
nodes reject and by history what the canary undid, and pushes the others to the canary. No config
is confirmed while it is tested, and at the end the canary goes back to what it should have; it
does so by itself if the controller is gone. Interrupting the command ends the search.

--health is one of:
  healthy  nothing is bad that is good with the good revision (the default)
  applied  the node takes the config and keeps it
  NAME     this health item or parameter is good, as nodes describe shows it`,
	example: `  edgespan bisect --nodes pop-1,pop-2 --good 41 --bad 57
  edgespan bisect --nodes pop-1 --good 41 --bad 57 --health port/wan --timeout 5m`,
	args: term.ExactArgs(0, ""), forms: tableForms, run: startBisect,
	flags: func(cmd *cobra.Command, c *fleetCall) {
		f := cmd.Flags()
		f.StringSliceVar(&c.search.Nodes, "nodes", nil, "nodes whose health went bad")
		f.StringVar(&c.search.Canary, "canary", "", "which of them tests configs (default the first)")
		f.Uint64Var(&c.search.Good, "good", 0, "revision with which they were healthy")
		f.Uint64Var(&c.search.Bad, "bad", 0, "revision with which they are not")
		f.StringVar(&c.search.Health, "health", bisect.Healthy, "what is tested: healthy, applied or NAME")
		f.DurationVar(&c.testTimeout, "timeout", 2*time.Minute, "time limit of one test")
		f.DurationVar(&c.settle, "settle", 10*time.Second, "how long the canary must be settled before it is judged")
		f.DurationVar(&c.timeout, "wait", 24*time.Hour, "how long to follow the search")
	},
	sub: []fleetSpec{
		{use: "list", short: "List the last search of each canary, the newest first", example: "  edgespan bisect list",
			args: term.ExactArgs(0, ""), forms: tableForms, run: listBisects},
		{use: "show NODE", short: "Show the last search that tested configs on a node",
			example: "  edgespan bisect show pop-1", args: term.ExactArgs(1, "one NODE"), complete: firstNode,
			forms: tableForms, run: showBisect},
		{use: "watch NODE", short: "Watch the search that tests configs on a node until it ends",
			example: "  edgespan bisect watch pop-1", args: term.ExactArgs(1, "one NODE"), complete: firstNode,
			forms: tableForms,
			flags: func(cmd *cobra.Command, c *fleetCall) {
				cmd.Flags().DurationVar(&c.timeout, "wait", 24*time.Hour, "how long to watch")
			},
			run: func(c *fleetCall) error {
				b, err := c.bisectOf(c.ctx, c.args[0])
				if err != nil {
					return err
				}
				return c.followBisect(b)
			}},
		{use: "abort NODE", short: "End a search; the node goes back to what it should have",
			example: "  edgespan bisect abort pop-1", args: term.ExactArgs(1, "one NODE"), complete: firstNode,
			run: func(c *fleetCall) error {
				if err := c.client.AbortBisect(c.ctx, c.args[0]); err != nil {
					return err
				}
				c.a.Printf("bisect on %s: aborted", c.args[0])
				return nil
			}},
	},
}}

// bisectPoll is the interval at which the command asks the controller for a search.
const bisectPoll = time.Second

func startBisect(c *fleetCall) error {
	if len(c.search.Nodes) == 0 {
		return term.Required("--nodes", "the nodes whose health went bad")
	}
	for _, flag := range []string{"good", "bad"} {
		if !c.cmd.Flags().Changed(flag) {
			return term.Required("--"+flag, "a revision of 'edgespan history'")
		}
	}
	for _, d := range []struct {
		flag  string
		given time.Duration
		into  *int
	}{{"--timeout", c.testTimeout, &c.search.TimeoutS}, {"--settle", c.settle, &c.search.SettleS}} {
		if d.given < time.Second {
			return term.Invalid(d.flag, d.given, "1s or more")
		}
		*d.into = int(d.given / time.Second)
	}
	b, err := c.client.StartBisect(c.ctx, c.search)
	if err != nil {
		return err
	}
	c.a.Printf("%s tests configs: %s change its config, at most %d pushes", b.Node, term.Many(b.Candidates, "revision"),
		b.MaxPushes)
	if err = c.followBisect(b); c.cmd.Context().Err() == nil || err == nil {
		return err
	}
	return c.interruptBisect(b.Node)
}

// interruptBisect aborts a search because its command was interrupted.
func (c *fleetCall) interruptBisect(node string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.cmd.Context()), reach.Timeout)
	defer cancel()
	switch err := c.client.AbortBisect(ctx, node); {
	case errors.Is(err, rest.ErrConflict):
		c.a.Printf("interrupted: the search has tested all that it needs; 'edgespan bisect show %s' shows its result", node)
	case err != nil:
		c.a.Printf("interrupted: end the search with 'edgespan bisect abort %s'", node)
		return err
	default:
		c.a.Printf("interrupted: the search is aborted, and %s goes back to what it should have", node)
	}
	return &rest.Incomplete{Missing: []string{"the first bad revision is not known"}}
}

// bisectOf returns the last search on a node.
func (c *fleetCall) bisectOf(ctx context.Context, node string) (fleetapi.Bisect, error) {
	all, err := c.client.Bisects(ctx)
	if err != nil {
		return fleetapi.Bisect{}, err
	}
	i := slices.IndexFunc(all, func(b fleetapi.Bisect) bool { return b.Node == node })
	if i < 0 {
		return fleetapi.Bisect{}, config.NotFound.NewError(fmt.Sprintf("no search tested configs on %s: "+
			"'edgespan bisect list' lists them", config.Quote(node)))
	}
	return all[i], nil
}

// followBisect prints the verdicts of a search as they come, and its result.
func (c *fleetCall) followBisect(b fleetapi.Bisect) error {
	tick := time.NewTicker(bisectPoll)
	defer tick.Stop()
	lost := false
	for shown := 0; ; {
		if c.output == "table" || c.output == "wide" {
			for _, s := range b.Steps[min(shown, len(b.Steps)):] {
				if err := c.line("%s", stepLine(s)); err != nil {
					return err
				}
			}
			shown = len(b.Steps)
		}
		if b.Ended != nil {
			return c.endBisect(b)
		}
		select {
		case <-c.ctx.Done():
			return &rest.Incomplete{Missing: []string{"the search has not ended; 'edgespan bisect watch " + b.Node +
				"' follows it"}}
		case <-tick.C:
		}
		switch next, err := c.bisectOf(c.ctx, b.Node); {
		case err == nil:
			b, lost = next, false
		case c.ctx.Err() != nil: // said above
		case !passing(err):
			return err
		case !lost:
			lost = true
			c.a.Printf("%s: retrying; the search goes on", term.Printable(err.Error()))
		}
	}
}

// stepLine describes a verdict in one line.
func stepLine(s fleetapi.BisectStep) string {
	what := strings.Join(s.Keys, ", ")
	if s.More > 0 {
		what += fmt.Sprintf(" and %d more", s.More)
	}
	if len(s.Others) > 0 {
		what += "; changes " + strings.Join(s.Others, ", ") + " too"
	}
	return fmt.Sprintf("revision %d by %s at %s (%s): %s, by %s: %s", s.Revision, cmp.Or(s.Author, "unknown"),
		term.FormatTime(&s.Time), cmp.Or(what, "the start"), s.Verdict, s.By, s.Why)
}

// endBisect prints the result of a search.
func (c *fleetCall) endBisect(b fleetapi.Bisect) error {
	if c.output != "table" && c.output != "wide" {
		var names []string
		if b.First > 0 {
			names = []string{fmt.Sprint(b.First)}
		}
		if err := c.a.Show(term.Shown{Data: b, Names: names}, c.output); err != nil {
			return err
		}
		return resultOf(b)
	}
	text := b.State
	switch {
	case b.First > 0:
		text = fmt.Sprintf("the first bad revision is %d", b.First)
	case len(b.Suspects) > 0:
		text = fmt.Sprintf("the first bad revision is one of %s", strings.Trim(fmt.Sprint(b.Suspects), "[]"))
	}
	err := c.line("%s%s; %s; %s has %s", text, reasonOf(b.Why), many(b.Pushes, "push", "pushes"), b.Node, b.Canary)
	if err != nil {
		return err
	}
	if b.First == 0 {
		return resultOf(b)
	}
	diffs, err := c.client.Diff(c.ctx, b.First-1, b.First)
	if err != nil {
		return err
	}
	own := []string{"network", "node/" + b.Node, "auto/" + b.Node}
	return c.showDiffs(slices.DeleteFunc(diffs, func(d fleetapi.LayerDiff) bool { return !slices.Contains(own, d.Layer) }))
}

func many(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// resultOf returns an error unless the first bad revision was found.
func resultOf(b fleetapi.Bisect) error {
	if b.Ended != nil && b.First == 0 {
		return &rest.Incomplete{Missing: []string{"the first bad revision is not known"}}
	}
	return nil
}

func listBisects(c *fleetCall) error {
	all, err := c.client.Bisects(c.ctx)
	if err != nil {
		return err
	}
	s := term.Shown{Data: term.OrEmpty(all), Empty: "no searches"}
	t := &term.Table{Head: []string{"NODE", "STATE", "GOOD", "BAD", "FIRST", "HEALTH", "PUSHES", "BEGAN", "AUTHOR"},
		Wide: c.output == "wide"}
	for _, b := range all {
		first := ""
		if b.First > 0 {
			first = fmt.Sprint(b.First)
		}
		s.Names = append(s.Names, b.Node)
		t.Add(b.Node, b.State, fmt.Sprint(b.Good), fmt.Sprint(b.Bad), first, b.Health, fmt.Sprint(b.Pushes),
			term.FormatTime(&b.Began), b.By)
	}
	s.Table = func(bool) *term.Table { return t }
	return c.a.Show(s, c.output)
}

func showBisect(c *fleetCall) error {
	b, err := c.bisectOf(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	t := &term.Table{Head: []string{"REVISION", "VERDICT", "BY", "REASON"}, Wide: c.output == "wide"}
	s := term.Shown{Data: b, Empty: "no verdicts yet", Table: func(bool) *term.Table { return t }}
	for _, step := range b.Steps {
		s.Names = append(s.Names, fmt.Sprint(step.Revision))
		t.Add(fmt.Sprint(step.Revision), step.Verdict, step.By, step.Why)
	}
	if err := c.a.Show(s, c.output); err != nil {
		return err
	}
	switch {
	case b.Ended != nil:
		c.a.Printf("%s", term.Printable(fmt.Sprintf("%s%s; %s has %s", b.State, reasonOf(b.Why), b.Node, b.Canary)))
	case b.Testing > 0:
		c.a.Printf("%s tests revision %d", b.Node, b.Testing)
	default:
		c.a.Printf("%s%s", b.State, term.Printable(reasonOf(b.Why)))
	}
	return nil
}

func reasonOf(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
