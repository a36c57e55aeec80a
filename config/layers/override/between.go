package override

import (
	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
)

// DifferenceEffects validates the step from one state of the layers to another, which may differ in any layers of any
// nodes. It makes the checks of groups 5 and 6 and returns the changes on the nodes of the second state, whose kinds
// and metadata apply to both.
func DifferenceEffects(was, now Inputs) (effects []Effect, warnings, faults WriteFaults) {
	e := editor{inputs: now, verdicts: map[string]*verdict{}}
	e.validateDifferences(was, now)
	return e.effects(), e.warnings.Merged(), e.faults.Merged()
}

// File applies a write to a configuration without layers: set replaces the document, modify merges into it, and a
// masked secret keeps the stored value. It refuses new and changed values of read-only and deprecated entries and makes
// no other checks.
func File(m *metadata.Metadata, op Op, old, request config.Object) (config.Object, WriteFaults) {
	e := editor{inputs: Inputs{Metadata: m}, change: Change{Layer: layers.Network, Op: op}, file: true}
	w := e.planPut("", old, request)
	e.checkMarks(w)
	if len(e.faults) > 0 {
		return nil, e.faults.Merged()
	}
	return w.new, nil
}

// layerName returns the name of the written layer for a fault; "" for a file without layers.
func (e *editor) layerName() string {
	if e.file {
		return ""
	}
	return e.change.Layer.String()
}

// place names the target of the write within a sentence.
func (e *editor) place() string {
	if e.file {
		return "the file"
	}
	return "the " + e.change.Layer.String() + " layer"
}
