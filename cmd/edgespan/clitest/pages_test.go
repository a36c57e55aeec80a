package clitest

import (
	"testing"
)

func TestDotsStandForAnyLines(t *testing.T) {
	for _, c := range []struct {
		got, want string
		same      bool
	}{
		{"a\nb\n", "a\nb\n", true},
		{"a\nb\n", "a\n", false},
		{"a\n", "a\nb\n", false},
		{"a\nb\nc\nd\n", "a\n...\nd\n", true},
		{"a\nb\nc\nd\n", "a\n...\nc\n", false},
		{"a\nb\nc\nd\n", "...\nc\n...\n", true},
		{"a\nb\nc\nd\n", "...\nx\n...\n", false},
		{"a\nb\n", "a\n...\n", true},
		{"", "", true},
	} {
		if got := MatchElided(c.got, c.want); got != c.same {
			t.Errorf("%q is %q: %v", c.got, c.want, got)
		}
	}
}
