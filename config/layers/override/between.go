package override

import (
	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
)

// Between judges what makes another world of one: any layers of any nodes at once, whoever
// wrote them. It makes the checks of groups 5 and 6 and says what changes on the nodes of
// the second, whose kinds and metadata count for both.
func Between(was, is World) (effects []Effect, warnings, faults Faults) {
	e := editor{world: is, verdicts: map[string]*verdict{}}
	e.between(was, is)
	return e.effects(), e.warnings.Together(), e.faults.Together()
}

// File makes the new document of a configuration that has no layers: set replaces it,
// modify merges into it, and a secret that is masked keeps the stored value. What is
// read-only or deprecated may not be added or changed. Nothing else is checked.
func File(m *metadata.Metadata, op Op, old, request config.Object) (config.Object, Faults) {
	e := editor{world: World{Metadata: m}, change: Change{Layer: layers.Network, Op: op}, file: true}
	w := e.put("", old, request)
	e.marks(w)
	if len(e.faults) > 0 {
		return nil, e.faults.Together()
	}
	return w.new, nil
}

// layerName is that of the layer that is written, for a fault; "" of a file without layers.
func (e *editor) layerName() string {
	if e.file {
		return ""
	}
	return e.change.Layer.String()
}

// place names in a sentence what is written to.
func (e *editor) place() string {
	if e.file {
		return "the file"
	}
	return "the " + e.change.Layer.String() + " layer"
}
