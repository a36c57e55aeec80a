package pki

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Revocation takes one certificate, or every certificate of one node, out of use. It
// holds until it is removed from the list.
type Revocation struct {
	Serial string    `json:"serial,omitempty"` // of one certificate, hexadecimal
	Node   string    `json:"node,omitempty"`   // UUID: all of its certificates
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// ErrRevoked is the cause of every refusal by the list.
var ErrRevoked = errors.New("the certificate is revoked")

// Revocations is the list in force. It is checked in each handshake, on each renewal and
// by Authority.Admit; a nil list revokes nothing.
type Revocations struct{ list atomic.Pointer[revoked] }

type revoked struct{ serials, nodes map[string]Revocation }

// Replace puts a whole list in force, or leaves the old one and names every fault.
func (r *Revocations) Replace(list []Revocation) error {
	next := &revoked{serials: map[string]Revocation{}, nodes: map[string]Revocation{}}
	var faults []error
	for i, e := range list {
		switch {
		case (e.Serial == "") == (e.Node == ""):
			faults = append(faults, fmt.Errorf("revocation %d: a serial number or a node is required, not both", i))
		case e.Serial != "":
			if strings.Trim(e.Serial, "0123456789abcdef") != "" || e.Serial[0] == '0' {
				faults = append(faults, fmt.Errorf("revocation %d: serial %.60q: hexadecimal digits in lower case without leading zeros are allowed", i, e.Serial))
			}
			next.serials[e.Serial] = e
		default:
			if id, err := uuid.Parse(e.Node); err != nil || id.String() != e.Node {
				faults = append(faults, fmt.Errorf("revocation %d: node %.60q: a UUID in lower case is allowed", i, e.Node))
			}
			next.nodes[e.Node] = e
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	r.list.Store(next)
	return nil
}

// ParseRevocations reads a list in its JSON form.
func ParseRevocations(text []byte) ([]Revocation, error) {
	var list []Revocation
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("read revocations: %w", err)
	}
	return list, new(Revocations).Replace(list)
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
	e, found := list.serials[p.Serial]
	if !found {
		e, found = list.nodes[p.Node.String()]
	}
	if !found {
		return nil
	}
	return fmt.Errorf("admit node %s: certificate %s: %w since %s: %s", p.Node, p.Serial, ErrRevoked, e.At.Format(time.RFC3339), e.Reason)
}
