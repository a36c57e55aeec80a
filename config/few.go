package config

import (
	"fmt"
	"strings"
)

// Bounds of what a list of faults prints: a document can have one at each of its 100,000 values.
const (
	maxAlike = 50  // faults of one kind
	maxLines = 200 // all faults
)

// Few are the lines of faults in their order. Of a kind that has more than 50, the first 50 stand there and a line at
// the end says how many more there are; all kinds together have about 200 lines.
func Few[F any](fs []F, kind, line func(F) string) []string {
	seen := map[string]int{}
	var kinds, lines []string
	dropped := 0
	for _, f := range fs {
		k := kind(f)
		switch n := seen[k]; {
		case n < maxAlike && len(lines) < maxLines:
			lines = append(lines, line(f))
			seen[k]++
		case n == 0 || len(lines) == maxLines && n < maxAlike:
			dropped++
		default:
			if n == maxAlike {
				kinds = append(kinds, k)
			}
			seen[k]++
		}
	}
	for _, k := range kinds {
		lines = append(lines, fmt.Sprintf("and %d more like it: %s", seen[k]-maxAlike, k))
	}
	if dropped > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", dropped))
	}
	return lines
}

// Kind is a fault without its place and its value: faults of one kind are told alike.
func (f Fault) Kind() string {
	problem := f.Problem
	if i := strings.IndexAny(problem, "\"0123456789"); i >= 0 {
		problem = strings.TrimRight(problem[:i], " (")
	}
	return Fault{Problem: problem, Expectation: f.Expectation}.Error()
}

// Lines are the faults, one line each, and few of the same kind (Few).
func (fs Faults) Lines() []string { return Few(fs, Fault.Kind, Fault.Error) }
