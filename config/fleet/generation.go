package fleet

import (
	"errors"
	"fmt"
	"math"

	"edgespan/config"
)

// Generation is the number of a node's wanted config.
type Generation = config.Generation

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
	if err := config.CheckAuthority(authority); err != nil {
		return c, false, fmt.Errorf("allocate generation: %w", err)
	}
	switch {
	case c.Generation.Authority != authority:
		return Counted{Generation{Authority: authority, Counter: 1}, d}, true, nil
	case c.Digest == d && c.Generation.Counter > 0:
		return c, false, nil
	case c.Generation.Counter == math.MaxUint64:
		return c, false, errors.New("allocate generation: the counter is at its end: a store with another id begins anew")
	}
	return Counted{Generation{Authority: authority, Counter: c.Generation.Counter + 1}, d}, true, nil
}
