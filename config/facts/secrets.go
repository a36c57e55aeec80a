package facts

// Secret is where documents of a resource have a secret.
type Secret struct{ steps []segment }

// any says whether a step is any key or index.
func (s segment) any() bool { return s.text == "*" && !s.quoted }

// ParseSecret reads where a secret is: keys and indices joined by dots, "*" for any of them, a
// key with a dot or a star in it in quotes (users.*.password, 'settings:x.y'.key).
func ParseSecret(path string) (Secret, error) {
	steps, err := splitKey(path)
	if err != nil {
		return Secret{}, err
	}
	return Secret{steps}, nil
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
func Mask(doc JSON, secrets []Secret) JSON {
	root := &node{raw: doc}
	found := false
	for _, s := range secrets {
		_ = root.visit(nil, s.steps, func(_ []string, n *node) error {
			*n, found = node{raw: JSON(masked)}, true
			return nil
		})
	}
	if !found {
		return doc
	}
	return root.append(nil)
}

// Unmask is a new document with each mask that stands in the place of a secret replaced by what old has
// there: who may not see a secret can write what is around it. Elements of a list are known
// by their index. A mask for which old has nothing is an error of kind Malformed.
func Unmask(doc, old JSON, secrets []Secret) (JSON, error) {
	root := &node{raw: doc}
	found := false
	for _, s := range secrets {
		err := root.visit(nil, s.steps, func(path []string, n *node) error {
			if !isMasked(n.append(nil)) {
				return nil
			}
			v, err := At(old, path)
			if err != nil {
				return malformed("%s is masked: nothing is stored there that could be kept: a value is allowed", spell(path))
			}
			*n, found = node{raw: v}, true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if !found {
		return doc, nil
	}
	return root.append(nil), nil
}

// HasSecret says whether the document has a value in the place of one of the secrets.
func HasSecret(doc JSON, secrets []Secret) bool {
	root := &node{raw: doc}
	found := false
	for _, s := range secrets {
		_ = root.visit(nil, s.steps, func([]string, *node) error {
			found = true
			return nil
		})
	}
	return found
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
		key := n.keyOf(i)
		if !steps[0].any() && key != steps[0].text {
			continue
		}
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
			hit = hit && (step.any() || step.text == path[i])
		}
		if hit {
			return true
		}
	}
	return false
}
