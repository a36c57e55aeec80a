package fleet

import (
	"errors"
	"fmt"
	"math"

	"edgespan/config"
)

// Generation is the number of a node's desired config.
type Generation = config.Generation

// Digest identifies a node's desired config: a push is due when one of its fields differs from the node's report.
type Digest struct {
	Config string `json:"config"`         // MD5 of the effective config's canonical form
	Peer   string `json:"peer,omitempty"` // digest of the PeerConfiguration; "" without one
}

// Counted is the stored state of a node's generations: the last one and the config that it numbers.
type Counted struct {
	Generation Generation `json:"generation"`
	Digest     Digest     `json:"digest"`
	Trial      bool       `json:"trial,omitempty"` // the config is on trial: no rollout brings it
}

// Allocate returns the generation of a desired config, given the stored count of the node. The same config keeps its
// number. Any other config takes the next one, even if the node had it before: an answer to the old one must not count
// for the new one. A store with another id than the one that counted last begins at 1, which repeats nothing because
// the authority differs. A change is stored by compare-and-set before it is used.
func (c Counted) Allocate(authority string, d Digest) (next Counted, changed bool, err error) {
	if err := config.CheckAuthority(authority); err != nil {
		return c, false, fmt.Errorf("allocate generation: %w", err)
	}
	switch {
	case c.Generation.Authority != authority:
		return Counted{Generation: Generation{Authority: authority, Counter: 1}, Digest: d}, true, nil
	case c.Digest == d && c.Generation.Counter > 0:
		return c, false, nil
	case c.Generation.Counter == math.MaxUint64:
		return c, false, errors.New("allocate generation: the counter is at its end: a store with another id begins anew")
	}
	g := Generation{Authority: authority, Counter: c.Generation.Counter + 1}
	return Counted{Generation: g, Digest: d}, true, nil
}
