package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	Local   bool          // override the controller that manages the node, until Release
	Confirm time.Duration // undo the config after this time unless it is confirmed; 0: no confirmation is needed
	By      string        // who applies it, for people
	Caller  string        // the user that the kernel names, "uid N"; a client does not send it
}

// Commander is the part of a Backend that confirms or undoes a pending config, ends a local hold, enforces
// rules, and drains ports.
type Commander interface {
	// Confirm confirms the pending config; ErrConflict if there is none.
	Confirm(ctx context.Context) error
	// Rollback undoes the pending config; ErrConflict if there is none.
	Rollback(ctx context.Context) error
	// Release ends a local hold, and reports whether there was one.
	Release(ctx context.Context) (held bool, err error)
	// Enforce ends observe of an app's adapters, or of the one with index, and applies the config without it as Apply
	// does; ErrNotFound if there is no such adapter, ErrConflict if a controller manages the node's config.
	Enforce(ctx context.Context, app, index string, how EnforceOptions) (Enforced, error)
	// Drain keeps a port free of networks that have another one that works, and returns until when, the zero time for
	// until Undrain; ErrNotFound if no port has the label. A port that is drained already gets the new end.
	Drain(ctx context.Context, label string, how DrainOptions) (until time.Time, err error)
	// Undrain ends a drain, and reports whether there was one; ErrNotFound if no port has the label.
	Undrain(ctx context.Context, label string) (drained bool, err error)
}

// Pending describes the pending config, the last undo, and who manages the node: it is the status of the one resource
// of kind pending.
type Pending struct {
	Pending    bool     `json:"pending"`
	Source     string   `json:"source"`     // of the desired config
	Generation string   `json:"generation"` // of the desired config, as authority:counter
	MD5        string   `json:"md5"`
	InForce    string   `json:"inForce"`            // the generation that is fully applied
	Restores   string   `json:"restores,omitempty"` // after a rollback: the generation whose config it restores
	Fallback   bool     `json:"fallback"`           // this config removes nothing from the host
	Undoing    bool     `json:"undoing"`
	Remaining  string   `json:"remaining"`       // until a pending config is undone
	Settled    bool     `json:"settled"`         // the pending config was applied, and its actions have finished
	Worse      []string `json:"worse,omitempty"` // items that were good before the pending config and are bad now
	Undone     string   `json:"undone,omitempty"`
	Actions    []string `json:"actions,omitempty"` // of the last change, with their results
	Managed    bool     `json:"managed"`
	Controller string   `json:"controller,omitempty"` // the controller that the node has joined
	Linked     bool     `json:"linked"`               // the controller can be reached
	Held       string   `json:"held,omitempty"`
}

type released struct {
	Held bool `json:"held"`
}

// query encodes the options as query parameters.
func (h ApplyOptions) query() url.Values {
	q := url.Values{}
	if h.Local {
		q.Set("local", "1")
	}
	if h.Confirm != 0 {
		q.Set("confirm", h.Confirm.String())
	}
	if h.By != "" {
		q.Set("by", h.By)
	}
	return q
}

// parseApplyOptions parses query parameters; fault is "" if they are valid.
func parseApplyOptions(q url.Values) (how ApplyOptions, fault string) {
	how.By = q.Get("by")
	switch local := q.Get("local"); local {
	case "", "0":
	case "1":
		how.Local = true
	default:
		return how, fmt.Sprintf("local: invalid value %q: must be 0 or 1", local)
	}
	if text := q.Get("confirm"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < MinConfirm || d > MaxConfirm {
			return how, fmt.Sprintf("confirm: invalid value %q: must be a duration from %v to %v", text, MinConfirm, MaxConfirm)
		}
		how.Confirm = d
	}
	return how, ""
}

// The bounds of ApplyOptions.Confirm.
const (
	MinConfirm = time.Second
	MaxConfirm = 24 * time.Hour
)

func (a *api) confirm(w http.ResponseWriter, r *http.Request) {
	answerWith(w, struct{}{}, a.backend.Confirm(r.Context()))
}

func (a *api) rollback(w http.ResponseWriter, r *http.Request) {
	answerWith(w, struct{}{}, a.backend.Rollback(r.Context()))
}

func (a *api) release(w http.ResponseWriter, r *http.Request) {
	held, err := a.backend.Release(r.Context())
	answerWith(w, released{held}, err)
}

// Confirm confirms the pending config.
func (c *Client) Confirm(ctx context.Context) error {
	_, err := post[struct{}](ctx, c, "/v1/confirm", nil, nil)
	return err
}

// Rollback undoes the pending config.
func (c *Client) Rollback(ctx context.Context) error {
	_, err := post[struct{}](ctx, c, "/v1/rollback", nil, nil)
	return err
}

// Release ends a local hold, and reports whether there was one.
func (c *Client) Release(ctx context.Context) (held bool, err error) {
	out, err := post[released](ctx, c, "/v1/release", nil, nil)
	return out.Held, err
}
