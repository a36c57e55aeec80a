package migrate

import (
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
)

// Kind is what a document is the configuration of.
type Kind string

// The kinds: a layer of nodes, and the files of the seed's E2E configuration.
const (
	Node       Kind = "node"
	Controller Kind = "controller"
	Aggregator Kind = "aggregator"
)

// Migration is one step to a version.
type Migration struct {
	Version string // that has the new keys: RELEASE_M78
	Kind    Kind
	What    string // one sentence for people
	do      func(*work)
}

// Change is one key that a migration moved or took out.
type Change struct {
	Version  string
	From, To []string // To is nil where the value is of no use any more
	// Kept: the new key was set already, otherwise than the old one. It stays, and the old
	// value is gone with its key.
	Kept bool
}

// All are the migrations in the order in which they run: by version, the older first.
func All() []Migration { return slices.Clone(all) }

// Range is from which version to which a document goes; "" is from the first and to the
// newest. With either, only migrations of that version's family run.
type Range struct{ From, To string }

// Run takes one document, bare (of one node, not {node: …}), through all migrations of its
// kind after From and up to To. It answers with the new document and what was changed; with
// faults there is none. What is migrated already stays, the document itself even.
func Run(kind Kind, doc config.Object, r Range) (config.Object, []Change, config.Faults) {
	return run(all, kind, doc, r)
}

func run(all []Migration, kind Kind, doc config.Object, r Range) (config.Object, []Change, config.Faults) {
	w := work{doc: doc}
	for _, m := range all {
		if m.Kind == kind && r.has(m.Version) {
			w.version = m.Version
			m.do(&w)
		}
	}
	if w.faults != nil {
		w.faults.Sort()
		return nil, nil, w.faults
	}
	return w.doc, w.changes, nil
}

// has says whether the migration to a version lies in the range.
func (r Range) has(version string) bool {
	v := layers.ParseSoftware(version)
	if r.From != "" {
		from := layers.ParseSoftware(r.From)
		if from.Family != v.Family || v.Compare(from) <= 0 {
			return false
		}
	}
	if r.To != "" {
		to := layers.ParseSoftware(r.To)
		if to.Family != v.Family || v.Compare(to) > 0 {
			return false
		}
	}
	return true
}

// Check says what is wrong with a range: a version that no number is in, of a family that
// has no migration, or a From that is newer than To.
func (r Range) Check() error { return r.check(all) }
