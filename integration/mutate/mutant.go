package main

import (
	"bufio"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Mutant is one change that gremlins lists: another operator at a position.
type Mutant struct {
	ID        int // from 1; the environment variable selects it
	Kind      string
	File      string // within the package
	Line, Col int

	Func        string // the function around it, or "package" for a declaration
	From, Into  string // the expression before and after, on one line
	Const, Text bool   // within a constant: compiled alone; of strings: does not compile
	Verdict     Verdict
	site        *site
}

// Verdict is the outcome of a mutant.
type Verdict string

// The verdicts. Uncovered mutants are those whose operator no test evaluates.
const (
	Killed     Verdict = "killed"
	TimedOut   Verdict = "timed out"
	Lived      Verdict = "lived"
	Uncovered  Verdict = "uncovered"
	NotViable  Verdict = "not viable"
	Equivalent Verdict = "equivalent"
)

// Key names the mutant in the list of equivalent mutants. It has no line number, since every edit above would change
// it.
func (m *Mutant) Key() string {
	return m.File + " " + m.Func + ": " + m.From + " -> " + m.Into
}

func (m *Mutant) String() string {
	return fmt.Sprintf("%-9s %s:%d:%d %s: %s -> %s", m.Verdict, m.File, m.Line, m.Col, m.Func, m.From, m.Into)
}

var listed = regexp.MustCompile(`^\s*(?:RUNNABLE|NOT COVERED) (\w+) at ([^:]+):(\d+):(\d+)$`)

// parseList parses the list of gremlins for one package, without the packages below it, which are separate cores.
func parseList(text string) []*Mutant {
	var ms []*Mutant
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		f := listed.FindStringSubmatch(lines.Text())
		if f == nil || strings.Contains(f[2], "/") {
			continue
		}
		line, _ := strconv.Atoi(f[3])
		col, _ := strconv.Atoi(f[4])
		ms = append(ms, &Mutant{ID: len(ms) + 1, Kind: f[1], File: f[2], Line: line, Col: col})
	}
	return ms
}

// into is gremlins' table of replacements by kind of mutant and operator.
var into = map[string]map[string]string{
	"ARITHMETIC_BASE":       {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"},
	"INVERT_NEGATIVES":      {"-": "+"},
	"CONDITIONALS_BOUNDARY": {">=": ">", ">": ">=", "<=": "<", "<": "<="},
	"CONDITIONALS_NEGATION": {"==": "!=", "!=": "==", ">=": "<", ">": "<=", "<=": ">", "<": ">="},
	"INCREMENT_DECREMENT":   {"++": "--", "--": "++"},
	"INVERT_LOGICAL":        {"&&": "||", "||": "&&"},
}

// equivalents is the reviewed list of mutants that do not change behaviour: KEY, a bar, the reason.
type equivalents map[string]string

// parseEquivalents parses the entries of one package.
func parseEquivalents(text, pkg string) (equivalents, error) {
	list := equivalents{}
	for n, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, reason, ok := strings.Cut(line, " | ")
		if !ok || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("line %d: no reason: PACKAGE/FILE FUNC: FROM -> INTO | REASON", n+1)
		}
		file, _, _ := strings.Cut(key, " ")
		if dir := file[:strings.LastIndex(file, "/")+1]; dir == pkg+"/" {
			list[strings.TrimPrefix(key, dir)] = reason
		}
	}
	return list, nil
}

// apply marks the listed mutants as equivalent and returns the wrong entries: those that name no mutant, or one that a
// test kills.
func (list equivalents) apply(ms []*Mutant) []string {
	var wrong []string
	for key := range list {
		found := false
		for _, m := range ms {
			if m.Key() != key {
				continue
			}
			found = true
			if m.Verdict == Killed || m.Verdict == TimedOut {
				wrong = append(wrong, "a test kills it: "+key)
			} else {
				m.Verdict = Equivalent
			}
		}
		if !found {
			wrong = append(wrong, "no such mutant: "+key)
		}
	}
	return wrong
}

// Score counts the mutants of one package by verdict.
type Score map[Verdict]int

func scoreOf(ms []*Mutant) Score {
	s := Score{}
	for _, m := range ms {
		s[m.Verdict]++
	}
	return s
}

// Noticed returns the share of the mutants that ran and were killed or timed out, in percent.
func (s Score) Noticed() float64 {
	ran := s[Killed] + s[TimedOut] + s[Lived]
	if ran == 0 {
		return 0
	}
	return 100 * float64(s[Killed]+s[TimedOut]) / float64(ran)
}

// Unreached returns the share of all mutants whose operator no test evaluates, in percent.
func (s Score) Unreached() float64 {
	all := s[Killed] + s[TimedOut] + s[Lived] + s[Uncovered]
	if all == 0 {
		return 100
	}
	return 100 * float64(s[Uncovered]) / float64(all)
}
