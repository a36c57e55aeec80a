package facts

import "slices"

// References are the resources that the content of a definition refers to, sorted, each once, and what
// is misspelt in it.
func References(content JSON) ([]string, error) {
	if err := CheckTemplate(content); err != nil {
		return nil, err
	}
	out := appendReferences(nil, content)
	slices.Sort(out)
	return slices.Compact(out), nil
}

func appendReferences(out []string, v JSON) []string {
	if !refers(v) {
		return out
	}
	if text, is := v.Text(); is {
		parts, err := parseText(text)
		if err != nil {
			return out // CheckTemplate has said so
		}
		for _, p := range parts {
			if p.reference != nil {
				out = append(out, p.reference.resource)
			}
		}
		return out
	}
	n := &node{raw: v}
	n.expand()
	for _, sub := range n.subs {
		out = appendReferences(out, sub.raw)
	}
	return out
}
