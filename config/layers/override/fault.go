package override

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"edgespan/config"
)

// The rules of a write, in addition to those of the metadata.
const (
	RuleReadOnly   = "readOnly"
	RuleDeprecated = "deprecated"
	RuleTopology   = "topology"
	RuleRequest    = "request"
	RuleClash      = "clash"
	RuleTogether   = "together"
)

// groups is the order of faults. All rules of the metadata, and RuleTogether, form one last group.
var groups = []string{RuleReadOnly, RuleDeprecated, RuleTopology, RuleRequest, RuleClash}

// WriteFault is one reason to refuse a write, or one warning, with the nodes that have it.
type WriteFault struct {
	Nodes       []string // sorted; none for a fault of the network layer itself
	Path        []string
	Value       any // the refused value; nil for none, {"$masked": true} for a secret
	Rule        string
	Layer       string // layer of the value: "base" … "node"; "" for none
	Problem     string // "invalid type int64"
	Expectation string
}

// shownNodes is the number of nodes that a line names.
const shownNodes = 100

// Error returns the fault in one line: "n1, n2: path.to.key: invalid type int64: must be a string (type, node layer)".
func (f WriteFault) Error() string {
	line := config.Fault{Path: f.Path, Problem: f.Problem, Expectation: f.Expectation}.Error()
	if len(f.Nodes) > 0 {
		line = nodeList(f.Nodes) + ": " + line
	}
	if f.Layer == "" {
		return fmt.Sprintf("%s (%s)", line, f.Rule)
	}
	return fmt.Sprintf("%s (%s, %s layer)", line, f.Rule, f.Layer)
}

func nodeList(nodes []string) string {
	more := ""
	if n := len(nodes) - shownNodes; n > 0 {
		nodes, more = nodes[:shownNodes], fmt.Sprintf(" and %d more", n)
	}
	shown := make([]string, len(nodes))
	for i, n := range nodes {
		shown[i] = n
		if n == "" || strings.ContainsFunc(n, func(r rune) bool { return r == ',' || !unicode.IsPrint(r) }) {
			shown[i] = config.Printable(n)
		}
	}
	return strings.Join(shown, ", ") + more
}

// WriteFaults are all reasons to refuse one write.
type WriteFaults []WriteFault

// Is reports that faults are errors of the class Rejected.
func (fs WriteFaults) Is(target error) bool { return target == config.Rejected }

// Error returns one line per fault; config.LimitLines limits the faults of one kind.
func (fs WriteFaults) Error() string {
	return strings.Join(config.LimitLines(fs, WriteFault.kind, WriteFault.Error), "\n")
}

func (f WriteFault) kind() string {
	return config.Fault{Problem: f.Problem, Expectation: f.Expectation}.Kind() + " (" + f.Rule + ")"
}

// Nodes returns all nodes that the faults name, sorted.
func (fs WriteFaults) Nodes() []string {
	var out []string
	for _, f := range fs {
		out = append(out, f.Nodes...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// same reports whether two faults differ only in their nodes.
func (f WriteFault) same(g WriteFault) bool { return f.compare(g) == 0 }

func (f WriteFault) group() int {
	if i := slices.Index(groups, f.Rule); i >= 0 {
		return i
	}
	return len(groups)
}

func (f WriteFault) compare(g WriteFault) int {
	return cmp.Or(
		cmp.Compare(f.group(), g.group()), slices.Compare(f.Path, g.Path), strings.Compare(f.Rule, g.Rule),
		strings.Compare(f.Problem, g.Problem), strings.Compare(f.Layer, g.Layer),
		strings.Compare(f.Expectation, g.Expectation),
	)
}

// Merged sorts faults and merges those that differ only in their nodes.
func (fs WriteFaults) Merged() WriteFaults {
	slices.SortStableFunc(fs, WriteFault.compare)
	var out WriteFaults
	for _, f := range fs {
		if last := len(out) - 1; last >= 0 && out[last].same(f) {
			out[last].Nodes = append(out[last].Nodes, f.Nodes...)
			continue
		}
		f.Nodes = slices.Clip(f.Nodes) // thousands of faults share one list of all nodes, so an append must copy it
		out = append(out, f)
	}
	for i, f := range out {
		if !isSorted(f.Nodes) {
			nodes := slices.Clone(f.Nodes)
			slices.Sort(nodes)
			out[i].Nodes = slices.Compact(nodes)
		}
	}
	return out
}

// isSorted reports whether names are sorted and unique.
func isSorted(names []string) bool {
	for i := 1; i < len(names); i++ {
		if names[i-1] >= names[i] {
			return false
		}
	}
	return true
}
