package fleetcli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

const layerNames = "network, topology, metadata, node/NAME, auto/NAME, e2e/FILE"

// historySpecs are the commands for revisions.
var historySpecs = []fleetSpec{
	{
		use: "history [LAYER]", short: "List the revisions of the layers, the newest first",
		long: "List the revisions of the layers, the newest first; of one LAYER only those that wrote it: " + layerNames +
			".",
		args: term.RangeArgs(0, 1, "one LAYER, or none"), forms: tableForms, complete: completeLayers, run: listHistory,
		flags: func(cmd *cobra.Command, c *fleetCall) {
			cmd.Flags().Uint64Var(&c.before, "before", 0, "show only revisions older than this one")
			cmd.Flags().IntVar(&c.limit, "limit", 0, "maximum number of revisions (default 50)")
		},
		sub: []fleetSpec{
			{use: "show REVISION", short: "Show a revision and its changes",
				example: "  edgespan history show 12",
				args:    term.ExactArgs(1, "one REVISION"),
				forms:   tableForms, run: showRevision},
			{
				use:     "diff REVISION [REVISION]",
				short:   "Show the difference between two revisions",
				long:    `Show the difference between two revisions; without a second one, between REVISION and the newest.`,
				example: "  edgespan history diff 12\n  edgespan history diff 10 12 -o json",
				args:    term.RangeArgs(1, 2, "one REVISION or two"), forms: tableForms, run: diffRevisions,
			},
			{
				use: "prune --before TIME|AGE", short: "Delete the revisions before a time; admins only",
				long: `Delete the revisions before a time, such as 2026-11-22T12:00:00Z, or older than an age, such as 2160h ` +
					`or 90d; ` + `at least an hour.

The current layers, the 20 newest revisions, those of staged rollouts that are active or ended since then, and the
authors of the current layers stay. Only a backup can bring deleted revisions back.`,
				example: "  edgespan history prune --before 90d --dry-run",
				args:    term.ExactArgs(0, ""), forms: tableForms, run: pruneHistory,
				flags: func(cmd *cobra.Command, c *fleetCall) {
					cmd.Flags().StringVar(&c.age, "before", "", "time or age: older revisions are deleted")
					cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "show what would be deleted, and delete nothing")
				},
			},
			{
				use: "revert REVISION", short: "Revert the changes of one revision, and keep those of later ones",
				example: "  edgespan history revert 12 --dry-run",
				args:    term.ExactArgs(1, "one REVISION"), forms: tableForms, write: true, unbound: true, run: revertRevision,
			},
			{
				use: "rollback REVISION [LAYER...]", short: "Roll layers back to a revision",
				long: "Roll all layers, or the named ones, back to a revision: " + layerNames + "." +
					aboutFleetWrites,
				example: "  edgespan history rollback 41 network node/pop-1 --dry-run",
				args:    term.AtLeast(1, "REVISION [LAYER...]"), forms: tableForms, write: true, unbound: true, run: rollbackTo,
				complete: func(a *reach.App, cmd *cobra.Command, args []string, typed string) []string {
					if len(args) == 0 {
						return nil
					}
					return completeLayers(a, cmd, nil, typed)
				},
			},
		},
	},
}

func completeLayers(a *reach.App, cmd *cobra.Command, args []string, _ string) []string {
	if len(args) > 0 {
		return nil
	}
	out := []string{"network", "topology", "metadata", "e2e/controller", "e2e/aggregator"}
	for _, n := range liveNodes(cmd.Context(), a) {
		out = append(out, history.Layer{Kind: history.Node, Name: n}.String(),
			history.Layer{Kind: history.Auto, Name: n}.String())
	}
	return out
}

// historyLayers parses names of layers.
func historyLayers(args []string) ([]history.Layer, error) {
	var out []history.Layer
	for _, arg := range args {
		l, err := history.ParseLayer(arg)
		if err != nil {
			return nil, term.WithClass(term.ExitUsage, err)
		}
		out = append(out, l)
	}
	return out, nil
}

func listHistory(c *fleetCall) error {
	named, err := historyLayers(c.args)
	if err != nil {
		return err
	}
	if c.limit < 0 {
		return term.Invalid("--limit", c.limit, "1 or more")
	}
	q := fleetapi.HistoryQuery{Before: c.before, Limit: c.limit}
	if len(named) > 0 {
		q.Layer = &named[0]
	}
	editions, err := c.client.History(c.ctx, q)
	if err != nil {
		return err
	}
	s := term.Shown{Data: term.OrEmpty(editions), Empty: "no revisions"}
	t := &term.Table{Head: []string{"REVISION", "TIME", "AUTHOR", "LAYERS", "MESSAGE"}, Wide: c.output == "wide"}
	for _, e := range editions {
		s.Names = append(s.Names, fmt.Sprint(e.Number))
		t.Add(fmt.Sprint(e.Number), term.FormatTime(&e.Time), e.Author, layerCell(e.Layers, t.Wide), e.Message)
	}
	s.Table = func(bool) *term.Table { return t }
	return c.a.Show(s, c.output)
}

// layerCell formats the layers of a revision for one cell, shortened unless wide: an import writes thousands.
func layerCell(names []string, wide bool) string {
	const few = 3
	if wide || len(names) <= few {
		return strings.Join(names, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], " "), len(names)-few)
}

func showRevision(c *fleetCall) error {
	n, err := term.RevisionOf("REVISION", c.args[0])
	if err != nil {
		return err
	}
	e, err := c.client.Revision(c.ctx, n)
	if err != nil {
		return err
	}
	if c.output == "table" || c.output == "wide" {
		c.a.Printf("%s", term.Printable(fmt.Sprintf("revision %d by %s, %s: %s", e.Number, e.Author, term.FormatTime(&e.Time),
			cmp.Or(e.Message, "no message"))))
		return c.showDiffs(e.Changes)
	}
	return c.a.Show(term.Shown{Data: e, Names: e.Layers}, c.output)
}

func diffRevisions(c *fleetCall) error {
	from, err := term.RevisionOf("REVISION", c.args[0])
	if err != nil {
		return err
	}
	to := uint64(0)
	if len(c.args) > 1 {
		if to, err = term.RevisionOf("REVISION", c.args[1]); err != nil {
			return err
		}
		if to == 0 {
			return term.Invalid("second REVISION", 0,
				"1 or more; only the first REVISION can be 0, the state before all revisions")
		}
	}
	diffs, err := c.client.Diff(c.ctx, from, to)
	if err != nil {
		return err
	}
	return c.showDiffs(diffs)
}

// showDiffs prints how layers differ, one row for each value.
func (c *fleetCall) showDiffs(diffs []fleetapi.LayerDiff) error {
	s := term.Shown{Data: term.OrEmpty(diffs), Empty: "no differences"}
	t := &term.Table{Head: []string{"LAYER", "KEY", "BEFORE", "AFTER"}, Wide: c.output == "wide"}
	for _, d := range diffs {
		s.Names = append(s.Names, d.Layer)
		for _, v := range d.Values {
			t.Add(d.Layer, v.Path, valueCell(v.Old, v.HadOld), valueCell(v.New, v.HasNew))
		}
		if len(d.Values) == 0 {
			t.Add(d.Layer, "", fmt.Sprintf("revision %d", d.Before), fmt.Sprintf("revision %d", d.After))
		}
	}
	s.Table = func(bool) *term.Table { return t }
	return c.a.Show(s, c.output)
}

func valueCell(v any, there bool) string {
	if !there {
		return ""
	}
	return term.OneLine(v)
}

func revertRevision(c *fleetCall) error {
	n, err := term.RevisionOf("REVISION", c.args[0])
	if err != nil {
		return err
	}
	return c.put(ops.Revert{Revision: n})
}

func rollbackTo(c *fleetCall) error {
	n, err := term.RevisionOf("REVISION", c.args[0])
	if err != nil {
		return err
	}
	desired, err := historyLayers(c.args[1:])
	if err != nil {
		return err
	}
	return c.put(ops.Restore{Revision: n, Layers: desired})
}

func pruneHistory(c *fleetCall) error {
	if c.age == "" {
		return term.Required("--before", "a time such as 2026-11-22T12:00:00Z, or an age such as 2160h or 90d")
	}
	p, err := c.client.PruneHistory(c.ctx, c.age, c.dryRun)
	if err != nil {
		return err
	}
	t := &term.Table{Head: []string{"FROM", "REVISIONS", "OBJECTS"}}
	t.Add(fmt.Sprint(p.From), fmt.Sprint(p.Revisions), fmt.Sprint(p.Objects))
	if c.dryRun {
		c.a.Printf("dry run: nothing deleted")
	}
	return c.a.Show(term.Shown{Data: p, Names: []string{fmt.Sprint(p.From)}, Table: func(bool) *term.Table { return t }},
		c.output)
}
