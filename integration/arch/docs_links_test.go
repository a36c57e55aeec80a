package arch

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestDeadLinksAreFound(t *testing.T) {
	tree := fstest.MapFS{
		"docs/a.md": {Data: []byte("# Two `words`, here\n[x](b.md) [x](../README.md#try-it) [x](c.md) [x](b.md#none) " +
			"[x](#two-words-here)\n" +
			"[x](https://example.org/none) `[x](code.md)`\n```\n[x](fenced.md)\n```\n")},
		"docs/b.md": {Data: []byte("# B\n")},
		"README.md": {Data: []byte("## Try it\n")},
	}
	got := deadLinks(tree, "docs/a.md")
	want := []string{"link c.md leads nowhere", "link b.md#none: docs/b.md has no such heading"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
