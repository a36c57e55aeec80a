package config

import (
	"strings"
	"testing"
)

func TestACutTextEndsBetweenCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"":          "",
		"abcd":      "abcd",
		"abcde":     "abcd…",
		"abéé":      "abé…",
		"abcéx":     "abc…",
		"\xff\xfe":  "\xff\xfe",
		"日本語":       "日…",
		"\xbfabcde": "\xbfabc…",
	} {
		if got := Truncate(text, 4); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Truncate(strings.Repeat("é", 5), 1); got != "…" {
		t.Errorf("no whole character: %q", got)
	}
}
