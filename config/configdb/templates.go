package configdb

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits of the references of an effective value.
const (
	maxChain     = 100      // references in a chain
	maxResolved  = 16 << 20 // bytes that all references of one lookup expand to
	maxReference = 4 << 10  // bytes of a reference; a longer text is not a reference
)

// Source holds the inputs of a resource's effective value at one place. For readers who may not see secrets, both
// inputs are masked; a reference to a mask becomes a mask.
type Source struct {
	Defaults JSON     // content of its definition, the lowest layer; ignored unless it is an object
	Layers   []Object // values and overrides, the lowest first
	Deep     bool     // merge with MergeNested
}

// Load returns the source of a resource at the place of the lookup. It returns an *Error if the resource does not
// exist; Effective wraps its other errors.
type Load func(resource string) (Source, error)

// Effective returns the effective value of a resource and, for each of its members, the index of the layer that won; -1
// means the defaults. In strings of the defaults, and nowhere else, %{resource:key.path} refers to a value of a
// resource; its path is in Puppet's spelling of keys. A string that consists of one reference becomes that value, with
// its type. In longer text a string, number or boolean is inserted as text and null as nothing; an object or a list is
// an error. %%{ is a literal %{ (in a run of % before a {, each pair becomes one %), and a %{ that names no resource is
// kept. Effective resolves only what the result needs: a default that a layer replaces may have a broken reference. A
// reference to a missing value, or in a cycle, is an error of kind Conflict that names the chain of references.
func (m *Meter) Effective(resource string, load Load) (out Object, won []int, err error) {
	defer m.catch(&err)
	r := resolver{m: m, load: load, made: map[string]*mergedResource{}, known: map[string]JSON{}}
	return r.effective(resource)
}

// checkTemplate returns an error for a misspelt reference in a definition's content.
func (m *Meter) checkTemplate(content JSON) error {
	if !m.hasReferences(content) {
		return nil
	}
	if text, ok := content.Text(); ok {
		_, err := m.parseText(text)
		return err
	}
	index := 0
	for s := range parts(content) {
		if err := m.checkTemplate(content[s.value:s.to]); err != nil {
			key := strconv.Itoa(index)
			if content[0] == '{' {
				key = unquote(content[s.from+1 : s.value-2])
			}
			return malformed("%s: %v", key, err)
		}
		index++
	}
	return nil
}

// hasReferences reports whether a value may contain a reference.
func (m *Meter) hasReferences(v JSON) bool {
	m.count(len(v))
	// % and { may be escaped
	return bytes.Contains(v, []byte("%{")) || bytes.Contains(v, []byte(`\u0025`)) || bytes.Contains(v, []byte(`\u007`))
}

// mergedResource is a source with its merged layers.
type mergedResource struct {
	Source
	layers   Object
	won      []int
	defaults Object
}

type resolver struct {
	m     *Meter
	load  Load
	made  map[string]*mergedResource
	known map[string]JSON // by reference
	chain []string        // references under resolution
	size  int
}

func (r *resolver) source(resource string) (*mergedResource, error) {
	if m := r.made[resource]; m != nil {
		return m, nil
	}
	s, err := r.load(resource)
	if err != nil {
		return nil, err
	}
	m := &mergedResource{Source: s}
	m.layers, m.won = r.m.merge(s.Layers, true)
	if s.Deep {
		m.layers = r.m.mergeNested(s.Layers)
	}
	if len(s.Defaults) > 0 && s.Defaults[0] == '{' {
		if m.defaults, err = r.m.object(s.Defaults); err != nil {
			return nil, err
		}
	}
	r.made[resource] = m
	return m, nil
}

func (r *resolver) effective(resource string) (Object, []int, error) {
	m, err := r.source(resource)
	if err != nil || m.defaults.Len() == 0 {
		return m.orNothing(err)
	}
	var defaults []Member
	for _, d := range m.defaults.Members() {
		if _, replaced := m.layers.Get(d.Key); replaced && !m.joins(d.Key) {
			continue
		}
		if r.m.hasReferences(d.Value) {
			v, err := r.resolve(reference{resource, []string{d.Key}}, d.Value)
			if err != nil {
				return Object{}, nil, err
			}
			d = Member{Key: d.Key, Value: v}
		}
		r.m.make(2 * memberCost)
		defaults = append(defaults, d)
	}
	low := Object{members: defaults}
	out, won := r.m.merge([]Object{low, m.layers}, true)
	for i, m2 := range out.Members() {
		if won[i]--; won[i] == 0 {
			at, _ := m.layers.index(m2.Key)
			won[i] = m.won[at]
		}
	}
	if m.Deep {
		out = r.m.mergeNested([]Object{low, m.layers})
	}
	if r.size > 0 && nesting(r.m.json(out)) > MaxDepth {
		return Object{}, nil, conflict("template %s: it is nested too deep with what it refers to: must be at most %d levels",
			resource, MaxDepth)
	}
	return out, won, nil
}

func (m *mergedResource) orNothing(err error) (Object, []int, error) {
	if err != nil {
		return Object{}, nil, err
	}
	return m.layers, m.won, nil
}

// joins reports whether the defaults and the layers both have an object at a key, so that the two are merged.
func (m *mergedResource) joins(key string) bool {
	low, _ := m.defaults.Get(key)
	high, _ := m.layers.Get(key)
	return m.Deep && len(low) > 0 && low[0] == '{' && len(high) > 0 && high[0] == '{'
}

// reference is the path of a value in a resource.
type reference struct {
	resource string
	path     []string
}

func (f reference) String() string { return f.resource + ":" + formatPath(f.path) }

// resolve resolves the references in a value of the defaults; at is the position of that value.
func (r *resolver) resolve(at reference, v JSON) (JSON, error) {
	name := at.String()
	if i := slices.Index(r.chain, name); i >= 0 {
		return nil, conflict("template: its references go in a circle: %s", strings.Join(append(r.chain[i:], name), " -> "))
	}
	if len(r.chain) == maxChain {
		return nil, conflict("template: its references lead too far: %s -> … -> %s: must be at most %d in a row",
			r.chain[0],
			name, maxChain)
	}
	r.chain = append(r.chain, name)
	out, err := r.resolveValue(v)
	r.chain = r.chain[:len(r.chain)-1]
	return out, err
}

func (r *resolver) resolveValue(v JSON) (JSON, error) {
	if !r.m.hasReferences(v) {
		return v, nil
	}
	if text, ok := v.Text(); ok {
		if !strings.Contains(text, "%{") {
			return v, nil
		}
		return r.resolveText(text)
	}
	n := &node{raw: v, m: r.m}
	n.expand()
	for i, sub := range n.subs {
		below, err := r.resolveValue(sub.raw)
		if err != nil {
			return nil, err
		}
		n.subs[i].raw = below
	}
	return n.json(), nil
}

// resolveText resolves a string with references.
func (r *resolver) resolveText(text string) (JSON, error) {
	parts, err := r.m.parseText(text)
	if err != nil {
		return nil, conflict("template %s: %v", r.formatChain(), err)
	}
	if len(parts) == 1 && parts[0].reference != nil {
		v, err := r.resolveReference(*parts[0].reference)
		if err == nil {
			err = r.grow(len(v))
		}
		return v, err
	}
	var b strings.Builder
	for _, p := range parts {
		if p.reference == nil {
			b.WriteString(p.text)
			continue
		}
		v, err := r.resolveReference(*p.reference)
		if err != nil {
			return nil, err
		}
		s, ok := v.Text()
		switch {
		case isMasked(v):
			return v, nil
		case !ok && (v[0] == '{' || v[0] == '['):
			return nil, conflict("template %s: %%{%s} is %s: must be a string, a number, a boolean or null within text",
				r.formatChain(), p.reference, kindOf(v))
		case !ok && v[0] != 'n':
			s = string(v)
		}
		if err := r.grow(len(s)); err != nil {
			return nil, err
		}
		r.m.make(5 * len(s)) // the buffer grows, and the text is quoted
		b.WriteString(s)
	}
	return Quote(b.String()), nil
}

func (r *resolver) grow(n int) error {
	if r.size += n + 1; r.size > maxResolved {
		return conflict("template %s: its references stand for too much: must be at most %d bytes", r.formatChain(),
			maxResolved)
	}
	return nil
}

// formatChain formats the chain of references under resolution.
func (r *resolver) formatChain() string { return strings.Join(r.chain, " -> ") }

// resolveReference returns the value of a reference.
func (r *resolver) resolveReference(f reference) (JSON, error) {
	r.m.count(256)
	r.m.make(256)
	name := f.String()
	if v, ok := r.known[name]; ok {
		return v, nil
	}
	m, err := r.source(f.resource)
	if fault := (*Error)(nil); errors.As(err, &fault) {
		return nil, conflict("template %s: %%{%s}: %v", r.formatChain(), name, err)
	} else if err != nil {
		return nil, fmt.Errorf("template %s: %%{%s}: %w", r.formatChain(), name, err)
	}
	v, err := r.followPath(m, f)
	if err == nil {
		r.known[name] = v
	}
	return v, err
}

// followPath follows the path of a reference within its resource.
func (r *resolver) followPath(m *mergedResource, f reference) (JSON, error) {
	head := f.path[0]
	v, done := m.layers.Get(head)
	if !done {
		v, _ = m.defaults.Get(head)
	} else if m.joins(head) {
		low, _ := m.defaults.Get(head)
		low, err := r.resolve(reference{f.resource, f.path[:1]}, low)
		if err != nil {
			return nil, err
		}
		v = r.m.mergeMembers(Member{Key: head, Value: low}, Member{Key: head, Value: v}).Value
	}
	for i, key := range f.path[1:] {
		if v == nil || isMasked(v) {
			break
		}
		if !done && v[0] == '"' && r.m.hasReferences(v) {
			var err error
			if v, err = r.resolve(reference{f.resource, f.path[:i+1]}, v); err != nil {
				return nil, err
			}
			done = true
		}
		v, _ = r.m.child(v, key)
	}
	switch {
	case v == nil:
		return nil, conflict("template %s: %%{%s}: the resource %s has no such key there", r.formatChain(), f, f.resource)
	case done || !r.m.hasReferences(v):
		return v, nil
	}
	return r.resolve(f, v)
}
