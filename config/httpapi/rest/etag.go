package rest

import (
	"slices"
	"strings"
)

// Tags parses the entity tags of a header (RFC 9110 §8.8.3) that may have several lines; any is true for "*".
func Tags(lines []string) (list []string, any, ok bool) {
	text := strings.TrimSpace(strings.Join(lines, ","))
	if text == "*" {
		return nil, true, true
	}
	for text != "" {
		text = strings.TrimLeft(text, ", \t")
		if text == "" {
			break
		}
		start := 0
		if strings.HasPrefix(text, "W/") {
			start = 2
		}
		if !strings.HasPrefix(text[start:], `"`) {
			return nil, false, false
		}
		end := strings.IndexByte(text[start+1:], '"')
		if end < 0 {
			return nil, false, false
		}
		end += start + 2
		list = append(list, text[:end])
		if text = strings.TrimLeft(text[end:], " \t"); text != "" && text[0] != ',' {
			return nil, false, false
		}
	}
	return list, false, len(list) > 0
}

// NoneMatch reports whether an If-None-Match contains etag (weak comparison): the caller then has the current answer. A
// header that can't be parsed contains none.
func NoneMatch(lines []string, etag string) bool {
	list, any, ok := Tags(lines)
	return ok && (any || slices.ContainsFunc(list, func(t string) bool { return strings.TrimPrefix(t, "W/") == etag }))
}
