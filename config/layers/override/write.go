package override

import (
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
)

// planWrites returns the new layers and adds faults of the request. Writes to the node layer are sorted by node.
func (e *editor) planWrites() []write {
	if len(e.change.Overrides) == 0 && e.change.Op != Unset && e.change.Layer == layers.Node {
		e.add(WriteFault{Rule: RuleRequest, Problem: "the write names no node", Expectation: "must be {node: {…}}"})
	}
	if e.change.Op == Unset {
		if len(e.change.Keys) == 0 {
			e.add(WriteFault{Rule: RuleRequest, Problem: "the write names no key", Expectation: "must be one or more"})
		}
		return e.planUnsets()
	}
	if e.change.Layer == layers.Network {
		return []write{e.planPut("", e.inputs.Network, e.change.Overrides)}
	}
	var out []write
	for _, node := range config.Keys(e.change.Overrides) {
		e.checkMember(node)
		out = append(out, e.planPut(node, e.inputs.Nodes[node].Own, e.change.Overrides[node]))
	}
	return out
}

// checkMember adds a fault for a node that is not in the topology or has no name.
func (e *editor) checkMember(node string) {
	if node == "" {
		e.add(WriteFault{Rule: RuleRequest, Problem: "the name of a node is empty", Expectation: "must be {node: {…}}"})
	}
	if e.inputs.InTopology != nil && !e.inputs.InTopology[node] {
		e.add(WriteFault{Nodes: []string{node}, Rule: RuleTopology, Problem: "not in the topology",
			Expectation: "must be a node of the topology"})
	}
}

// planPut sets or modifies one layer.
func (e *editor) planPut(node string, old config.Object, request any) write {
	w := write{node: node, old: old}
	o, ok := request.(config.Object)
	if !ok {
		e.add(WriteFault{
			Nodes: w.nodes(), Value: request, Rule: RuleRequest,
			Problem: config.InvalidType(config.KindOf(request)), Expectation: "must be an object: {node: {…}}",
		})
		w.broken = true
		return w
	}
	o, _ = e.unmask(w, nil, old, o).(config.Object)
	if e.change.Op == Set {
		w.new = o
		return w
	}
	merged, clashes := config.Merge(old, o)
	for _, c := range clashes {
		e.add(WriteFault{
			Nodes: w.nodes(), Path: c.Path, Value: e.show(c.Path, c.Above), Rule: RuleClash, Layer: e.layerName(),
			Problem:     config.InvalidType(config.KindOf(c.Above)) + " in the write over an object in " + e.place(),
			Expectation: layers.MustBeObject,
		})
	}
	w.new = merged
	return w
}

// unmask replaces masks by the stored secrets.
func (e *editor) unmask(w write, path []string, old, request any) any {
	o, ok := request.(config.Object)
	if !ok {
		return request
	}
	if hasMask(o) && e.isSecret(path) {
		if old == nil {
			e.add(WriteFault{
				Nodes: w.nodes(), Path: slices.Clone(path), Value: request, Rule: RuleRequest, Layer: e.layerName(),
				Problem: "is masked, and " + e.place() + " has no value to keep", Expectation: "must be the secret itself",
			})
		}
		return old
	}
	below, _ := old.(config.Object)
	out := make(config.Object, len(o))
	for key, v := range o {
		out[key] = e.unmask(w, config.Below(path, key), below[key], v)
	}
	return out
}

// isSecret reports whether a place is secret or inside a secret.
func (e *editor) isSecret(path []string) bool {
	return isSecret(e.inputs.Metadata, path)
}

// show returns a value for a message; secrets are masked.
func (e *editor) show(path []string, v any) any {
	if e.isSecret(path) {
		return config.Object{maskKey: true}
	}
	return v
}

// planUnsets removes keys, each of which must be in the old layer.
func (e *editor) planUnsets() []write {
	if e.change.Layer == layers.Network {
		return []write{e.planUnset("", e.inputs.Network, e.change.Keys)}
	}
	keys := map[string][][]string{}
	for _, key := range e.change.Keys {
		if len(key) > 0 {
			keys[key[0]] = append(keys[key[0]], key[1:])
		}
	}
	var out []write
	for _, node := range sortedKeys(keys) {
		e.checkMember(node)
		out = append(out, e.planUnset(node, e.inputs.Nodes[node].Own, keys[node]))
	}
	return out
}

func (e *editor) planUnset(node string, old config.Object, keys [][]string) write {
	w := write{node: node, old: old, new: old}
	for _, key := range keys {
		if _, found := config.Lookup(old, key); !found || old == nil {
			e.add(WriteFault{
				Nodes: w.nodes(), Path: key, Rule: RuleRequest,
				Problem: "not in " + e.place(), Expectation: "must be a key of that layer",
			})
			continue
		}
		w.new = config.Prune(w.new, key)
	}
	if node != "" && len(w.new) == 0 {
		w.new = nil
	}
	return w
}
