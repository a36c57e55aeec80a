package config

import (
	"fmt"
	"strings"
)

// Limits of a printed list of faults: a document can have a fault at each of its 100,000 values.
const (
	maxAlike = 50  // faults of one kind
	maxLines = 200 // all faults
)

// LimitLines returns the lines of faults in their order. It prints the first 50 faults of a kind and then one line that
// counts the rest; all kinds together print about 200 lines.
func LimitLines[F any](fs []F, kind, line func(F) string) []string {
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

// Kind returns the fault without its path and value: faults with equal kinds are counted together.
func (f Fault) Kind() string {
	problem := f.Problem
	if i := strings.IndexAny(problem, "\"0123456789"); i >= 0 {
		problem = strings.TrimRight(problem[:i], " (")
	}
	return Fault{Problem: problem, Expectation: f.Expectation}.Error()
}

// Lines returns one line per fault, limited by Few.
func (fs Faults) Lines() []string { return LimitLines(fs, Fault.Kind, Fault.Error) }
