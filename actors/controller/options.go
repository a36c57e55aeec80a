package controller

import (
	"context"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/metrics"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/pubsub/ratelimit"
	"edgespan/pubsub/trace"
)

// Base provides the base, firmware and hardware layers; platform/confdir implements it on a folder.
type Base interface {
	// Library lists what is available.
	Library() (layers.Library, error)
	// Read reads the layers of a choice. It reports all faults together.
	Read(c layers.Choice) (layers.Set, error)
}

// Token is a join token as the store keeps it: without its text.
type Token struct {
	history.Token
	Used *TokenUse `json:"used,omitempty"`
}

// TokenUse records what a token was spent on.
type TokenUse struct {
	Node string    `json:"node"` // UUID in lower case
	Key  string    `json:"key"`  // fingerprint of the certified key
	At   time.Time `json:"at"`
}

// Revocation revokes every certificate of a node, except those of one join.
type Revocation struct {
	Node    string    `json:"node"` // UUID in lower case
	At      time.Time `json:"at"`
	Reason  string    `json:"reason"`
	Joining string    `json:"joining,omitempty"` // the join whose certificates are valid; "" for none
}

// Issuer creates and checks secrets; platform/pki implements it. Token, TokenUse and Revocation have the JSON form of
// pki's types.
type Issuer interface {
	// Redeem spends a token on a node's request to join, or refuses. The same node with the same key may repeat the
	// request.
	Redeem(now time.Time, t Token, j nodeproto.Join) (Token, error)
	// JoinTokenHash returns the hash that is stored for a join token's text.
	JoinTokenHash(text string) (string, error)
	// NewJoinToken creates a token for one name and returns its text, shown once, and its hash.
	NewJoinToken(name string, expires time.Time) (text, hash string, err error)
	// NewOperatorToken creates a token for a person or a program. It never expires if expires is zero.
	NewOperatorToken(name, role string, expires time.Time) (text, hash string, err error)
	// Pin returns what a joining node passes as --ca-sha256.
	Pin() string
	// Revoke replaces the list of revocations.
	Revoke(list []Revocation) error
}

// Options configure a controller.
type Options struct {
	Store    storage.Store
	Work     *metrics.Work   // counts for metrics; may be nil
	Elector  storage.Elector // not used offline
	Replica  string          // unique among the replicas, and the same after a restart
	Log      *zap.Logger
	Tracer   *trace.Tracer // nil: no traces
	Base     Base
	Metadata *metadata.Metadata            // of nodes
	E2E      map[string]*metadata.Metadata // of "controller" and "aggregator"
	// Own validates a change of the controller's own config (ops.Snapshot.Own). nil: no check.
	Own      func(before, after config.Object, asked bool) (config.Faults, []string)
	Issuer   Issuer
	Settings fleet.Settings // Replica is filled in; zero values mean fleet.Defaults; Set changes them
	Shared   bool           // other replicas may use the store, and get the status of this one's nodes
	// Flags are the controller's config flags of this process, by name. They override the file. All replicas must have the
	// same.
	Flags    map[string]string
	Offline  bool   // no server: writes change layers and trigger nothing else
	MaskKey  []byte // key of the revision that replaces the MD5 of masked output
	NodeLink string // HOST:PORT at which nodes join
	// Stored limits what callers who are not admins may store; other APIs share it. nil: a separate budget.
	Stored *ratelimit.Buckets
	// Backup writes a backup of the store beside it before layers are migrated, and returns the file's name. nil: layers
	// are not migrated.
	Backup func(ctx context.Context) (file string, err error)
	// Now is the wall clock, for timestamps and the lifetimes of tokens. Nothing that replicas agree on depends on it.
	// nil: time.Now.
	Now func() time.Time
	// Do applies a change of the controller's own config in this replica. It must not block. nil: no action.
	Do func(controllerconf.Change)
}
