// Package configdbapi owns the REST API of ConfigDB (seed fuel-configdb-serialized-facts-api, reference fuel-configdb
// §1, docs/adr/0022): its routes, codes and shapes, as clients of the original expect them, and a client. Errors have
// that API's form, {"msg": text}.
//
// It never validates a write and never merges a document: each request becomes one call of the Backend. It never
// identifies a caller: an Authenticator does.
//
// Read table.go first, then handler.go.
package configdbapi

import (
	"context"
	"net/http"
	"time"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// Backend answers the API's requests, from a state that includes every write that any replica acknowledged before the
// call. Faults of the caller are *model.Fault.
type Backend interface {
	// For components and definitions, reveal shows the secrets in their content.
	Components(ctx context.Context, reveal bool) ([]model.Component, error)
	Component(ctx context.Context, id int64, reveal bool) (model.Component, error)
	// Definitions returns all definitions, or those of one component; with *component nil, those of none.
	Definitions(ctx context.Context, component **int64, reveal bool) ([]model.Definition, error)
	Definition(ctx context.Context, id int64, reveal bool) (model.Definition, error)
	// Secrets returns the declared secret keys of a definition.
	Secrets(ctx context.Context, id int64) ([]string, error)
	Environments(ctx context.Context) ([]model.Environment, error)
	Environment(ctx context.Context, id int64) (model.Environment, error)
	Levels(ctx context.Context, environment int64) ([]model.Level, error)
	Level(ctx context.Context, environment int64, level model.Ref) (model.Level, error)
	Nodes(ctx context.Context, environment int64) ([]model.Node, error)
	// Node finds a node by any of its names.
	Node(ctx context.Context, environment int64, name string) (model.Node, error)

	// ResolveResource returns the id and name of the definition that a name or an id means in an environment.
	ResolveResource(ctx context.Context, environment int64, r model.Ref) (model.Definition, error)
	// Answer answers a query, without a body if its current ETag is among known.
	Answer(ctx context.Context, q model.Query, known []string) (model.Answer, error)
	// Keys executes the operation keys/get: it returns the value at each path, in order.
	Keys(ctx context.Context, q model.Query, edit configdb.KeysEdit) (model.Answer, error)
	// Hiera looks keys up in several resources of one place. It returns an object with each key that was found, as spelled
	// in the query, or all data. A null value counts as found.
	Hiera(ctx context.Context, q model.HieraQuery, known []string) (model.Answer, error)

	Write(ctx context.Context, w WriteRequest) (model.Written, error)

	// Versions returns the versions of a half of a record, the newest first.
	Versions(ctx context.Context, q model.VersionsQuery) ([]model.Version, error)
	// Records returns the revisions of the facts, the newest first.
	Records(ctx context.Context, q model.RecordsQuery) ([]model.Record, error)
	// Watch delivers each record after a revision, in order, until the context ends, which is no error by itself, or
	// deliver returns an error, which Watch returns.
	Watch(ctx context.Context, after uint64, deliver func(model.Record) error) error
}

// WriteRequest is a write with its author. DryRun validates it and stores nothing. Own marks a write of a node to its
// own data. Caller names the turn in which the write is computed, "" for the author's: the same name from another
// source is another caller.
type WriteRequest struct {
	Author  string
	Caller  string
	Own     bool
	Message string
	Write   model.Write
	DryRun  bool
	Reveal  bool // the caller may see secrets; otherwise a dry run must not confirm a guess of one
}

// Role is what a caller may do, as in the fleet's API.
type Role = rest.Role

// The roles; each includes the ones before it.
const (
	Viewer   = rest.Viewer
	Operator = rest.Operator
	Admin    = rest.Admin
)

// Caller is the authenticated sender of a request. A node (Node or Certname is set) can access only its own value of a
// level, below the values of other levels that are declared for it, whatever its role.
type Caller struct {
	Name string
	Role Role
	Via  rest.Via
	// Node is the id of a fleet node that authenticated with its certificate.
	Node string
	// Certname is the name in a certificate of another CA, such as Puppet's: it identifies the node that is registered
	// with this certname.
	Certname string
}

// Authenticator identifies the caller of a request. A refusal is a *Denied; any other error is a failure of the
// controller (500).
type Authenticator interface {
	Authenticate(r *http.Request) (Caller, error)
	// Challenges returns the values of WWW-Authenticate for a request without credentials.
	Challenges() []string
}

// Denied is a failed authentication.
type Denied struct {
	Status int // 401 with the challenges, 403, 429, or 503 if the authentication can't be checked now
	Text   string
	Wait   time.Duration // before a retry makes sense (Retry-After); 0: unknown
}

func (d *Denied) Error() string { return d.Text }
