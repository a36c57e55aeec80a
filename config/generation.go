package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Generation names one wanted config of one node: who counted, and the count. Two are
// equal or they are not; none is later than another, since each authority counts alone.
// The zero value is none.
type Generation struct {
	Authority string // the store's id, or the journal's of a node
	Counter   uint64 // from 1
}

const longestAuthority = 64

// String is authority:counter, and "" for none.
func (g Generation) String() string {
	if g == (Generation{}) {
		return ""
	}
	return g.Authority + ":" + strconv.FormatUint(g.Counter, 10)
}

// ParseGeneration reads what String writes, and nothing else.
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

// CheckAuthority says what is wrong with the name of one who counts generations.
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

// MarshalText makes a generation its text in JSON.
func (g Generation) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads that.
func (g *Generation) UnmarshalText(text []byte) (err error) {
	*g, err = ParseGeneration(string(text))
	return err
}
