package main

import (
	"fmt"
	"strings"
	"time"

	"edgespan/config"
)

// joined are words with a blank between them.
func joined(words []string) string { return strings.Join(words, " ") }

// yesNo is a truth in a table.
func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// many is a count and its noun: "1 node", "3 nodes".
func many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// dash is what a table has, - for nothing.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// orEmpty makes an empty list of none, which JSON would show as null.
func orEmpty[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// moment is a time in a table.
func moment(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// oneLine is a value on one line that is harmless to a terminal.
func oneLine(v any) string { return printable(config.OneLine(v)) }
