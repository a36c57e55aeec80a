package metadata

import (
	"maps"
	"slices"

	"edgespan/config"
)

// Merge adds a vendor's metadata. What is described already stays as it is: an entry of the
// vendor's that describes it otherwise is dropped as a whole, and is one of the conflicts;
// one that says the same is none. Its actions may be unknown at any depth; they are
// NO_ACTION then. With faults of the vendor's document there is no metadata.
func (m *Metadata) Merge(vendor config.Object) (merged *Metadata, conflicts, faults config.Faults) {
	opts := m.opts
	opts.UnknownActions = true
	theirs, faults := Parse(vendor, opts)
	if faults != nil {
		return nil, nil, faults
	}
	g := merger{opts: opts}
	doc, root := g.level(m.doc, theirs.doc, m.root, theirs.root)
	g.conflicts.Sort()
	warnings := append(slices.Clone(m.warnings), theirs.warnings...)
	return &Metadata{doc: doc, root: root, opts: m.opts, warnings: warnings}, g.conflicts, nil
}

type merger struct {
	opts      Options
	path      []string
	conflicts config.Faults
}

// level merges two levels, and changes neither.
func (g *merger) level(doc, theirDoc config.Object, p, theirs *param) (config.Object, *param) {
	out, level := maps.Clone(doc), *p
	level.known = maps.Clone(p.known)
	for _, key := range config.Keys(theirDoc) {
		g.path = append(g.path, key)
		here, have := doc[key]
		switch below, their := p.known[key], theirs.known[key]; {
		case !have && their != nil:
			// Compiled again: whether it is strict is for our levels to say.
			c := compiler{opts: g.opts}
			out[key], level.known[key] = theirDoc[key], c.child(theirDoc[key], inherited{strict: p.strict, flag: their.flag})
		case below != nil && their != nil && below.kind == Level && their.kind == Level:
			out[key], level.known[key] = g.levels(here, theirDoc[key], below, their)
		case !config.Equal(here, theirDoc[key]):
			g.conflicts.Add(slices.Clone(g.path), "is described otherwise already", "the first description is kept, and this one dropped")
		}
		g.path = g.path[:len(g.path)-1]
	}
	return out, &level
}

func (g *merger) levels(doc, theirDoc any, p, theirs *param) (config.Object, *param) {
	ours, _ := doc.(config.Object)
	other, _ := theirDoc.(config.Object)
	return g.level(ours, other, p, theirs)
}
