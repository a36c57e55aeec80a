package pki

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Revocation revokes certificates of one node: all of them, or all but those of one join. It holds until it is removed
// from the list. An old key can't be used after the node has joined again, and its certificate can't be renewed.
type Revocation struct {
	Node    string    `json:"node"` // UUID
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Joining string    `json:"joining,omitempty"` // the join whose certificates stay valid; "": none
}

// ErrRevoked is the cause of every refusal by the list.
var ErrRevoked = errors.New("certificate revoked")

// Revocations is the current list. It is checked in each handshake, on each renewal and by Authority.Admit; a nil list
// revokes nothing.
type Revocations struct {
	list atomic.Pointer[map[string]Revocation] // by node
}

// Replace replaces the whole list, or keeps the old one and returns every fault.
func (r *Revocations) Replace(list []Revocation) error {
	next := map[string]Revocation{}
	var faults []error
	for i, e := range list {
		if id, err := uuid.Parse(e.Node); err != nil || id.String() != e.Node {
			faults = append(faults, fmt.Errorf("revocation %d: node %.60q: must be a UUID in lower case", i, e.Node))
		}
		next[e.Node] = e
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	r.list.Store(&next)
	return nil
}

// Check refuses a revoked certificate.
func (r *Revocations) Check(p Peer) error {
	if r == nil {
		return nil
	}
	list := r.list.Load()
	if list == nil {
		return nil
	}
	e, found := (*list)[p.Node.String()]
	if !found || e.Joining != "" && e.Joining == p.Joining {
		return nil
	}
	return fmt.Errorf("admit node %s: certificate %s: %w since %s: %s", p.Node, p.Serial, ErrRevoked,
		e.At.Format(time.RFC3339), e.Reason)
}
