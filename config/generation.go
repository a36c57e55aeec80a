package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Generation identifies one desired config of one node: the authority that numbered it, and the number. Two generations
// are equal or different, never ordered, since each authority counts on its own. The zero value means none.
type Generation struct {
	Authority string // ID of the store or of a node's journal
	Counter   uint64 // from 1
}

const longestAuthority = 64

// String returns authority:counter, or "" for the zero value.
func (g Generation) String() string {
	if g == (Generation{}) {
		return ""
	}
	return g.Authority + ":" + strconv.FormatUint(g.Counter, 10)
}

// ParseGeneration parses the output of String and accepts nothing else.
func ParseGeneration(text string) (Generation, error) {
	if text == "" {
		return Generation{}, nil
	}
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return Generation{}, fmt.Errorf("generation %.80q: no colon: must be AUTHORITY:COUNTER", text)
	}
	if err := CheckAuthority(text[:at]); err != nil {
		return Generation{}, fmt.Errorf("generation %.80q: %w", text, err)
	}
	counter, err := strconv.ParseUint(text[at+1:], 10, 64)
	if err != nil || counter == 0 || strconv.FormatUint(counter, 10) != text[at+1:] {
		return Generation{},
			fmt.Errorf("generation %.80q: invalid counter %.40q: must be a number from 1 to %d without leading zeros", text,
				text[at+1:], uint64(math.MaxUint64))
	}
	return Generation{Authority: text[:at], Counter: counter}, nil
}

// CheckAuthority checks the name of an authority.
func CheckAuthority(a string) error {
	const allowed = "must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'"
	if a == "" || len(a) > longestAuthority {
		return fmt.Errorf("the authority has %d characters: %s", len(a), allowed)
	}
	for _, c := range []byte(a) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-') {
			return fmt.Errorf("the authority has %q: %s", c, allowed)
		}
	}
	return nil
}

// MarshalText encodes a generation as its text in JSON.
func (g Generation) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText decodes the output of MarshalText.
func (g *Generation) UnmarshalText(text []byte) (err error) {
	*g, err = ParseGeneration(string(text))
	return err
}
