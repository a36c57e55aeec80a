package configdbcli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
)

// recordSpecs are the commands for versions and revisions. The original has none.
var recordSpecs = []factsSpec{
	{
		use:   "history [--env ID [--level nodes=NODE] [--resource NAME]]",
		short: "List the revisions of the facts, or the versions of one resource",
		long: `List the revisions of the facts, the newest first; with --env those of one environment. With --resource ` +
			`it is the
versions of its values at exactly that level, or with --overrides of its overrides.`,
		example: `  edgespan config history --env 1
  edgespan config history --env 1 --level nodes=1 --resource astute`,
		forms: lookupForms, run: listRecords, flags: []factsFlags{placeFlags, halfFlag, pageFlags},
	},
	{
		use:     "diff --env ID [--level nodes=NODE] --resource NAME [VERSION [VERSION]]",
		short:   "Show the difference between two versions of a resource",
		example: "  edgespan config diff --env 1 --level nodes=1 --resource astute 3 4",
		long: `Show the difference between two versions of the values at exactly that level, or with --overrides of the ` +
			`overrides: the
newest and that before it; with one VERSION that and the newest. 0 is nothing at all. json and yaml are a JSON Patch.`,
		args:  term.RangeArgs(0, 2, "one VERSION, two or none"),
		needs: []string{"env", "resource"}, forms: []string{"plain", "json", "yaml"}, run: diffFacts,
		flags: []factsFlags{placeFlags, halfFlag},
	},
	{
		use:   "rollback --env ID [--level nodes=NODE] [--resource NAME] {--version N|--revision N}",
		short: "Roll a resource or a level back to an earlier version",
		long: `Make what the values had as a version, or at a revision of the facts, their newest version; with ` +
			`--overrides those. Without
--resource all resources of that place go back to a revision, values and overrides.`,
		example: `  edgespan config rollback --env 1 --level nodes=1 --resource astute --version 3
  edgespan config rollback --env 1 --level nodes=1 --revision 40 --dry-run`,
		needs: []string{"env"}, run: rollbackFacts,
		flags: []factsFlags{placeFlags, halfFlag, writeFlags, func(f *pflag.FlagSet, c *factsCall) {
			f.Uint64Var(&c.version, "version", 0, "version to roll back to")
			f.Uint64Var(&c.revision, "revision", 0, "revision of the facts to roll back to")
		}},
	},
	{
		use:     "watch [--env ID [--level nodes=NODE] [--resource NAME]]",
		short:   "Watch changes of the facts until interrupted",
		example: "  edgespan config watch --env 1 --resource astute",
		forms:   lookupForms, run: watchFacts,
		flags: []factsFlags{placeFlags, func(f *pflag.FlagSet, c *factsCall) {
			f.Uint64Var(&c.since, "since", 0, "start after this revision; 0 for all (default: from now on)")
		}},
	},
}

// needsEnv requires --env for a resource or a level.
func (c *factsCall) needsEnv() error {
	for _, flag := range []string{"level", "resource"} {
		if c.changed(flag) && !c.changed("env") {
			return term.Requires("--"+flag, "--env")
		}
	}
	return nil
}

func listRecords(c *factsCall) error {
	switch {
	case c.limit < 1:
		return term.Invalid("--limit", c.limit, "1 or more")
	case c.resource == "" && (c.changed("level") || c.overrides):
		return term.Required("--resource", "--level and --overrides list the versions of one resource")
	}
	if err := c.needsEnv(); err != nil {
		return err
	}
	if c.resource != "" {
		return listVersions(c)
	}
	all, err := c.client.History(c.ctx, model.RecordsQuery{Environment: c.env, Before: c.before, Limit: c.limit})
	if err == nil && len(all) == 0 {
		err = c.reach() // a deleted one has a history, one that never existed has none
	}
	if err != nil {
		return err
	}
	if len(all) == 0 && c.format == "table" {
		c.a.Printf("no revisions")
		return nil
	}
	rows := make([][]string, len(all))
	for i, r := range all {
		rows[i] = []string{fmt.Sprint(r.Revision), term.FormatTime(&r.Time), r.Author, c.changesCell(r.Changes), r.Message}
	}
	return c.answer(term.OrEmpty(all), []string{"REVISION", "TIME", "AUTHOR", "CHANGES", "MESSAGE"}, rows)
}

func listVersions(c *factsCall) error {
	p, err := c.place()
	if err != nil {
		return err
	}
	all, err := c.client.Versions(c.ctx, p, c.kind(), c.before, c.limit)
	if err != nil {
		return err
	}
	if len(all) == 0 && c.format == "table" {
		c.a.Printf("no versions")
		return nil
	}
	rows := make([][]string, len(all))
	for i, v := range all {
		number, size := fmt.Sprint(v.Number), fmt.Sprint(v.Size)
		if v.Removed {
			number, size = "", "removed"
		}
		rows[i] = []string{number, fmt.Sprint(v.Revision), term.FormatTime(&v.Time), v.Author, size, v.Message}
	}
	return c.answer(term.OrEmpty(all), []string{"VERSION", "REVISION", "TIME", "AUTHOR", "SIZE", "MESSAGE"}, rows)
}

// changesCell formats the changes of a revision for one cell, shortened: an import writes thousands.
func (c *factsCall) changesCell(changes []model.Change) string {
	const few = 2
	var out []string
	for _, ch := range changes[:min(few, len(changes))] {
		out = append(out, c.changeOf(ch)+": "+ch.Did)
	}
	if len(changes) > few {
		out = append(out, fmt.Sprintf("and %d more", len(changes)-few))
	}
	return strings.Join(out, ", ")
}

func diffFacts(c *factsCall) error {
	p, err := c.place()
	if err != nil {
		return err
	}
	from, to, err := c.comparedVersions(p)
	if err != nil {
		return err
	}
	before, after := configdb.JSON("{}"), configdb.JSON("{}")
	for _, v := range []struct {
		doc     *configdb.JSON
		version uint64
		newest  bool
	}{{&before, from, false}, {&after, to, to == 0}} {
		if v.version == 0 && !v.newest {
			continue
		}
		got, err := c.client.Read(c.ctx, p, c.kind(), configdbapi.Read{Version: v.version})
		if err != nil {
			return err
		}
		*v.doc = got.Body
	}
	diff := configdb.Diff(before, after)
	if c.format != "plain" {
		return c.answer(term.OrEmpty(diff), nil, nil)
	}
	if len(diff) == 0 {
		c.a.Printf("no differences")
	}
	for _, d := range diff {
		if _, err := fmt.Fprintln(c.a.Out, term.Printable(d.String())); err != nil {
			return err
		}
	}
	return nil
}

// comparedVersions returns the two versions to compare; to is 0 for the newest.
func (c *factsCall) comparedVersions(p configdbapi.Place) (from, to uint64, err error) {
	if len(c.args) == 0 {
		all, err := c.client.Versions(c.ctx, p, c.kind(), 0, 2)
		all = slices.DeleteFunc(all, func(v model.Version) bool { return v.Removed })
		switch {
		case err != nil:
			return 0, 0, err
		case len(all) == 0:
			return 0, 0, notFoundError("diff: no versions")
		case len(all) == 1:
			return 0, all[0].Number, nil
		}
		return all[1].Number, all[0].Number, nil
	}
	if from, err = term.RevisionOf("VERSION", c.args[0]); err != nil {
		return 0, 0, err
	}
	if len(c.args) > 1 {
		if to, err = term.RevisionOf("VERSION", c.args[1]); err == nil && to == 0 {
			err = term.Invalid("second VERSION", 0, "1 or more")
		}
	}
	return from, to, err
}

func rollbackFacts(c *factsCall) error {
	if (c.version > 0) == (c.revision > 0) {
		return term.Usagef("rollback: requires either --version or --revision, 1 or more")
	}
	if c.resource == "" && (c.version > 0 || c.overrides) {
		return term.Required("--resource", "--version and --overrides apply to one resource")
	}
	p, err := c.place()
	if err != nil {
		return err
	}
	if c.resource == "" {
		stored, err := c.client.RollbackPlace(c.ctx, p, c.revision, c.writeOptions())
		return c.did(stored, err, "%s rolled back to revision %d", term.Many(len(stored.Changes), "record"), c.revision)
	}
	stored, err := c.client.Rollback(c.ctx, p, c.kind(),
		configdbapi.RollbackBody{Version: c.version, Revision: c.revision}, c.writeOptions())
	if err == nil && !c.dryRun && !stored.Changed {
		c.a.Printf("%s: no change", nameOf(c.kind()))
		return nil
	}
	if c.version > 0 {
		return c.did(stored, err, "%s rolled back to version %d", nameOf(c.kind()), c.version)
	}
	return c.did(stored, err, "%s rolled back to revision %d", nameOf(c.kind()), c.revision)
}

// reach checks that ConfigDB answers, and that it has the environment of a watch.
func (c *factsCall) reach() (err error) {
	if c.changed("env") {
		_, err = c.client.Environment(c.ctx, c.env)
		return err
	}
	_, err = c.client.History(c.ctx, model.RecordsQuery{Limit: 1})
	return err
}

func watchFacts(c *factsCall) error {
	if err := c.needsEnv(); err != nil {
		return err
	}
	p, err := c.place()
	if err != nil {
		return err
	}
	// An error in the first request ends the command; later errors are retried.
	if err := c.reach(); err != nil {
		return err
	}
	o := configdbapi.WatchOptions{Environment: c.env, Resource: c.resource, Since: c.since,
		FromStart: c.changed("since") && c.since == 0}
	if n := len(p.Levels); n > 0 {
		o.Level = &p.Levels[n-1]
	}
	l := c.a.NewLive(c.format, []string{"TIME", "REVISION", "AUTHOR", "CHANGES", "MESSAGE"}, []int{20, 8, 12, 44})
	ctx := c.cmd.Context() // without the time limit of a request
	err = c.client.Watch(ctx, o, reach.RetryWatch, func(r model.Record) error {
		return l.Print(r, "",
			[]string{term.FormatTime(&r.Time), fmt.Sprint(r.Revision), r.Author, c.changesCell(r.Changes), r.Message})
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
