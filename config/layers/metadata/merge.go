package metadata

import (
	"maps"
	"slices"

	"edgespan/config"
)

// Merge adds a vendor's metadata. What is described already stays as it is: an entry of the vendor's that describes
// it otherwise is dropped as a whole, and is one of the conflicts; one that says the same is none. What either calls
// secret is secret, whoever was first. Its actions may be unknown at any depth; they are NO_ACTION then. With faults
// of the vendor's document there is no metadata.
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
			g.conflicts.Add(slices.Clone(g.path), "is described otherwise already",
				"the first description is kept, and this one dropped")
			if below != nil && their != nil {
				out[key], level.known[key] = hide(here, below, their)
			}
		}
		g.path = g.path[:len(g.path)-1]
	}
	return out, &level
}

func (g *merger) levels(doc, theirDoc any, p, theirs *param) (config.Object, *param) {
	own, _ := doc.(config.Object)
	other, _ := theirDoc.(config.Object)
	return g.level(own, other, p, theirs)
}

// hide is a description with what another of the same place calls secret. Where they are of different kinds, the whole
// place is secret if anything in it is.
func hide(doc any, p, theirs *param) (any, *param) {
	switch {
	case p.kind != theirs.kind && (p.hides() || theirs.hides()), theirs.secret:
		return conceal(doc, p)
	case !theirs.hides():
		return doc, p
	}
	o, _ := doc.(config.Object)
	out := *p
	out.known = maps.Clone(p.known)
	for key, their := range theirs.known {
		below := p.known[key]
		if below == nil {
			continue
		}
		at := []string{key}
		if p.kind == ObjectKind {
			at = []string{"objVal", "properties", key}
		}
		here, _ := config.Lookup(o, at)
		hidden, next := hide(here, below, their)
		o, out.known[key] = config.Set(o, at, hidden), next
	}
	if p.each != nil && theirs.each != nil {
		here, _ := config.Lookup(o, []string{"mapVal"})
		hidden, next := hide(here, p.each, theirs.each)
		o, out.each = config.Set(o, []string{"mapVal"}, hidden), next
	}
	return o, &out
}

// hides says whether a description calls anything secret.
func (p *param) hides() bool {
	if p.secret || p.each != nil && p.each.hides() {
		return true
	}
	for _, below := range p.known {
		if below.hides() {
			return true
		}
	}
	return false
}

// conceal makes a whole place secret: a level by all its entries.
func conceal(doc any, p *param) (any, *param) {
	o, _ := doc.(config.Object)
	out := *p
	if p.kind != Level {
		out.secret = true
		return config.Set(o, []string{"secret"}, true), &out
	}
	out.known = maps.Clone(p.known)
	for key, below := range p.known {
		hidden, next := conceal(o[key], below)
		o, out.known[key] = config.Set(o, []string{key}, hidden), next
	}
	return o, &out
}
