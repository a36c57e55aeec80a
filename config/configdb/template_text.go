package configdb

import "strings"

// part is a piece of a string: text or a reference.
type part struct {
	text      string
	reference *reference
}

// parseText splits a string into text and references.
func (m *Meter) parseText(s string) ([]part, error) {
	var out []part
	m.count(4 * len(s))
	for s != "" {
		m.make(4 * 24)
		m.count(64)
		open := strings.IndexByte(s, '{')
		if open < 0 {
			return append(out, part{text: s}), nil
		}
		before := strings.TrimRight(s[:open], "%")
		percents := open - len(before)
		if text := before + strings.Repeat("%", percents/2); text != "" && percents > 0 {
			out = append(out, part{text: text})
		}
		switch {
		case percents == 0:
			out = append(out, part{text: s[:open+1]})
		case percents%2 == 0:
			out = append(out, part{text: "{"})
		default:
			end := findClosing(s[open+1 : min(len(s), open+1+maxReference)])
			m.count(min(len(s)-open, maxReference))
			if end < 0 || !isReference(s[open+1:open+1+end]) {
				out = append(out, part{text: "%{"})
				break
			}
			f, err := parseReference(s[open+1 : open+1+end])
			if err != nil {
				return nil, err
			}
			out = append(out, part{reference: f})
			s = s[open+end+2:]
			continue
		}
		s = s[open+1:]
	}
	return out, nil
}

// findClosing returns the offset of the } that ends a reference, outside of quotes, or -1.
func findClosing(s string) int {
	var quote byte
	for i := range len(s) {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '}':
			return i
		}
	}
	return -1
}

// isReference reports whether the text between %{ and } is a reference. Text that names no resource belongs to another
// program, as Puppet's %{::fqdn}, %{facts.os} and %{lookup('a::b')} do: the original accepted any content.
func isReference(s string) bool {
	resource, key, ok := strings.Cut(s, ":")
	return ok && strings.TrimSpace(resource) != "" && !strings.ContainsAny(resource, `'"()`) &&
		!strings.HasPrefix(key, ":")
}

const referenceForm = "must be %{resource:key.path}, or %%{ for a literal %{"

func parseReference(s string) (*reference, error) {
	resource, key, _ := strings.Cut(s, ":")
	path, err := splitKey(strings.TrimSpace(key))
	if err != nil {
		return nil, malformed("the reference %s: %v: %s", showValue(JSON("%{"+s+"}")), err, referenceForm)
	}
	f := &reference{resource: strings.TrimSpace(resource)}
	for _, p := range path {
		f.path = append(f.path, p.text)
	}
	return f, nil
}
