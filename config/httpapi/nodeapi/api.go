package nodeapi

import (
	"context"
)

// MaxDocument is the largest node config that apply and plan take, in bytes.
const MaxDocument = 4 << 20

// Kinds are the kinds of resource that List knows, in the order they are shown.
func Kinds() []string {
	return []string{"ni", "app", "adapter", "port", "param", "actor", "config", "pending"}
}

// WaitKinds are the kinds that have a readiness.
func WaitKinds() []string { return []string{"ni", "app"} }

// Resource is one object as `get` shows it: what was asked for and what became of it.
// The id of an adapter is "<app>/<index>".
type Resource struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Spec   any    `json:"spec"`
	Status any    `json:"status"`
}

// Change is one step that a plan would take on the host.
type Change struct {
	Op    string `json:"op"`
	Kind  string `json:"kind"`
	ID    string `json:"id"`
	Owner string `json:"owner"`
}

// Readiness answers wait: Ready and Absent as issue "edge daemon" item 6 defines
// them, Why says what is still missing.
type Readiness struct {
	Ready  bool   `json:"ready"`
	Absent bool   `json:"absent"`
	Why    string `json:"why"`
}

// Backend is what the daemon offers behind the socket. Methods are called
// concurrently, end when ctx does, and answer with the errors of this package where a
// caller branches: *Rejected, *Incomplete, ErrConflict, ErrBusy, ErrNotFound,
// ErrPermission.
type Backend interface {
	// Apply stores doc, a whole node config, and returns when it is valid and stored. ErrConflict
	// says that the node takes its config from a controller.
	Apply(ctx context.Context, doc []byte, how ApplyOptions) (warnings []string, err error)
	// Plan says what Apply would change, and changes nothing.
	Plan(ctx context.Context, doc []byte) ([]Change, error)
	// List returns all resources of one of Kinds. With *Incomplete what it did get comes along.
	List(ctx context.Context, kind string) ([]Resource, error)
	// Ready judges one of WaitKinds; an unknown id is Absent and no error.
	Ready(ctx context.Context, kind, id string) (Readiness, error)
	Looker
	Commander
}

// The bodies on the wire.
type (
	applied struct {
		Warnings []string `json:"warnings"`
	}
	planned struct {
		Changes []Change `json:"changes"`
	}
	listed struct {
		Items   []Resource `json:"items"`
		Missing []string   `json:"missing,omitempty"`
	}
	versioned struct {
		Version string `json:"version"`
	}
	alive struct {
		Status string `json:"status"`
	}
)
