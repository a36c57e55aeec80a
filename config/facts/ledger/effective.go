package ledger

import (
	"edgespan/config/facts"
)

// objects are the contents of a stack, the lowest first.
func (t *stack) objects(b Blobs) ([]facts.Object, error) {
	out := make([]facts.Object, len(t.layers))
	for i, l := range t.layers {
		var err error
		if out[i], err = object(b, l.half.SHA); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// effective is the effective value of a stack, with the paths of the levels that won if they are
// asked for. Defaults, which are those of all places, have the path of the root.
func (t *stack) effective(b Blobs, q Query) (facts.Object, []string, error) {
	if t.content.SHA != "" {
		return t.resolved(b, q)
	}
	layers, err := t.objects(b)
	if err != nil {
		return facts.Object{}, nil, err
	}
	hidden := t.hidden(q.Reveal)
	merge := facts.Merge
	if q.Deep {
		merge = facts.MergeNested
	}
	o := merge(layers...)
	if !q.Lookup {
		return mask(o, hidden), nil, nil
	}
	_, won := facts.Lookup(layers...)
	return mask(o, hidden), t.paths(won), nil
}

// resolved is the effective value over defaults, which may refer to other resources. What a caller may not see is
// masked in each of them, before it can come into another.
func (t *stack) resolved(b Blobs, q Query) (facts.Object, []string, error) {
	load := func(name string) (facts.Source, error) {
		from := t.others[name]
		if from == nil {
			text := "is not there"
			if f := t.missing[name]; f != nil {
				text = f.Text
			}
			return facts.Source{}, &facts.Error{Kind: facts.Conflict, Text: text}
		}
		return from.source(b, q)
	}
	o, won, err := facts.Effective(t.name, load)
	if err != nil {
		return o, nil, ofDocument(err, nil) // it was masked before
	}
	return o, t.paths(won), nil
}

// source is what a template finds of a resource.
func (t *stack) source(b Blobs, q Query) (facts.Source, error) {
	layers, err := t.objects(b)
	if err != nil {
		return facts.Source{}, err
	}
	hidden := t.hidden(q.Reveal)
	for i, l := range layers {
		layers[i] = mask(l, hidden)
	}
	out := facts.Source{Layers: layers, Deep: q.Deep}
	if t.content.SHA == "" {
		return out, nil
	}
	if out.Defaults, err = b.Blob(t.content.SHA); err == nil && len(hidden) > 0 {
		out.Defaults = facts.Mask(out.Defaults, parsed(hidden))
	}
	return out, err
}

// paths are those of the layers that won.
func (t *stack) paths(won []int) []string {
	out := make([]string, len(won))
	for i, w := range won {
		if out[i] = "/"; w >= 0 {
			out[i] = t.layers[w].path
		}
	}
	return out
}

// mask hides what a caller may not see.
func mask(o facts.Object, secrets []string) facts.Object {
	if len(secrets) == 0 {
		return o
	}
	masked, err := facts.ObjectOf(facts.Mask(o.JSON(), parsed(secrets)))
	if err != nil {
		return facts.Object{} // never: the mask of an object is one, and rather nothing than a secret
	}
	return masked
}
