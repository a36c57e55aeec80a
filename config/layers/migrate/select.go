package migrate

import (
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
)

// Done maps each family of versions to the version up to which the layers of a fleet are migrated.
type Done map[string]string

// Selection is a list of migrations for a fleet, in the order in which they run.
type Selection struct {
	steps []Migration
	// Held are the migrations that must wait, since a node runs a version that does not know the new keys.
	Held []Migration
}

// Due selects the migrations for a fleet's layers: those after done and up to the oldest version of their family that a
// node runs. Such a node knows the old keys and not the new ones.
func Due(done Done, nodes []string) Selection { return due(all, done, nodes) }

func due(all []Migration, done Done, nodes []string) Selection {
	oldest := oldestOf(nodes)
	var s Selection
	for _, m := range all {
		v := layers.ParseSoftware(m.Version)
		switch old, runs := oldest[v.Family]; {
		case done.has(v):
		case runs && v.Compare(old) > 0:
			s.Held = append(s.Held, m)
		default:
			s.steps = append(s.steps, m)
		}
	}
	return s
}

// Level selects the migrations that bring imported documents to the version of a fleet's layers after Due, including
// those in done.
func Level(done Done, nodes []string) Selection { return level(all, done, nodes) }

func level(all []Migration, done Done, nodes []string) Selection {
	next := due(all, done, nodes)
	s := Selection{Held: next.Held}
	for _, m := range all {
		if !slices.ContainsFunc(next.Held, func(h Migration) bool { return h.Version == m.Version && h.Kind == m.Kind }) {
			s.steps = append(s.steps, m)
		}
	}
	return s
}

// oldestOf returns the oldest version of each family.
func oldestOf(versions []string) map[string]layers.Software {
	out := map[string]layers.Software{}
	for _, text := range versions {
		v := layers.ParseSoftware(text)
		if old, has := out[v.Family]; len(v.Numbers) > 0 && (!has || v.Compare(old) < 0) {
			out[v.Family] = v
		}
	}
	return out
}

func (d Done) has(v layers.Software) bool {
	to, ok := d[v.Family]
	return ok && v.Compare(layers.ParseSoftware(to)) <= 0
}

// Steps returns the migrations of the selection.
func (s Selection) Steps() []Migration { return slices.Clone(s.steps) }

// Run applies the selection to one document, as the function Run does.
func (s Selection) Run(kind Kind, doc config.Object) (config.Object, []Change, config.Faults) {
	return run(s.steps, kind, doc, Range{})
}

// After returns done after the selection has run. It never lowers a version.
func (s Selection) After(done Done) Done {
	out := maps.Clone(done)
	if out == nil {
		out = Done{}
	}
	for _, m := range s.steps {
		if v := layers.ParseSoftware(m.Version); !out.has(v) {
			out[v.Family] = m.Version
		}
	}
	return out
}

// Newer reports whether a migration's version is newer than another version of its family.
func (m Migration) Newer(than string) bool {
	v, w := layers.ParseSoftware(m.Version), layers.ParseSoftware(than)
	return len(w.Numbers) > 0 && v.Family == w.Family && v.Compare(w) > 0
}
