package term

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The widths, in characters, to which a table truncates cells; -o wide truncates nothing. An error is truncated in its
// middle, where the command line is: its start says what failed and its end says why.
const (
	cellWidth  = 60
	errorWidth = 110
	errorStart = 40
)

// Table is aligned text. The last column is not padded.
type Table struct {
	Head []string
	Rows [][]string
	Wide bool
}

// Add appends a row. It escapes control characters and truncates long cells.
func (t *Table) Add(cells ...string) {
	row := make([]string, len(cells))
	for i, c := range cells {
		c = Printable(c)
		if !t.Wide {
			c = cut(c, t.Head[i])
		}
		if c == "" {
			c = "-"
		}
		row[i] = c
	}
	t.Rows = append(t.Rows, row)
}

func cut(c, head string) string {
	r := []rune(c)
	says := head == "WHAT" || head == "REASON"
	switch {
	case head == "ERROR" && len(r) > errorWidth:
		return string(r[:errorStart]) + "…" + string(r[len(r)-(errorWidth-errorStart-1):])
	case head == "ERROR" || says && len(r) <= errorWidth:
		return c
	case says:
		return string(r[:errorWidth-1]) + "…"
	case len(r) > cellWidth:
		return string(r[:cellWidth-1]) + "…"
	}
	return c
}

// Write prints the table, with coloured states if color is set.
func (t *Table) Write(w io.Writer, color bool) error {
	width := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	out := bufio.NewWriter(w)
	for r, row := range append([][]string{t.Head}, t.Rows...) {
		for i, c := range row {
			pad := ""
			if i < len(row)-1 {
				pad = strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)+2)
			}
			if color && r > 0 {
				c = paint(t.Head[i], c)
			}
			out.WriteString(c + pad) // out reports its error at Flush
		}
		out.WriteByte('\n')
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// paint colours states only: good green, under way yellow, bad red.
func paint(column, cell string) string {
	if column != "STATE" && column != "OK" && column != "HEALTH" {
		return cell
	}
	code := "33"
	switch cell {
	case "Present", "ready", "active", "up", "present", "ok", "running", "Absent", "deployed", "green",
		"InSync":
		code = "32"
	case "FAILED", "down", "missing", "failed", "red", "RolledBack", "Degraded":
		code = "31"
	default:
		if strings.HasSuffix(cell, "Failed") {
			code = "31"
		}
	}
	return "\x1b[" + code + "m" + cell + "\x1b[0m"
}
