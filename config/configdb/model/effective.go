package model

import (
	"edgespan/config/configdb"
)

// objects returns the contents of a stack, the lowest first.
func (t *stack) objects(b Blobs) ([]configdb.Object, error) {
	out := make([]configdb.Object, len(t.layers))
	for i, l := range t.layers {
		var err error
		if out[i], err = object(b, l.half); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// effective returns the effective value of a stack and, if the query requests them, the paths of the levels that won.
// Defaults apply to all places and have the path of the root.
func (t *stack) effective(b Blobs, q Query) (configdb.Object, []string, error) {
	if t.content.SHA != "" {
		return t.resolved(b, q)
	}
	layers, err := t.objects(b)
	if err != nil {
		return configdb.Object{}, nil, err
	}
	m, hidden := b.Meter(), t.secretsToMask(q.Reveal)
	merge := m.Merge
	if q.Deep {
		merge = m.MergeNested
	}
	o, err := merge(layers...)
	if err == nil {
		o, err = mask(m, o, hidden)
	}
	if err != nil || !q.Lookup {
		return o, nil, documentError(err, nil)
	}
	_, won, err := m.Lookup(layers...)
	return o, t.paths(won), documentError(err, nil)
}

// resolved returns the effective value with defaults, which may refer to other resources. It masks the secrets of each
// resource before a reference can copy them to another.
func (t *stack) resolved(b Blobs, q Query) (configdb.Object, []string, error) {
	load := func(name string) (configdb.Source, error) {
		from := t.others[name]
		if from == nil {
			text := "is not there"
			if f := t.missing[name]; f != nil {
				text = f.Text
			}
			return configdb.Source{}, &configdb.Error{Kind: configdb.Conflict, Text: text}
		}
		return from.source(b, q)
	}
	o, won, err := b.Meter().Effective(t.name, load)
	if err != nil {
		return o, nil, documentError(err, nil) // the inputs have masks already
	}
	return o, t.paths(won), nil
}

// source returns the inputs of a resource for templates.
func (t *stack) source(b Blobs, q Query) (configdb.Source, error) {
	layers, err := t.objects(b)
	if err != nil {
		return configdb.Source{}, err
	}
	hidden := t.secretsToMask(q.Reveal)
	m := b.Meter()
	for i, l := range layers {
		if layers[i], err = mask(m, l, hidden); err != nil {
			return configdb.Source{}, err
		}
	}
	out := configdb.Source{Layers: layers, Deep: q.Deep}
	if t.content.SHA == "" {
		return out, nil
	}
	if err := m.Spend(2*t.content.Size, t.content.Size); err != nil {
		return out, documentError(err, nil)
	}
	if out.Defaults, err = b.Blob(t.content.SHA); err == nil && t.content.Form == formTemplate {
		if err = m.Spend(0, len(out.Defaults)); err == nil {
			out.Defaults, _ = templateOf(out.Defaults)
		}
	}
	if err == nil && len(hidden) > 0 {
		out.Defaults, err = m.Mask(out.Defaults, parseSecrets(hidden))
	}
	return out, documentError(err, nil)
}

// paths returns the paths of the layers that won.
func (t *stack) paths(won []int) []string {
	out := make([]string, len(won))
	for i, w := range won {
		if out[i] = "/"; w >= 0 {
			out[i] = t.layers[w].path
		}
	}
	return out
}

// secretCost is the approximate memory of the path of a secret with its entry in the tree.
const secretCost = 1 << 10

// mask masks secrets.
func mask(m *configdb.Meter, o configdb.Object, secrets []string) (configdb.Object, error) {
	if len(secrets) == 0 {
		return o, nil
	}
	err := m.Spend(secretCost*len(secrets), secretCost*len(secrets))
	var text configdb.JSON
	if err == nil {
		text, err = m.JSON(o)
	}
	if err == nil {
		text, err = m.Mask(text, parseSecrets(secrets))
	}
	if err == nil {
		o, err = m.Object(text)
	}
	if err != nil {
		return configdb.Object{}, documentError(err, nil)
	}
	return o, nil
}
