package override

import (
	"slices"

	"edgespan/config"
	"edgespan/config/layers/metadata"
)

// marks adds a fault for each read-only or deprecated entry at or below which a write adds or changes a value. Paths
// are lists of keys, so a key with a dot in it can't evade the check.
func (e *editor) marks(w write) {
	rules := e.world.rules(e.world.Nodes[w.node].Kind)
	for path := range changes(w.old, w.new) {
		for rule, is := range map[string]func(metadata.Entry) bool{
			RuleReadOnly:   func(m metadata.Entry) bool { return m.ReadOnly },
			RuleDeprecated: func(m metadata.Entry) bool { return m.Deprecated },
		} {
			n := marked(rules, path, is)
			if n > 0 {
				e.mark(w, path[:n], rule)
			}
		}
	}
}

func (e *editor) mark(w write, entry []string, rule string) {
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

// marked returns the length of the path to the first entry on a path that has a mark, or 0.
func marked(meta *metadata.Metadata, path []string, is func(metadata.Entry) bool) int {
	if meta == nil {
		return 0
	}
	for n := 1; n <= len(path); n++ {
		if m, known := meta.Entry(path[:n]); known && is(m) {
			return n
		}
	}
	return 0
}

// changes iterates over the paths of values in new that differ from old: scalars, arrays and empty objects. A path is
// valid only until the next one.
func changes(old, after config.Object) func(func([]string) bool) {
	return func(yield func([]string) bool) { changed(old, after, nil, yield) }
}

func changed(old, after config.Object, path []string, yield func([]string) bool) bool {
	for _, key := range config.Keys(after) {
		at := append(path[:len(path):len(path)], key)
		v := after[key]
		was, had := old[key]
		below, is := v.(config.Object)
		before, wasObject := was.(config.Object)
		switch {
		case is && (len(below) > 0 || wasObject):
			if !changed(before, below, at, yield) {
				return false
			}
		case had && config.Equal(was, v):
		case !yield(at):
			return false
		}
	}
	return true
}
