package migrate

import (
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
)

// Kind is the kind of configuration in a document.
type Kind string

// The kinds: a layer of nodes, and the files of the seed's E2E configuration.
const (
	Node       Kind = "node"
	Controller Kind = "controller"
	Aggregator Kind = "aggregator"
)

// Migration is one step to a version.
type Migration struct {
	Version string // the first with the new keys: RELEASE_M78
	Kind    Kind
	What    string // one sentence for people
	do      func(*work)
}

// Change is one key that a migration moved or removed.
type Change struct {
	Version  string
	From, To []string // To is nil if the value is obsolete
	// Kept reports that the new key already had a different value. That value is kept, and the old one is removed with its
	// key.
	Kept bool
}

// All returns the migrations in the order in which they run, older versions first.
func All() []Migration { return slices.Clone(all) }

// Range limits the migrations of a document to those after From and up to To. An empty From means the first version, an
// empty To the newest. If either is set, only migrations of its family run.
type Range struct{ From, To string }

// Run applies all migrations of a kind after From and up to To to one document (of one node, not {node: …}). It returns
// the new document and the changes; with faults it returns no document. Parts that are already migrated do not change;
// if all are, Run returns the document itself.
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

// has reports whether the migration to a version is in the range.
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

// Check returns an error for an invalid range: a version without a number, a family without migrations, or a From that
// is newer than To.
func (r Range) Check() error { return r.check(all) }
