package fleet

import (
	"errors"
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
		return Generation{}, fmt.Errorf("generation %.80q: has no colon: AUTHORITY:COUNTER is allowed", text)
	}
	if err := checkAuthority(text[:at]); err != nil {
		return Generation{}, fmt.Errorf("generation %.80q: %w", text, err)
	}
	counter, err := strconv.ParseUint(text[at+1:], 10, 64)
	if err != nil || counter == 0 || strconv.FormatUint(counter, 10) != text[at+1:] {
		return Generation{}, fmt.Errorf("generation %.80q: the counter is %.40q: a number from 1 to %d without leading zeros is allowed", text, text[at+1:], uint64(math.MaxUint64))
	}
	return Generation{Authority: text[:at], Counter: counter}, nil
}

func checkAuthority(a string) error {
	const allowed = "1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-' are allowed"
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

// Digest tells two wanted configs of a node apart: a push is due when one of the two
// differs from what the node reports.
type Digest struct {
	Config string `json:"config"`         // MD5 of the effective config's canonical form
	Peer   string `json:"peer,omitempty"` // digest of the PeerConfiguration; "" without one
}

// Counted is what the store keeps of a node's generations: the last one and what it
// stands for.
type Counted struct {
	Generation Generation `json:"generation"`
	Digest     Digest     `json:"digest"`
}

// Allocate is the generation of a wanted config, over what the store has of that node.
// The same config keeps its number. Any other takes the next one, also one that the node
// had before: an answer to the old one must not count for the new one. A store with
// another id than the one that counted last begins at 1, which repeats nothing as the
// authority is another. What changed is stored by compare-and-set before anybody is told.
func (c Counted) Allocate(authority string, d Digest) (next Counted, changed bool, err error) {
	if err := checkAuthority(authority); err != nil {
		return c, false, fmt.Errorf("allocate generation: %w", err)
	}
	switch {
	case c.Generation.Authority != authority:
		return Counted{Generation{authority, 1}, d}, true, nil
	case c.Digest == d && c.Generation.Counter > 0:
		return c, false, nil
	case c.Generation.Counter == math.MaxUint64:
		return c, false, errors.New("allocate generation: the counter is at its end: a store with another id begins anew")
	}
	return Counted{Generation{authority, c.Generation.Counter + 1}, d}, true, nil
}
