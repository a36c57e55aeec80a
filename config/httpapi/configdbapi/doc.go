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

// Backend answers for the API, from a state that is at least as new as every write that any
// replica had acknowledged when the call began. Faults of a caller are *model.Fault.
type Backend interface {
	// Of components and definitions reveal shows the secrets in their content.
	Components(ctx context.Context, reveal bool) ([]model.Component, error)
	Component(ctx context.Context, id int64, reveal bool) (model.Component, error)
	// Definitions are all, or those of one component; *component nil is those of none.
	Definitions(ctx context.Context, component **int64, reveal bool) ([]model.Definition, error)
	Definition(ctx context.Context, id int64, reveal bool) (model.Definition, error)
	// Secrets are the declared keys of a definition.
	Secrets(ctx context.Context, id int64) ([]string, error)
	Environments(ctx context.Context) ([]model.Environment, error)
	Environment(ctx context.Context, id int64) (model.Environment, error)
	Levels(ctx context.Context, environment int64) ([]model.Level, error)
	Level(ctx context.Context, environment int64, level model.Ref) (model.Level, error)
	Nodes(ctx context.Context, environment int64) ([]model.Node, error)
	// Node finds a node by any of its names.
	Node(ctx context.Context, environment int64, name string) (model.Node, error)

	// ResolveResource is the id and the name of the definition that a name or an id means in an environment.
	ResolveResource(ctx context.Context, environment int64, r model.Ref) (model.Definition, error)
	// Answer answers a query; with an ETag among known that it has now, without a body.
	Answer(ctx context.Context, q model.Query, known []string) (model.Answer, error)
	// Keys is the operation keys/get: a list of the value at each path, in their order.
	Keys(ctx context.Context, q model.Query, edit configdb.KeysEdit) (model.Answer, error)
	// Hiera answers lookups over several resources of one place: with an object that has each key
	// that was found, under the spelling it was asked by, or with all of the data. What is null is found.
	Hiera(ctx context.Context, q model.HieraQuery, known []string) (model.Answer, error)

	Write(ctx context.Context, w WriteRequest) (model.Written, error)

	// Versions are those of a half of a record, the newest first.
	Versions(ctx context.Context, q model.VersionsQuery) ([]model.Version, error)
	// Records are the revisions of the facts, the newest first.
	Records(ctx context.Context, q model.RecordsQuery) ([]model.Record, error)
	// Watch delivers each record after a revision, in order, until the context ends, which is
	// no error of its own, or deliver answers with an error, which is returned.
	Watch(ctx context.Context, after uint64, deliver func(model.Record) error) error
}

// WriteRequest is a write and who wants it. DryRun judges it and stores nothing. Own is a node's, of itself. Caller
// is in whose turn it is done, "" for that of the author: callers of one name by other sources are others.
type WriteRequest struct {
	Author  string
	Caller  string
	Own     bool
	Message string
	Write   model.Write
	DryRun  bool
	Reveal  bool // the caller may see secrets; a dry run by another one confirms none
}

// Role is what a caller may do, in the words of the fleet's API.
type Role = rest.Role

// The roles, each of which may what those before it may.
const (
	Viewer   = rest.Viewer
	Operator = rest.Operator
	Admin    = rest.Admin
)

// Caller is who asks. A caller that is a node (Node or Certname is set) reaches nothing but what
// is at its own value of a level, below the values of other levels that are declared of it, whatever its role.
type Caller struct {
	Name string
	Role Role
	Via  rest.Via
	// Node is the id of a node of the fleet that showed its certificate.
	Node string
	// Certname is the name of a node whose certificate another CA made, Puppet's: it is the
	// node that is registered with this certname.
	Certname string
}

// Authenticator finds out who asks. Its errors are *Denied; any other is a failure of ours (500).
type Authenticator interface {
	Authenticate(r *http.Request) (Caller, error)
	// Challenges are the values of WWW-Authenticate for one who did not say who it is.
	Challenges() []string
}

// Denied is why nobody, or nobody yet, was found to ask.
type Denied struct {
	Status int // 401 with the challenges, 403, 429, or 503: it can't be known now
	Text   string
	Wait   time.Duration // before it is worth to ask again (Retry-After); 0: unknown
}

func (d *Denied) Error() string { return d.Text }
