package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// step is one go test, with the bars of its benchmarks.
type step struct {
	line  string
	limit time.Duration
	all   bool // runs only with -all, or where -only names it
	root  bool
	args  []string
	bars  []bar
}

// bar is what one unit of the benchmarks of a name must be.
type bar struct {
	text  string // the name as the plan has it
	name  *regexp.Regexp
	unit  string
	least bool // limit is the least value, otherwise the most
	limit float64
	times string // a benchmark whose value of the same unit the limit is multiplied by, or ""
}

// parsePlan reads lines "LIMIT [all] [root] ARGUMENTS", each followed by indented lines
// "NAME UNIT <=|>= LIMIT [x OTHER]". NAME is a regular expression for PACKAGE.BENCHMARK, without the word Benchmark,
// and OTHER such a name: the limit is so many times what OTHER has. Lines that begin with # are comments.
func parsePlan(text string) ([]step, error) {
	var steps []step
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if line[0] != '\t' {
			s, err := parseStep(fields)
			if err != nil {
				return nil, fmt.Errorf("plan.txt:%d: %w", i+1, err)
			}
			steps = append(steps, s)
			continue
		}
		b, err := parseBar(fields)
		if err != nil {
			return nil, fmt.Errorf("plan.txt:%d: %w", i+1, err)
		}
		if len(steps) == 0 {
			return nil, fmt.Errorf("plan.txt:%d: bar %q: stands before the first step: must follow one", i+1, b.text)
		}
		last := &steps[len(steps)-1]
		last.bars = append(last.bars, b)
	}
	return steps, nil
}

func parseStep(fields []string) (step, error) {
	s := step{line: strings.Join(fields, " ")}
	limit, err := time.ParseDuration(fields[0])
	if err != nil {
		return s, err
	}
	s.limit, s.args = limit, fields[1:]
	if len(s.args) > 0 && s.args[0] == "all" {
		s.all, s.args = true, s.args[1:]
	}
	if len(s.args) > 0 && s.args[0] == "root" {
		s.root, s.args = true, s.args[1:]
	}
	if len(s.args) == 0 {
		return s, fmt.Errorf("step %q: no arguments: want packages and flags of go test", s.line)
	}
	return s, nil
}

func parseBar(fields []string) (bar, error) {
	text := strings.Join(fields, " ")
	b := bar{text: fields[0]}
	switch {
	case len(fields) == 6 && fields[4] == "x":
		b.times = fields[5]
	case len(fields) != 4:
		return b, fmt.Errorf("bar %q: must be NAME UNIT <=|>= LIMIT [x OTHER]", text)
	}
	if fields[2] != "<=" && fields[2] != ">=" {
		return b, fmt.Errorf("bar %q: invalid comparison %q: must be <= or >=", text, fields[2])
	}
	var err error
	if b.name, err = regexp.Compile("^(" + fields[0] + ")$"); err != nil {
		return b, fmt.Errorf("bar %q: %w", text, err)
	}
	b.unit, b.least = fields[1], fields[2] == ">="
	if b.limit, err = strconv.ParseFloat(fields[3], 64); err != nil {
		return b, fmt.Errorf("bar %q: %w", text, err)
	}
	return b, nil
}

// without returns the rows of a step that did not run.
func (s step) without(verdict string) []row {
	var rows []row
	for _, b := range s.bars {
		rows = append(rows, row{name: b.text, bar: b.String(), verdict: verdict})
	}
	return rows
}

func (b bar) String() string {
	sign := "≤"
	if b.least {
		sign = "≥"
	}
	text := sign + " " + number(b.limit)
	if b.times == "" && b.unit != ratioUnit {
		text += " " + b.unit
	}
	return text
}
