package term

import (
	"fmt"
	"strings"
	"time"

	"edgespan/config"
)

// Joined returns the words, separated by spaces.
func Joined(words []string) string { return strings.Join(words, " ") }

// YesNo formats a boolean for a table.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Many formats a count with its noun: "1 node", "3 nodes".
func Many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Dash returns the text, or "-" if it is empty.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// OrEmpty replaces a nil slice by an empty one, since JSON prints nil as null.
func OrEmpty[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// FormatTime formats a time for a table.
func FormatTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// OneLine formats a value on one line, with control characters escaped.
func OneLine(v any) string { return Printable(config.OneLine(v)) }
