package configdb

import (
	"bytes"
	"strings"
)

// Secret is where documents of a resource have a secret.
type Secret struct{ steps []segment }

// any says whether a step is any key or index.
func (s segment) any() bool { return s.text == "*" && !s.quoted }

// ParseSecret reads where a secret is: keys and indices joined by dots, "*" for any of them, a
// key with a dot or a star in it in quotes (users.*.password, 'settings:x.y'.key). An index of a
// list is any of it: what is at it moves where another element goes.
func ParseSecret(path string) (Secret, error) {
	steps, err := splitKey(path)
	if err != nil {
		return Secret{}, err
	}
	return Secret{steps}, nil
}

// Below is the secret where the document is what another has at a key.
func (s Secret) Below(key string) Secret {
	return Secret{append([]segment{{text: key, index: noIndex, quoted: true}}, s.steps...)}
}

// ParseSecrets reads several.
func ParseSecrets(paths []string) ([]Secret, error) {
	out := make([]Secret, len(paths))
	for i, p := range paths {
		var err error
		if out[i], err = ParseSecret(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// masked is what stands in the place of a secret for those who may not see it.
const masked = `{"$masked":true}`

// isMasked says whether a value is a mask.
func isMasked(v JSON) bool { return string(v) == masked }

// Mask is the document with {"$masked":true} in the place of each secret that it has, whatever its value.
func Mask(doc JSON, secrets []Secret) JSON { return (*Meter)(nil).mask(doc, secrets) }

// Mask is the function of that name within a bound.
func (m *Meter) Mask(doc JSON, secrets []Secret) (out JSON, err error) {
	defer m.catch(&err)
	return m.mask(doc, secrets), nil
}

func (m *Meter) mask(doc JSON, secrets []Secret) JSON {
	k := masker{m: m, doc: doc}
	if len(doc) == 0 || len(secrets) == 0 {
		return doc
	}
	k.value(0, len(doc), []*secretTree{treeOf(secrets)})
	if k.found == 0 {
		return doc
	}
	m.make(len(doc) - k.from)
	return append(k.out, doc[k.from:]...)
}

// secretTree has the steps of secrets, those that begin alike together.
type secretTree struct {
	ends bool // a secret lies here
	any  *secretTree
	keys map[string]*secretTree
}

func treeOf(secrets []Secret) *secretTree {
	root := &secretTree{}
	for _, s := range secrets {
		at := root
		for _, step := range s.steps {
			if step.any() {
				if at.any == nil {
					at.any = &secretTree{}
				}
				at = at.any
				continue
			}
			if at.keys == nil {
				at.keys = map[string]*secretTree{}
			}
			if at.keys[step.text] == nil {
				at.keys[step.text] = &secretTree{}
			}
			at = at.keys[step.text]
		}
		at.ends = true
	}
	return root
}

// masker copies a document and leaves out what lies at paths. What has none of them on its way is not looked into.
type masker struct {
	m     *Meter
	doc   JSON
	out   []byte
	from  int // what is not copied yet
	found int // secrets
}

// value goes through a value at which secrets may lie.
func (k *masker) value(from, to int, at []*secretTree) {
	v := k.doc[from:to]
	for _, t := range at {
		if t.ends {
			k.found++
			k.m.make(2 * (from - k.from + len(masked)))
			k.out = append(append(k.out, k.doc[k.from:from]...), masked...)
			k.from = to
			return
		}
	}
	if v[0] != '{' && v[0] != '[' || isMasked(v) {
		return
	}
	k.m.count(len(v))
	var below []*secretTree
	if v[0] == '[' {
		below = k.elements(at)
	}
	for s := range parts(v) {
		k.m.count(24 * len(at))
		if v[0] == '{' {
			below = members(at, unquote(v[s.from+1:s.value-2]))
		}
		if len(below) > 0 {
			k.m.make(24 * len(below))
			k.value(from+s.value, from+s.to, below)
		}
	}
}

// members are the secrets below a key of an object.
func members(at []*secretTree, key string) (below []*secretTree) {
	for _, t := range at {
		if t.any != nil {
			below = append(below, t.any)
		}
		if t := t.keys[key]; t != nil {
			below = append(below, t)
		}
	}
	return below
}

// elements are the secrets below any element of a list.
func (k *masker) elements(at []*secretTree) (below []*secretTree) {
	for _, t := range at {
		if t.any != nil {
			below = append(below, t.any)
		}
		k.m.count(24 * len(t.keys))
		for key, sub := range t.keys {
			if isIndex(key) {
				below = append(below, sub)
			}
		}
	}
	return below
}

// isIndex says whether a step is an index where it comes to a list.
func isIndex(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// MayMask says whether a document may have a mask in it: only then what is stored counts for Unmask.
func MayMask(doc JSON) bool { return bytes.Contains(doc, []byte(masked)) }

// Unmask is a new document with each mask that stands in the place of a secret replaced by what old has
// there: who may not see a secret can write what is around it. An element of a list is the stored
// one that says the same but for its secrets, wherever that was; in a list of the same length also
// the one at its index. A mask for which old has nothing is an error of kind Malformed.
func (m *Meter) Unmask(doc, old JSON, secrets []Secret) (out JSON, err error) {
	defer m.catch(&err)
	if !MayMask(doc) {
		return doc, nil
	}
	root := &node{raw: doc, m: m}
	found := false
	was := &before{m: m, doc: doc, old: old, masked: m.mask(old, secrets), lists: map[string]*followed{}}
	for _, s := range secrets {
		err := root.visit(nil, s.steps, func(path []string, n *node) error {
			if !isMasked(n.json()) {
				return nil
			}
			v, err := was.at(path)
			if IsTooLarge(err) {
				return err
			}
			if err != nil {
				return malformed("%s is masked: nothing is stored there that could be kept: must be a value", spell(path))
			}
			*n, found = node{raw: v, m: m}, true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if !found {
		return doc, nil
	}
	return root.json(), nil
}

// visit calls f with each value at the steps below a node that stands at a path. What lies in a
// mask is not visited.
func (n *node) visit(path []string, steps []segment, f func(path []string, n *node) error) error {
	if len(steps) == 0 {
		return f(path, n)
	}
	if n.kind == 0 && isMasked(n.raw) {
		return nil
	}
	n.expand()
	for i, sub := range n.subs {
		n.m.count(16)
		key := n.keyOf(i)
		if !steps[0].any() && key != steps[0].text && (n.kind != '[' || !isIndex(steps[0].text)) {
			continue
		}
		n.m.make(16 * (len(path) + 1))
		if err := sub.visit(append(path[:len(path):len(path)], key), steps[1:], f); err != nil {
			return err
		}
	}
	return nil
}

// touches says whether a path leads to one of the secrets, or below it.
func touches(secrets []Secret, path []string) bool {
	for _, s := range secrets {
		if len(s.steps) > len(path) {
			continue
		}
		hit := true
		for i, step := range s.steps {
			hit = hit && (step.any() || step.text == path[i] || isIndex(step.text) && isIndex(path[i]))
		}
		if hit {
			return true
		}
	}
	return false
}
