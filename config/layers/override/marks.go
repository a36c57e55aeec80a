package override

import (
	"slices"

	"edgespan/config"
	"edgespan/config/layers/metadata"
)

// checkMarks adds a fault for each read-only or deprecated entry at or below which a write adds or changes a value.
// Paths are lists of keys, so a key with a dot in it can't evade the check.
func (e *editor) checkMarks(w write) {
	rules := e.inputs.rules(e.inputs.Nodes[w.node].Kind)
	for path := range walkChanges(w.old, w.new) {
		for rule, match := range map[string]func(metadata.Entry) bool{
			RuleReadOnly:   func(m metadata.Entry) bool { return m.ReadOnly },
			RuleDeprecated: func(m metadata.Entry) bool { return m.Deprecated },
		} {
			n := countMarked(rules, path, match)
			if n > 0 {
				e.checkMark(w, path[:n], rule)
			}
		}
	}
}

func (e *editor) checkMark(w write, entry []string, rule string) {
	what := map[string]string{RuleReadOnly: "is read-only", RuleDeprecated: "is deprecated"}[rule]
	v, _ := config.Lookup(w.new, entry)
	old, had := config.Lookup(w.old, entry)
	allowed := "it can't be set"
	if had {
		allowed = "must be the stored value or none: " + config.Shorten(config.OneLine(e.show(entry, old)))
	}
	e.add(WriteFault{
		Nodes: w.nodes(), Path: slices.Clone(entry), Value: e.show(entry, v), Rule: rule, Layer: e.layerName(),
		Problem: what + ", and would be " + config.Shorten(config.OneLine(e.show(entry, v))), Expectation: allowed,
	})
}

// countMarked returns the length of the path to the first entry on a path that has a mark, or 0.
func countMarked(meta *metadata.Metadata, path []string, match func(metadata.Entry) bool) int {
	if meta == nil {
		return 0
	}
	for n := 1; n <= len(path); n++ {
		if m, known := meta.Entry(path[:n]); known && match(m) {
			return n
		}
	}
	return 0
}

// walkChanges iterates over the paths of values in new that differ from old: scalars, arrays and empty objects. A path
// is valid only until the next one.
func walkChanges(old, after config.Object) func(func([]string) bool) {
	return func(yield func([]string) bool) { walkChanged(old, after, nil, yield) }
}

func walkChanged(old, after config.Object, path []string, yield func([]string) bool) bool {
	for _, key := range config.Keys(after) {
		at := append(path[:len(path):len(path)], key)
		v := after[key]
		was, had := old[key]
		below, ok := v.(config.Object)
		before, wasObject := was.(config.Object)
		switch {
		case ok && (len(below) > 0 || wasObject):
			if !walkChanged(before, below, at, yield) {
				return false
			}
		case had && config.Equal(was, v):
		case !yield(at):
			return false
		}
	}
	return true
}
