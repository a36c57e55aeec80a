package fleetapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// matched is the result of a lookup in the table.
type matched struct {
	row    *row
	values map[string]string
	allow  []string // methods of the path, if the method does not match
	near   []string // possible routes, if the path does not match
}

// match finds the row for a method and an escaped path. A literal segment takes precedence over a wildcard. HEAD
// matches GET.
func match(rows []row, method, path string) matched {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	asked := strings.Split(path, "/")
	var best *row
	var allow, near []string
	depth := 0
	for i := range rows {
		have := strings.Split(rows[i].Path, "/")
		n := agree(have, asked)
		if n < len(have) || n < len(asked) {
			if n > depth {
				depth, near = n, nil
			}
			if n == depth {
				near = append(near, strings.Join(have[:min(n+1, len(have))], "/"))
			}
			continue
		}
		allow = append(allow, rows[i].Method)
		if rows[i].Method == method && (best == nil || isMoreSpecific(have, strings.Split(best.Path, "/"))) {
			best = &rows[i]
		}
	}
	switch {
	case best != nil:
		return matched{row: best, values: segments(strings.Split(best.Path, "/"), asked)}
	case allow != nil:
		if slices.Contains(allow, http.MethodGet) {
			allow = append(allow, http.MethodHead)
		}
		slices.Sort(allow)
		return matched{allow: slices.Compact(allow)}
	}
	slices.Sort(near)
	return matched{near: slices.Compact(near)}
}

// agree returns how many segments of a path match a row.
func agree(have, asked []string) int {
	for i, h := range have {
		if i == len(asked) {
			return i
		}
		if anySegment(h) {
			if name, err := url.PathUnescape(asked[i]); err != nil || name == "" {
				return i
			}
		} else if asked[i] != h {
			return i
		}
	}
	return len(have)
}

func anySegment(s string) bool { return strings.HasPrefix(s, "{") }

// isMoreSpecific reports whether a has the first literal segment where the two differ.
func isMoreSpecific(a, b []string) bool {
	for i := range a {
		if anySegment(a[i]) != anySegment(b[i]) {
			return anySegment(b[i])
		}
	}
	return false
}

func segments(have, asked []string) map[string]string {
	out := map[string]string{}
	for i, h := range have {
		if anySegment(h) {
			out[strings.Trim(h, "{}")], _ = url.PathUnescape(asked[i]) // agree has checked it
		}
	}
	return out
}
