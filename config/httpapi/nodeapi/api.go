package nodeapi

import (
	"context"
)

// MaxDocument is the largest node config that apply and plan accept, in bytes.
const MaxDocument = 4 << 20

// Kinds returns the kinds of resource that List accepts, in display order.
func Kinds() []string {
	return []string{"ni", "app", "adapter", "port", "tunnel", "lease", "dns", "param", "actor", "config", "pending"}
}

// WaitKinds returns the kinds that Ready accepts.
func WaitKinds() []string { return []string{"ni", "app"} }

// Resource is one object as `get` shows it: its desired and its observed state. The id of an adapter is
// "<app>/<index>".
type Resource struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Spec   any    `json:"spec"`
	Status any    `json:"status"`
}

// Change is one step of a plan.
type Change struct {
	Op    string `json:"op"`
	Kind  string `json:"kind"`
	ID    string `json:"id"`
	Owner string `json:"owner"`
}

// Readiness is the answer to wait: Ready and Absent as issue "edge daemon" item 6 defines them; Why says what is
// missing.
type Readiness struct {
	Ready  bool   `json:"ready"`
	Absent bool   `json:"absent"`
	Why    string `json:"why"`
}

// Check is one of the checks of /readyz; Detail says why it fails.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// Backend executes the requests in the daemon. Its methods are called concurrently and end when ctx does. They return
// the errors of config/httpapi/rest where a caller branches: *Rejected, *Incomplete, ErrConflict, ErrBusy, ErrNotFound,
// ErrPermission.
type Backend interface {
	// Apply stores doc, a complete node config, and returns when it is validated and stored. ErrConflict: a controller
	// manages the node's config.
	Apply(ctx context.Context, doc []byte, how ApplyOptions) (warnings []string, err error)
	// Plan returns what Apply would change, and changes nothing.
	Plan(ctx context.Context, doc []byte) ([]Change, error)
	// PlanFlows returns which flows Apply would allow or deny, of those that are denied or allowed now.
	PlanFlows(ctx context.Context, doc []byte) (FlowChanges, error)
	// List returns all resources of one of Kinds. With *Incomplete it also returns the ones it has.
	List(ctx context.Context, kind string) ([]Resource, error)
	// Ready returns the readiness of one of WaitKinds; an unknown id is Absent and no error.
	Ready(ctx context.Context, kind, id string) (Readiness, error)
	// Checks returns what /readyz checks; all must be OK. It reads what is known and waits for nothing.
	Checks() []Check
	Looker
	Commander
}

// The bodies on the wire.
type (
	applied struct {
		Warnings []string `json:"warnings"`
	}
	planned struct {
		Changes         []Change     `json:"changes"`
		Flows           []FlowChange `json:"flows,omitempty"`
		FlowsLeftOut    int          `json:"flowsLeftOut,omitempty"`
		FlowsIncomplete bool         `json:"flowsIncomplete,omitempty"`
	}
	listed struct {
		Items   []Resource `json:"items"`
		Missing []string   `json:"missing,omitempty"`
	}
	versioned struct {
		Version string `json:"version"`
	}
	alive struct {
		Status string  `json:"status"`
		Checks []Check `json:"checks,omitempty"` // of /readyz?verbose
	}
)
