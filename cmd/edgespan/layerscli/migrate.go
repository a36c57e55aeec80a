package layerscli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/migrate"
	"edgespan/platform/confdir"
)

// migration are the flags of `layers migrate`.
type migration struct {
	migrate.Range
	dryRun                 bool
	auto, network, node    []string
	controller, aggregator []string
	output                 string
}

// migrated is one change as -o json prints it.
type migrated struct {
	File    string  `json:"file"`
	Node    string  `json:"node,omitempty"`
	Version string  `json:"version"`
	From    string  `json:"from"`
	To      *string `json:"to"`   // null: the key is removed
	Kept    bool    `json:"kept"` // the new key was already set and is kept
}

func newLayersMigrate(a offline) *cobra.Command {
	var m migration
	var list strings.Builder
	for _, step := range migrate.All() {
		fmt.Fprintf(&list, "\n  %s (%s): %s", step.Version, step.Kind, step.What)
	}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate files of layers to the keys of a newer version",
		Long: `Migrate files of layers from the keys of one version to those of a newer one. Every change
is one line on stdout. All files are written or none, each with a backup beside it (.bak);
one that has nothing to migrate is not touched. A key that is already set at its new place
keeps that value, and a line says so.

The old keys show what is due, so a second migration changes nothing. The migrations:
` + list.String(),
		Example: `  edgespan layers migrate --dry-run --network network.json --node nodes.json
  edgespan layers migrate --to RELEASE_M78 --auto auto.json --network network.json --node nodes.json`,
		Args: term.ExactArgs(0, ""),
		RunE: func(*cobra.Command, []string) error { return a.migrate(&m) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&m.dryRun, "dry-run", false, "show what would change, and write nothing")
	flags.StringVar(&m.From, "from", "", "version of the files: older migrations are skipped")
	flags.StringVar(&m.To, "to", "", "version to migrate to: newer migrations are skipped")
	flags.StringArrayVar(&m.auto, "auto", nil,
		"file of automated overrides, {node: {…}}; each file flag may be repeated")
	flags.StringArrayVar(&m.network, "network", nil, "file of network overrides, or one node's whole config")
	flags.StringArrayVar(&m.node, "node", nil, "file of node overrides, {node: {…}}")
	flags.StringArrayVar(&m.controller, "controller", nil, "config file of a controller")
	flags.StringArrayVar(&m.aggregator, "aggregator", nil, "config file of an aggregator")
	term.OneOf(cmd, &m.output, "text", "json")
	return cmd
}

// migrate prepares every file before it writes the first.
func (a offline) migrate(m *migration) error {
	if err := m.Check(); err != nil {
		return term.WithClass(term.ExitUsage, err)
	}
	var files []confdir.File
	all := []migrated{}
	var errs []error
	for _, group := range []struct {
		names []string
		kind  migrate.Kind
		nodes bool
	}{
		{m.auto, migrate.Node, true},
		{m.network, migrate.Node, false},
		{m.node, migrate.Node, true},
		{m.controller, migrate.Controller, false},
		{m.aggregator, migrate.Aggregator, false},
	} {
		for _, name := range group.names {
			if name == "-" {
				return term.Usagef("-: is stdin: must be a file, because it is written")
			}
			doc, changes, err := a.migrateFile(name, group.kind, group.nodes, m.Range)
			errs = append(errs, err)
			files = append(files, confdir.File{Name: name, Document: doc})
			if len(changes) == 0 {
				files = files[:len(files)-1]
			}
			all = append(all, changes...)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(m.auto)+len(m.network)+len(m.node)+len(m.controller)+len(m.aggregator) == 0 {
		return term.Usagef("migrate: no files: give at least one of --auto, --network, --node, --controller, --aggregator")
	}
	if !m.dryRun {
		if err := confdir.WriteAll(files); err != nil {
			return err
		}
	}
	return a.showMigrated(all, m)
}

// migrateFile returns the new document of one file and its changes.
func (a offline) migrateFile(name string, kind migrate.Kind, nodes bool, r migrate.Range) (config.Object, []migrated,
	error) {
	doc, err := ReadObject(a.Streams, name)
	if err != nil {
		return nil, nil, err
	}
	if !nodes {
		out, changes, faults := migrate.Run(kind, doc, r)
		if faults != nil {
			return nil, nil, &confdir.Broken{File: name, Faults: faults}
		}
		return out, newMigrated(name, "", changes), nil
	}
	byNode, faults := layers.NodeLayers(doc)
	if faults != nil {
		return nil, nil, &confdir.Broken{File: name, Faults: faults}
	}
	var all []migrated
	out := make(config.Object, len(byNode))
	for _, node := range config.Keys(doc) {
		o, changes, wrong := migrate.Run(kind, byNode[node], r)
		for _, f := range wrong {
			faults.Add(config.Below([]string{node}, f.Path...), f.Problem, f.Expectation)
		}
		out[node] = o
		all = append(all, newMigrated(name, node, changes)...)
	}
	if faults != nil {
		return nil, nil, &confdir.Broken{File: name, Faults: faults}
	}
	return out, all, nil
}

func newMigrated(file, node string, changes []migrate.Change) []migrated {
	out := make([]migrated, len(changes))
	for i, c := range changes {
		out[i] = migrated{File: file, Node: node, Version: c.Version, From: config.FormatPath(c.From), Kept: c.Kept}
		if c.To != nil {
			to := config.FormatPath(c.To)
			out[i].To = &to
		}
	}
	return out
}

func (a offline) showMigrated(all []migrated, m *migration) error {
	switch {
	case len(all) == 0:
		a.Printf("nothing to migrate")
	case m.dryRun:
		a.Printf("dry run: nothing written")
	}
	if m.output == "json" {
		return a.PrintJSON(all)
	}
	for _, c := range all {
		if _, err := fmt.Fprintln(a.Out, term.Printable(c.text())); err != nil {
			return err
		}
	}
	return nil
}

// text formats a change as "nodes.json: pop-1: RELEASE_M78: a.b -> c".
func (c migrated) text() string {
	parts := []string{c.File}
	if c.Node != "" {
		parts = append(parts, config.FormatPath([]string{c.Node}))
	}
	parts = append(parts, c.Version)
	switch {
	case c.To == nil:
		return strings.Join(append(parts, c.From+" is gone"), ": ")
	case c.Kept:
		return strings.Join(append(parts, c.From+" is gone: "+*c.To+" is set already and stays"), ": ")
	}
	return strings.Join(append(parts, c.From+" -> "+*c.To), ": ")
}
