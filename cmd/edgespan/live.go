package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// live prints what comes one by one: a line of a table, an object a line in JSON, a
// document in YAML, a name.
type live struct {
	s      streams
	output string
	head   []string
	width  []int // of the columns but the last; a longer cell moves its line
	begun  bool
}

func (s streams) newLive(output string, head []string, width []int) *live {
	return &live{s: s, output: output, head: head, width: width}
}

func (l *live) tell(v any, name string, row []string) error {
	switch l.output {
	case "json":
		enc := json.NewEncoder(l.s.Out)
		enc.SetEscapeHTML(false)
		return enc.Encode(v)
	case "yaml":
		if _, err := fmt.Fprintln(l.s.Out, "---"); err != nil {
			return err
		}
		return l.s.printYAML(v)
	case "name":
		_, err := fmt.Fprintln(l.s.Out, printable(name))
		return err
	}
	if !l.begun {
		l.begun = true
		if err := l.line(l.head, true); err != nil {
			return err
		}
	}
	return l.line(row, false)
}

func (l *live) line(cells []string, head bool) error {
	t := &table{head: l.head, wide: l.output == "wide"}
	t.add(cells...)
	var b strings.Builder
	for i, c := range t.rows[0] {
		pad := ""
		if i < len(l.width) {
			pad = strings.Repeat(" ", max(l.width[i]-utf8.RuneCountInString(c), 0)+2)
		} else if i < len(t.rows[0])-1 {
			pad = "  "
		}
		if l.s.Color && !head {
			c = paint(l.head[i], c)
		}
		b.WriteString(c + pad)
	}
	_, err := fmt.Fprintln(l.s.Out, strings.TrimRight(b.String(), " "))
	return err
}
