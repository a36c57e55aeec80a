package netinst

import (
	"strings"
	"testing"
)

// A set without elements has no line for them: nft refuses an empty one.
func TestASetWithoutElements(t *testing.T) {
	if got := strings.Join(nftSet("links", "type ifname;", nil), " "); got != "set links { type ifname; }" {
		t.Errorf("%q", got)
	}
	if got := strings.Join(nftSet("links", "type ifname;", []string{"a", "b"}),
		" "); got != "set links { type ifname; elements = { a, b } }" {
		t.Errorf("%q", got)
	}
}
