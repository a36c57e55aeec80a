package metadata

import (
	"slices"

	"edgespan/config"
)

// Options are how a document is read.
type Options struct {
	// UnknownActions takes a vendor's actions, at every depth, for NO_ACTION.
	UnknownActions bool
	// E2E is metadata of the controller or the aggregator: their actions are known too, and
	// what is below flags describes command-line flags, whose values are strings.
	E2E bool
}

// Metadata is one document, compiled. It never changes; Merge makes another one.
type Metadata struct {
	doc      config.Object // expanded
	root     *param        // a level
	opts     Options
	warnings config.Faults
}

// Parse expands and compiles a document. With faults there is no metadata.
func Parse(doc config.Object, opts Options) (*Metadata, config.Faults) {
	expanded, faults := Expand(doc)
	if faults != nil {
		return nil, faults
	}
	c := compiler{opts: opts}
	root := c.level(expanded, inherited{})
	if len(c.faults) > 0 {
		c.faults.Sort()
		return nil, c.faults
	}
	return &Metadata{doc: expanded, root: root, opts: opts, warnings: c.warnings}, nil
}

// Document is the document with its copy-blocks expanded, and what was merged into it.
func (m *Metadata) Document() config.Object { return m.doc }

// Warnings are the places that mean less than they say: an action that takes effect on an
// object property only, on an entry. Those of what was merged are last.
func (m *Metadata) Warnings() config.Faults { return slices.Clone(m.warnings) }

// e2eFields are the top-level fields that only the controller's and the aggregator's
// configs have (reference terragraph-config §5).
var e2eFields = []string{
	"flags", "scanParams", "prefixAllocParams", "ignitionParams", "topologyParams", "upgradeParams", "dataEndpoints",
}

// IsE2E says whether a document describes the controller's or the aggregator's config: it
// has a field that only these have.
func IsE2E(doc config.Object) bool {
	return slices.ContainsFunc(e2eFields, func(field string) bool {
		_, has := doc[field]
		return has
	})
}
