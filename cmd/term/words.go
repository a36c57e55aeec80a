package term

import (
	"fmt"
	"strings"
	"time"

	"edgespan/config"
)

// Joined are words with a blank between them.
func Joined(words []string) string { return strings.Join(words, " ") }

// YesNo is a truth in a table.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Many is a count and its noun: "1 node", "3 nodes".
func Many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Dash is what a table has, - for nothing.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// OrEmpty makes an empty list of none, which JSON would show as null.
func OrEmpty[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// Moment is a time in a table.
func Moment(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// OneLine is a value on one line that is harmless to a terminal.
func OneLine(v any) string { return Printable(config.OneLine(v)) }
