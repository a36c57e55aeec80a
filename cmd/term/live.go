package term

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Live prints objects one by one: as a line of a table, a line of JSON, a YAML document, or a name.
type Live struct {
	s      Streams
	Output string
	head   []string
	Width  []int // of the columns but the last; a longer cell shifts the rest of its line
	begun  bool
}

// NewLive starts output under head; width has the widths of all columns but the last.
func (s Streams) NewLive(output string, head []string, width []int) *Live {
	return &Live{s: s, Output: output, head: head, Width: width}
}

// Print prints the next object: v in JSON and YAML, name, or row in a table.
func (l *Live) Print(v any, name string, row []string) error {
	switch l.Output {
	case "json":
		enc := json.NewEncoder(l.s.Out)
		enc.SetEscapeHTML(false)
		return enc.Encode(v)
	case "yaml":
		if _, err := fmt.Fprintln(l.s.Out, "---"); err != nil {
			return err
		}
		return l.s.PrintYAML(v)
	case "name":
		_, err := fmt.Fprintln(l.s.Out, Printable(name))
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

func (l *Live) line(cells []string, head bool) error {
	t := &Table{Head: l.head, Wide: l.Output == "wide"}
	t.Add(cells...)
	var b strings.Builder
	for i, c := range t.Rows[0] {
		pad := ""
		if i < len(l.Width) {
			pad = strings.Repeat(" ", max(l.Width[i]-utf8.RuneCountInString(c), 0)+2)
		} else if i < len(t.Rows[0])-1 {
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
