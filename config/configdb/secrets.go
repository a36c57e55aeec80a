package configdb

import (
	"bytes"
	"strings"
)

// Secret is the path of a secret in the documents of a resource.
type Secret struct{ steps []segment }

// matchesAny reports whether a step matches every key and index.
func (s segment) matchesAny() bool { return s.text == "*" && !s.quoted }

// ParseSecret parses the path of a secret: keys and indices joined by dots, "*" for any of them, and a key that
// contains a dot or a star in quotes (users.*.password, 'settings:x.y'.key). An index matches every element of a list,
// since edits move elements.
func ParseSecret(path string) (Secret, error) {
	steps, err := splitKey(path)
	if err != nil {
		return Secret{}, err
	}
	return Secret{steps}, nil
}

// Below returns the secret's path in a document that contains the original one at a key.
func (s Secret) Below(key string) Secret {
	return Secret{append([]segment{{text: key, index: noIndex, quoted: true}}, s.steps...)}
}

// ParseSecrets parses several paths.
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

// masked replaces a secret for readers without permission to see it.
const masked = `{"$masked":true}`

// isMasked reports whether a value is a mask.
func isMasked(v JSON) bool { return string(v) == masked }

// Mask returns the document with {"$masked":true} in place of every secret, whatever its value.
func Mask(doc JSON, secrets []Secret) JSON { return (*Meter)(nil).mask(doc, secrets) }

// Mask is the function Mask, limited by the meter.
func (m *Meter) Mask(doc JSON, secrets []Secret) (out JSON, err error) {
	defer m.catch(&err)
	return m.mask(doc, secrets), nil
}

func (m *Meter) mask(doc JSON, secrets []Secret) JSON {
	k := masker{m: m, doc: doc}
	if len(doc) == 0 || len(secrets) == 0 {
		return doc
	}
	k.maskValue(0, len(doc), []*secretTree{treeOf(secrets)})
	if k.found == 0 {
		return doc
	}
	m.make(len(doc) - k.from)
	return append(k.out, doc[k.from:]...)
}

// secretTree is the prefix tree of the steps of secrets.
type secretTree struct {
	ends bool // a secret ends here
	any  *secretTree
	keys map[string]*secretTree
}

func treeOf(secrets []Secret) *secretTree {
	root := &secretTree{}
	for _, s := range secrets {
		at := root
		for _, step := range s.steps {
			if step.matchesAny() {
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

// masker copies a document and masks secrets. It reads only values that contain the path of a secret.
type masker struct {
	m     *Meter
	doc   JSON
	out   []byte
	from  int // offset of the first byte not copied yet
	found int // number of secrets
}

// maskValue processes a value that may contain secrets.
func (k *masker) maskValue(from, to int, at []*secretTree) {
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
		below = k.elementTrees(at)
	}
	for s := range parts(v) {
		k.m.count(24 * len(at))
		if v[0] == '{' {
			below = memberTrees(at, unquote(v[s.from+1:s.value-2]))
		}
		if len(below) > 0 {
			k.m.make(24 * len(below))
			k.maskValue(from+s.value, from+s.to, below)
		}
	}
}

// memberTrees returns the subtrees for a key of an object.
func memberTrees(at []*secretTree, key string) (below []*secretTree) {
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

// elementTrees returns the subtrees for the elements of a list.
func (k *masker) elementTrees(at []*secretTree) (below []*secretTree) {
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

// isIndex reports whether a step is an index of a list.
func isIndex(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// MayMask reports whether a document may contain a mask. Without one, Unmask does not need the stored document.
func MayMask(doc JSON) bool { return bytes.Contains(doc, []byte(masked)) }

// Unmask returns a new document with each mask in place of a secret replaced by the value that old has there, so that a
// writer who may not see a secret can change the values around it. An element of a list corresponds to the stored
// element that is equal apart from its secrets, at any index; in a list of the same length, otherwise to the element at
// its index. A mask without a stored value is an error of kind Malformed.
func (m *Meter) Unmask(doc, old JSON, secrets []Secret) (out JSON, err error) {
	defer m.catch(&err)
	if !MayMask(doc) {
		return doc, nil
	}
	root := &node{raw: doc, m: m}
	found := false
	was := &oldDocument{m: m, doc: doc, old: old, masked: m.mask(old, secrets), lists: map[string]*followedList{}}
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
				return malformed("%s is masked: nothing is stored there that could be kept: must be a value", formatPath(path))
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

// visit calls f for each value that matches the steps below a node at a path. It skips the content of masks.
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
		if !steps[0].matchesAny() && key != steps[0].text && (n.kind != '[' || !isIndex(steps[0].text)) {
			continue
		}
		n.m.make(16 * (len(path) + 1))
		if err := sub.visit(append(path[:len(path):len(path)], key), steps[1:], f); err != nil {
			return err
		}
	}
	return nil
}

// isSecretPath reports whether a path is at or below one of the secrets.
func isSecretPath(secrets []Secret, path []string) bool {
	for _, s := range secrets {
		if len(s.steps) > len(path) {
			continue
		}
		hit := true
		for i, step := range s.steps {
			hit = hit && (step.matchesAny() || step.text == path[i] || isIndex(step.text) && isIndex(path[i]))
		}
		if hit {
			return true
		}
	}
	return false
}
