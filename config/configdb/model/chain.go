package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"edgespan/config/configdb"
)

// Chain holds the inputs of one answer: the contents in their order, and how to merge them.
type Chain struct {
	q        Query
	revision uint64 // at which the answer is computed
	version  uint64 // of the values at the requested level
	own      *stack
	key      Key
	etag     string
}

// stack holds the contents of one resource at the places of a target, the lowest first.
type stack struct {
	name    string
	layers  []layered
	content content                  // of the definition, the lowest layer
	secrets []string                 // declared secrets
	masks   string                   // digest of secrets
	others  map[string]*stack        // resources that templates name, by name; all stacks of a chain share it
	missing map[string]*RequestError // resources that templates name and that don't exist
}

// layered is one content at one place.
type layered struct {
	path string // in the form of show_lookup
	kind Kind
	half half
}

// Chain collects the inputs of the answer to a query. It reads the store only for an older version or revision. The
// components, levels and nodes of an environment are the present ones; contents of definitions are those of the
// revision.
func (s *State) Chain(q Query, r Source) (*Chain, error) {
	if q.Kind != Values && (q.Kind != Overrides || q.Effective) {
		return nil, invalid("kind: invalid value %q: must be %q or %q, and of effective ones %q", q.Kind, Values, Overrides,
			Values)
	}
	if q.Lookup && !q.Effective {
		return nil, conflict("Lookup path tracing can be done only for effective values")
	}
	at, f := s.target(q.Target)
	if f == nil {
		f = s.checkKnown(at)
	}
	if f != nil {
		return nil, f
	}
	v := &view{s: s, r: r, m: r.Meter(), site: at, at: cmp.Or(q.Revision, s.head.Revision)}
	if v.at > s.head.Revision {
		return nil, notFound("revision %d: is not reached: 1 to %d are there", v.at, s.head.Revision)
	}
	c := &Chain{q: q, key: s.key}
	own, err := v.requestedHalf(q)
	if err != nil {
		return nil, err
	}
	c.revision = v.at
	if q.Effective {
		c.own, err = v.stack(at.definition, map[string]*stack{}, map[string]*RequestError{})
	} else {
		c.own = &stack{name: at.definition.Name, layers: []layered{{"", q.Kind, own}}, secrets: at.definition.Secrets,
			masks: at.definition.masks}
	}
	if err != nil {
		return nil, err
	}
	if c.version = own.version(); q.Kind == Overrides {
		if own, err = v.half(at.place(), at.definition, Values); err != nil {
			return nil, err
		}
		c.version = own.version()
	}
	c.etag, err = c.mark(v.m)
	return c, err
}

// view is a site at a revision.
type view struct {
	s    *State
	r    Source // of older versions and revisions
	m    *configdb.Meter
	site *site
	at   uint64
	// found is the half that the query names by version; half returns it without a search.
	found foundHalf
}

type foundHalf struct {
	p      place
	serial uint64 // serial of the definition
	k      Kind
	half
}

// half returns the version of a half at the view's revision.
func (v *view) half(p place, d *definition, k Kind) (half, error) {
	if f := v.found; f.N != 0 && f.p == p && f.serial == d.serial && f.k == k {
		return f.half, nil
	}
	n := v.site.environment.record(p, d.serial)
	return v.s.halfAsOf(v.r, p, d, k, v.at, *n.half(k))
}

// requestedHalf returns the half that a query names. If the query has a version, the view moves to the revision that
// wrote it.
func (v *view) requestedHalf(q Query) (half, error) {
	p, d := v.site.place(), v.site.definition
	if q.Version == 0 {
		return v.half(p, d, q.Kind)
	}
	if q.Revision != 0 {
		return half{}, invalid("version and revision together: must be only one of them")
	}
	n := v.site.environment.record(p, d.serial)
	h, err := v.s.version(v.r, p, d, q.Kind, q.Version, *n.half(q.Kind))
	v.at, v.found = h.Revision, foundHalf{p, d.serial, q.Kind, h}
	return h, err
}

// maxStacks limits the resources that one answer uses.
const maxStacks = 256

// stack returns the contents of one resource and of the resources that its templates name.
func (v *view) stack(d *definition, others map[string]*stack, missing map[string]*RequestError) (*stack, error) {
	if len(others) > maxStacks {
		return nil, tooLarge("template: it leads to too many resources: must be at most %d", maxStacks)
	}
	if err := v.m.Spend(512, 64*len(v.s.definitions)); err != nil {
		return nil, documentError(err, nil)
	}
	out := &stack{name: d.Name, content: d.content(v.at), secrets: d.Secrets, masks: d.masks, others: others,
		missing: missing}
	if out.content.Form == formOpaque {
		out.content = content{}
	}
	others[d.Name] = out
	path := "/"
	for i, p := range v.site.places {
		if i > 0 {
			l := v.site.levels[i-1]
			path += l.Level + "/" + l.Value + "/"
		}
		for _, k := range []Kind{Values, Overrides} {
			h, err := v.half(p, d, k)
			if err != nil {
				return nil, err
			}
			if h.SHA != "" {
				out.layers = append(out.layers, layered{path, k, h})
			}
		}
	}
	for _, name := range out.content.References {
		if others[name] != nil || missing[name] != nil {
			continue
		}
		if err := v.m.Spend(256, 16*len(v.s.definitions)); err != nil {
			return nil, documentError(err, nil)
		}
		other, f := v.s.resource(v.site.environment, Ref{Name: name})
		if f != nil {
			missing[name] = f
			continue
		}
		if _, err := v.stack(other, others, missing); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mark computes the ETag.
func (c *Chain) mark(m *configdb.Meter) (string, error) {
	q := c.q
	if !q.Effective && q.Key == nil {
		return c.key.rawETag(q.Kind, c.own.layers[0].half, c.own.secretsToMask(q.Reveal)), nil
	}
	var b strings.Builder
	key, err := json.Marshal(q.Key)
	if err != nil {
		key = nil // impossible: they are texts
	}
	fmt.Fprintf(&b, "%s effective=%t lookup=%t deep=%t key=%s\n", q.Kind, q.Effective, q.Lookup, q.Deep, key)
	if err := c.own.mark(m, &b, q.Reveal); err != nil {
		return "", err
	}
	return c.key.quoted(b.String()), nil
}

// hasSecrets reports whether any resource of the stack declares secrets.
func (t *stack) hasSecrets() bool {
	for _, other := range t.others {
		if len(other.secrets) > 0 {
			return true
		}
	}
	return len(t.secrets) > 0
}

// secretsToMask returns the secrets to mask for a caller.
func (t *stack) secretsToMask(reveal bool) []string {
	if reveal {
		return nil
	}
	return t.secrets
}

// mark writes the identities of the stack's inputs.
func (t *stack) mark(m *configdb.Meter, b *strings.Builder, reveal bool) error {
	one := func(t *stack) {
		without := t.masks
		if reveal {
			without = ""
		}
		fmt.Fprintf(b, "%q content %s without %s\n", t.name, t.content.SHA, without)
		for _, l := range t.layers {
			fmt.Fprintf(b, "%q %s %d %s\n", l.path, l.kind, l.half.N, l.half.SHA)
		}
	}
	if err := m.Spend(markCost*(1+len(t.others)+len(t.missing)), 0); err != nil {
		return documentError(err, nil)
	}
	one(t)
	for _, name := range sortedKeys(t.others) {
		if name != t.name {
			one(t.others[name])
		}
	}
	for _, name := range sortedKeys(t.missing) {
		fmt.Fprintf(b, "%q %s\n", name, t.missing[name].Text)
	}
	return nil
}

// markCost is the approximate memory of one resource in a mark.
const markCost = 1 << 10

// ETag identifies the inputs of the answer, with quotes: it is the same on each replica and after a restart.
func (c *Chain) ETag() string { return c.etag }

// Unmodified returns the answer without a body.
func (c *Chain) Unmodified() Answer {
	return Answer{Secret: c.own.hasSecrets(), ETag: c.etag, Version: c.version, Revision: c.revision}
}

// Answer computes the answer. Its faults are of kind Conflict, such as a missing key or a template with a cycle.
func (c *Chain) Answer(b Blobs) (Answer, error) {
	doc, paths, err := c.document(b)
	if err != nil {
		return Answer{}, err
	}
	out := c.Unmodified()
	out.Body, err = c.formatBody(b.Meter(), doc, paths)
	return out, err
}

// Keys applies keys/get to the chain's answer: it returns a list of values in the order of the paths.
func (c *Chain) Keys(b Blobs, edit configdb.KeysEdit) (Answer, error) {
	doc, _, err := c.document(b)
	if err != nil {
		return Answer{}, err
	}
	m := b.Meter()
	text, err := m.JSON(doc)
	if err != nil {
		return Answer{}, documentError(err, nil)
	}
	found, err := m.Get(edit, text)
	if err != nil {
		return Answer{}, documentError(err, nil) // the text has masks already
	}
	out := c.Unmodified()
	out.ETag = c.key.quoted(c.etag + string(encode(edit)))
	out.Body, err = listed(m, found...)
	return out, err
}

// listed returns a list, limited by the meter.
func listed(m *configdb.Meter, values ...configdb.JSON) (configdb.JSON, error) {
	size := len("[]")
	for _, v := range values {
		size += len(v) + 1
	}
	if err := m.Spend(3*size, size); err != nil { // the buffer grows
		return nil, documentError(err, nil)
	}
	return list(values...), nil
}

func list(values ...configdb.JSON) configdb.JSON {
	out := configdb.JSON("[")
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

// document returns the complete document, and the paths of the levels that won in the order of its members.
func (c *Chain) document(b Blobs) (configdb.Object, []string, error) {
	if c.q.Effective {
		return c.own.effective(b, c.q)
	}
	h := c.own.layers[0].half
	if h.SHA == "" {
		return configdb.Object{}, nil, nil
	}
	o, err := object(b, h)
	if err != nil {
		return configdb.Object{}, nil, err
	}
	o, err = mask(b.Meter(), o, c.own.secretsToMask(c.q.Reveal))
	return o, nil, err
}

func object(b Blobs, h half) (configdb.Object, error) {
	m := b.Meter()
	if err := m.Spend(2*h.Size, h.Size); err != nil { // the packed form as well
		return configdb.Object{}, documentError(err, nil)
	}
	v, err := b.Blob(h.SHA)
	if err != nil {
		return configdb.Object{}, fmt.Errorf("read content: %w", err)
	}
	o, err := m.Object(v)
	if configdb.IsTooLarge(err) {
		return o, documentError(err, nil)
	}
	if err != nil {
		return o, fmt.Errorf("read content %s: %w", h.SHA, err)
	}
	return o, nil
}

// formatBody formats the document, or the requested key of it, as the body.
func (c *Chain) formatBody(m *configdb.Meter, doc configdb.Object, paths []string) ([]byte, error) {
	if c.q.Key != nil {
		text, err := m.JSON(doc)
		if err != nil {
			return nil, documentError(err, nil)
		}
		v, err := m.At(text, c.q.Key)
		if err != nil {
			return nil, documentError(err, nil) // the text has masks already
		}
		if !c.q.Lookup {
			return v, nil
		}
		for i, one := range doc.Members() {
			if one.Key == c.q.Key[0] {
				return listed(m, v, configdb.Quote(paths[i]))
			}
		}
	}
	if !c.q.Lookup {
		text, err := m.JSON(doc)
		return text, documentError(err, nil)
	}
	size := 0
	for i, one := range doc.Members() {
		if size += len(one.Key) + len(one.Value) + len(paths[i]) + 16; size > configdb.MaxAnswer {
			return nil, tooLarge("the answer: has more than %d MiB with the levels of its keys: ask for less at once",
				configdb.MaxAnswer>>20)
		}
	}
	if err := m.Spend(3*size+64*doc.Len(), size); err != nil {
		return nil, documentError(err, nil)
	}
	ms := make([]configdb.Member, doc.Len())
	for i, one := range doc.Members() {
		ms[i] = configdb.Member{Key: one.Key, Value: list(one.Value, configdb.Quote(paths[i]))}
	}
	return configdb.NewObject(ms).JSON(), nil
}
