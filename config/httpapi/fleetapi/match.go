package fleetapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// matched is what the table has for a path.
type matched struct {
	row    *row
	values map[string]string
	allow  []string // the methods of the path, where another than these was asked for
	near   []string // where no row has the path: what could have stood there
}

// match finds the row of a method and an escaped path. A segment that a row spells out goes
// before one that stands for any. HEAD is GET without the body.
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
		if rows[i].Method == method && (best == nil || exacter(have, strings.Split(best.Path, "/"))) {
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

// agree is how many segments of a path are those of a row.
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

// exacter says whether a spells a segment out before b does.
func exacter(a, b []string) bool {
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
			out[strings.Trim(h, "{}")], _ = url.PathUnescape(asked[i]) // agree has looked
		}
	}
	return out
}
