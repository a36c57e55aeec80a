package configdb

import "slices"

// MaxReferences is the maximum number of resources that one content may refer to.
const MaxReferences = 256

// References returns the resources that the content of a definition refers to, sorted and unique, or an error for a
// misspelt reference.
func (m *Meter) References(content JSON) (out []string, err error) {
	defer m.catch(&err)
	if err := m.checkTemplate(content); err != nil {
		return nil, err
	}
	out = m.appendReferences(nil, content)
	slices.Sort(out)
	if out = slices.Compact(out); len(out) > MaxReferences {
		return nil, tooLarge("the content refers to too many resources (%d): must be at most %d", len(out), MaxReferences)
	}
	return out, nil
}

func (m *Meter) appendReferences(out []string, v JSON) []string {
	if !m.hasReferences(v) {
		return out
	}
	if text, ok := v.Text(); ok {
		parts, err := m.parseText(text)
		if err != nil {
			return out // checkTemplate has reported it
		}
		for _, p := range parts {
			if p.reference != nil {
				m.make(80)
				out = append(out, p.reference.resource)
			}
		}
		return out
	}
	for s := range parts(v) {
		out = m.appendReferences(out, v[s.value:s.to])
	}
	return out
}
