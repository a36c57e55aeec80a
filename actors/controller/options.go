package controller

import (
	"context"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/pubsub/ratelimit"
)

// Base is where the base, firmware and hardware layers are; a folder, by platform/confdir.
type Base interface {
	// Library lists what there is.
	Library() (layers.Library, error)
	// Read reads the layers of a choice. All that is wrong with them is told together.
	Read(c layers.Choice) (layers.Set, error)
}

// Token is a join token as the store keeps it: never its text.
type Token struct {
	history.Token
	Used *TokenUse `json:"used,omitempty"`
}

// TokenUse says what a token was spent on.
type TokenUse struct {
	Node string    `json:"node"` // UUID in lower case
	Key  string    `json:"key"`  // fingerprint of the key that got the certificate
	At   time.Time `json:"at"`
}

// Revocation takes every certificate of a node out of use, but for those of one join.
type Revocation struct {
	Node    string    `json:"node"` // UUID in lower case
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Joining string    `json:"joining,omitempty"` // the join whose certificates count; "": none does
}

// Issuer makes and checks what is secret; platform/pki does it. A Token, a TokenUse and a
// Revocation have the JSON form of pki's.
type Issuer interface {
	// Redeem spends a token on a node's wish, or says why not. The same node with the same
	// key may come again.
	Redeem(now time.Time, t Token, j nodeproto.Join) (Token, error)
	// JoinTokenHash is what is kept of a join token's text.
	JoinTokenHash(text string) (string, error)
	// NewJoinToken makes a token for one name: its text, shown once, and its hash.
	NewJoinToken(name string, expires time.Time) (text, hash string, err error)
	// NewOperatorToken makes one for a person or a program. Expires zero is never.
	NewOperatorToken(name, role string, expires time.Time) (text, hash string, err error)
	// Pin is what a joining node gives as --ca-sha256.
	Pin() string
	// Revoke puts the whole list of revocations in force.
	Revoke(list []Revocation) error
}

// Options is what a controller is made of.
type Options struct {
	Store    storage.Store
	Elector  storage.Elector // not used offline
	Replica  string          // its name, which no other replica has; kept over restarts
	Log      *zap.Logger
	Base     Base
	Metadata *metadata.Metadata            // of nodes
	E2E      map[string]*metadata.Metadata // of "controller" and "aggregator"
	// Own judges a change of the controller's own config (ops.World.Own). nil for nobody.
	Own      func(before, after config.Object, asked bool) (config.Faults, []string)
	Issuer   Issuer
	Settings fleet.Settings // Replica is filled in; zero values stand for fleet.Defaults; Set changes them
	Shared   bool           // other replicas may use the store: they are told how this one's nodes stand
	// Flags are those of the controller's config that were given to this process, by name: they
	// go before the file. All replicas must have been given the same.
	Flags    map[string]string
	Offline  bool   // nobody is served: layers are what they are told to be, and nothing follows from them
	MaskKey  []byte // of the keyed revision that stands for an MD5 of masked output
	NodeLink string // HOST:PORT that a node is told to join at
	// Stored is what callers who are no admins may have stored still, shared with other doors. nil: a budget of its own.
	Stored *ratelimit.Buckets
	// Backup writes all that the store has into a file beside it, before layers are migrated, and
	// answers with its name. nil: no layer is migrated.
	Backup func(ctx context.Context) (file string, err error)
	// Now is the wall clock: what stands in texts, and what lifetimes of tokens are held to.
	// Nothing that replicas agree on follows from it. nil: the machine's.
	Now func() time.Time
	// Do carries out what a change of the controller's own config entails, in this replica.
	// It does not block. nil for nobody.
	Do func(controllerconf.Change)
}
