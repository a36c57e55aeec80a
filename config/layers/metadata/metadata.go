package metadata

import (
	"slices"

	"edgespan/config"
)

// Options control how a document is parsed.
type Options struct {
	// UnknownActions accepts a vendor's unknown actions, at any depth, as NO_ACTION.
	UnknownActions bool
	// E2E marks metadata of the controller or the aggregator: their actions are known as well, and the top-level key flags
	// describes command-line flags, whose values are strings.
	E2E bool
}

// Metadata is one compiled document. It is immutable; Merge returns a new one.
type Metadata struct {
	doc      config.Object // expanded
	root     *param        // a level
	opts     Options
	warnings config.Faults
}

// Parse expands and compiles a document. If there are faults, it returns no metadata.
func Parse(doc config.Object, opts Options) (*Metadata, config.Faults) {
	expanded, faults := Expand(doc)
	if faults != nil {
		return nil, faults
	}
	c := compiler{opts: opts}
	root := c.compileLevel(expanded, inherited{})
	if len(c.faults) > 0 {
		c.faults.Sort()
		return nil, c.faults
	}
	return &Metadata{doc: expanded, root: root, opts: opts, warnings: c.warnings}, nil
}

// Document returns the document with expanded copy-blocks and merged vendor metadata.
func (m *Metadata) Document() config.Object { return m.doc }

// Warnings returns the places with an action that has no effect there: an entry with an action that works on object
// properties only. Those of merged metadata come last.
func (m *Metadata) Warnings() config.Faults { return slices.Clone(m.warnings) }

// e2eFields are the top-level fields that only configs of the controller and the aggregator have (reference
// terragraph-config §5).
var e2eFields = []string{
	"flags", "scanParams", "prefixAllocParams", "ignitionParams", "topologyParams", "upgradeParams", "dataEndpoints",
}

// IsE2E reports whether a document describes the config of the controller or the aggregator.
func IsE2E(doc config.Object) bool {
	return slices.ContainsFunc(e2eFields, func(field string) bool {
		_, has := doc[field]
		return has
	})
}
