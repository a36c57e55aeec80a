package migrate

import (
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
)

// Done is up to which version the layers of a fleet were migrated, by the family of the versions.
type Done map[string]string

// Selection is the migrations that are due for a fleet, in the order in which they run.
type Selection struct {
	steps []Migration
	// Held are those that wait, since some node runs a version without the new keys.
	Held []Migration
}

// Due selects what a fleet's layers need: the migrations after done, up to the oldest version of
// their family that a node runs. To such a node the new keys say nothing, and the old ones do.
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

// Level selects what brings documents from elsewhere to where the layers of a fleet are, or will
// be after Due: old keys of what was done before too.
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

// oldestOf is the oldest version of each family.
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
	to, is := d[v.Family]
	return is && v.Compare(layers.ParseSoftware(to)) <= 0
}

// Steps are the migrations of the selection.
func (s Selection) Steps() []Migration { return slices.Clone(s.steps) }

// Run takes one document through the selection, as the function Run does.
func (s Selection) Run(kind Kind, doc config.Object) (config.Object, []Change, config.Faults) {
	return run(s.steps, kind, doc, Range{})
}

// After is what is done once the selection has run. Nothing that was done is taken back.
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

// Newer says whether a migration is to a newer version of the family than the given one is.
func (m Migration) Newer(than string) bool {
	v, w := layers.ParseSoftware(m.Version), layers.ParseSoftware(than)
	return len(w.Numbers) > 0 && v.Family == w.Family && v.Compare(w) > 0
}
