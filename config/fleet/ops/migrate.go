package ops

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/layers/migrate"
	"edgespan/config/layers/override"
)

// RuleMigration is the rule of faults of documents that can't be migrated to newer keys.
const RuleMigration = "migration"

// maxMoved limits the keys in the message of a revision, which every list of the history shows.
const maxMoved = 5

// Moved is one key that a migration moved or removed, and the affected layers.
type Moved struct {
	Version, From, To string // To is "" if the value was removed
	Kept              bool   // the new key already had another value, which is kept
	Layers            []string
}

// String formats the move for people, without values.
func (m Moved) String() string {
	where := "in " + m.Layers[0]
	if n := len(m.Layers); n > 1 {
		where = fmt.Sprintf("in %d layers", n)
	}
	switch {
	case m.To == "":
		return m.Version + ": " + m.From + " is gone " + where
	case m.Kept:
		return m.Version + ": " + m.From + " is gone " + where + ": " + m.To + " is set already and stays"
	}
	return m.Version + ": " + m.From + " -> " + m.To + " " + where
}

// softwareVersions returns the known software versions of the fleet's nodes.
func (s *Snapshot) softwareVersions() []string {
	var out []string
	for _, n := range s.Nodes {
		if n.Versions.Software != "" {
			out = append(out, n.Versions.Software)
		}
	}
	return out
}

// DueMigrations returns the pending migrations of the layers: first those to run now, then those held by nodes of an
// older version.
func (s *Snapshot) DueMigrations() migrate.Selection {
	return migrate.Due(s.Migrated, s.softwareVersions())
}

// HeldBy returns the names of the nodes that run a version older than the target of a migration, sorted.
func (s *Snapshot) HeldBy(m migrate.Migration) []string {
	var out []string
	for _, name := range s.nodeNames() {
		if v := s.Nodes[name].Versions.Software; v != "" && m.Newer(v) {
			out = append(out, name)
		}
	}
	return out
}

// migrateAll migrates all layers to newer keys.
func (ck *check) migrateAll() (WriteOutcome, error) {
	all, err := ck.State.AllLayers()
	if err != nil {
		return WriteOutcome{}, err
	}
	c := history.Change{Layers: map[history.Layer]config.Object{}}
	for _, v := range all {
		ck.read[v.Layer] = v
		c.Layers[v.Layer] = v.Document
	}
	moved, faults := migrateLayers(ck.DueMigrations(), c)
	if len(faults) > 0 {
		return WriteOutcome{}, refuse(faults)
	}
	o, err := ck.validateLayersChange(c, nil)
	if o.Change.Message = "migrate layers"; err == nil && len(o.Change.Layers) > 0 {
		o.Migrated = moved
	}
	return o, err
}

// migrateImported migrates imported files to the keys of the fleet's layers.
func (ck *check) migrateImported(c history.Change, err error) (WriteOutcome, error) {
	if err != nil {
		return ck.validateLayers(c, err)
	}
	moved, faults := migrateLayers(migrate.Level(ck.Migrated, ck.softwareVersions()), c)
	if len(faults) > 0 {
		return WriteOutcome{}, refuse(faults)
	}
	o, err := ck.validateLayers(c, nil)
	if err == nil && len(o.Change.Layers) > 0 {
		o.Migrated = moved
		for _, m := range moved {
			o.Warnings = append(o.Warnings, "migrated: "+m.String())
		}
	}
	return o, err
}

// migrateLayers replaces the documents of a change by migrated ones.
func migrateLayers(s migrate.Selection, c history.Change) ([]Moved, override.WriteFaults) {
	var faults override.WriteFaults
	all := map[string]*Moved{}
	for _, l := range sortedLayers(c.Layers) {
		kind, has := migratedKind(l)
		if !has || c.Layers[l] == nil {
			continue
		}
		doc, changes, wrong := s.Run(kind, c.Layers[l])
		for _, f := range wrong {
			faults = append(faults, override.WriteFault{Path: config.Below([]string{l.String()}, f.Path...),
				Rule: RuleMigration, Problem: f.Problem, Expectation: f.Expectation})
		}
		if len(changes) > 0 && wrong == nil {
			c.Layers[l] = doc
		}
		for _, change := range changes {
			m := Moved{Version: change.Version, From: config.FormatPath(change.From), Kept: change.Kept}
			if change.To != nil {
				m.To = config.FormatPath(change.To)
			}
			key := fmt.Sprintf("%s\x00%s\x00%s\x00%t", m.Version, m.From, m.To, m.Kept)
			if all[key] == nil {
				all[key] = &m
			}
			all[key].Layers = append(all[key].Layers, l.String())
		}
	}
	var out []Moved
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[key])
	}
	return out, faults
}

// migratedKind returns the kind of migrations for a layer.
func migratedKind(l history.Layer) (migrate.Kind, bool) {
	switch l.Kind {
	case history.Network, history.Node, history.Auto:
		return migrate.Node, true
	case history.E2E:
		if file, _ := fileOf(l); file == controllerFile {
			return migrate.Controller, true
		}
		return migrate.Aggregator, true
	}
	return "", false
}

// MigratedText returns the moves in one line, for the message of a revision.
func (o WriteOutcome) MigratedText() string {
	var lines []string
	for i, m := range o.Migrated {
		if i == maxMoved {
			lines = append(lines, fmt.Sprintf("and %d more", len(o.Migrated)-i))
			break
		}
		lines = append(lines, config.Truncate(m.String(), 160))
	}
	return strings.Join(lines, "; ")
}
