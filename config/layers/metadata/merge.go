package metadata

import (
	"maps"
	"slices"

	"edgespan/config"
)

// Merge adds a vendor's metadata. It keeps existing entries: a vendor's entry with a different description is dropped
// completely and reported as a conflict; an equal one is no conflict. A place that either of them marks secret is
// secret. A vendor's unknown actions count as NO_ACTION, at any depth. If the vendor's document has faults, Merge
// returns no metadata.
func (m *Metadata) Merge(vendor config.Object) (merged *Metadata, conflicts, faults config.Faults) {
	opts := m.opts
	opts.UnknownActions = true
	theirs, faults := Parse(vendor, opts)
	if faults != nil {
		return nil, nil, faults
	}
	g := merger{opts: opts}
	doc, root := g.mergeLevel(m.doc, theirs.doc, m.root, theirs.root)
	g.conflicts.Sort()
	warnings := append(slices.Clone(m.warnings), theirs.warnings...)
	return &Metadata{doc: doc, root: root, opts: m.opts, warnings: warnings}, g.conflicts, nil
}

type merger struct {
	opts      Options
	path      []string
	conflicts config.Faults
}

// mergeLevel merges two levels without changing them.
func (g *merger) mergeLevel(doc, theirDoc config.Object, p, theirs *param) (config.Object, *param) {
	out, level := maps.Clone(doc), *p
	level.known = maps.Clone(p.known)
	for _, key := range config.Keys(theirDoc) {
		g.path = append(g.path, key)
		here, have := doc[key]
		switch below, their := p.known[key], theirs.known[key]; {
		case !have && their != nil:
			// The vendor's entry is compiled again, since it inherits strict from this level.
			c := compiler{opts: g.opts}
			out[key], level.known[key] = theirDoc[key], c.compileChild(theirDoc[key],
				inherited{strict: p.strict, flag: their.flag})
		case below != nil && their != nil && below.kind == Level && their.kind == Level:
			out[key], level.known[key] = g.mergeLevels(here, theirDoc[key], below, their)
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

func (g *merger) mergeLevels(doc, theirDoc any, p, theirs *param) (config.Object, *param) {
	own, _ := doc.(config.Object)
	other, _ := theirDoc.(config.Object)
	return g.mergeLevel(own, other, p, theirs)
}

// hide returns a description with the secret marks of another description of the same place. If their kinds differ, the
// complete place becomes secret if anything in it is.
func hide(doc any, p, theirs *param) (any, *param) {
	switch {
	case p.kind != theirs.kind && (p.hasSecrets() || theirs.hasSecrets()), theirs.secret:
		return conceal(doc, p)
	case !theirs.hasSecrets():
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

// hasSecrets reports whether anything in a description is secret.
func (p *param) hasSecrets() bool {
	if p.secret || p.each != nil && p.each.hasSecrets() {
		return true
	}
	for _, below := range p.known {
		if below.hasSecrets() {
			return true
		}
	}
	return false
}

// conceal marks a complete place as secret, a level by marking all its entries.
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
