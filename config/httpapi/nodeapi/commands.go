package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// ApplyOptions a config is applied.
type ApplyOptions struct {
	Local   bool          // against the controller that rules the node, until it is released
	Confirm time.Duration // undone after it unless it is confirmed; 0: it stands at once
	By      string        // who does it, for people
}

// Commander is the part of a Backend that says who rules a node, and what is yet to prove itself.
type Commander interface {
	// Confirm makes the pending config the confirmed one; ErrConflict says that there is none.
	Confirm(ctx context.Context) error
	// Rollback undoes the pending config; ErrConflict says that there is none.
	Rollback(ctx context.Context) error
	// Release ends a local hold, and says whether there was one.
	Release(ctx context.Context) (held bool, err error)
}

// Pending is what waits for its confirmation, what was undone last, and who rules the node:
// the status of the one resource of kind pending.
type Pending struct {
	Pending    bool     `json:"pending"`
	Source     string   `json:"source"`     // of what is to run
	Generation string   `json:"generation"` // of it, as authority:counter
	MD5        string   `json:"md5"`
	InForce    string   `json:"inForce"`            // the generation that is applied to the end
	Restores   string   `json:"restores,omitempty"` // of a rollback: whose config it is
	Fallback   bool     `json:"fallback"`           // nothing is removed from the host by it
	Undoing    bool     `json:"undoing"`
	Remaining  string   `json:"remaining"`       // of a pending one, until it is undone
	Settled    bool     `json:"settled"`         // a pending one was applied, and its actions have run
	Worse      []string `json:"worse,omitempty"` // what was good before it and is bad now
	Undone     string   `json:"undone,omitempty"`
	Actions    []string `json:"actions,omitempty"` // of the last difference, with their results
	Managed    bool     `json:"managed"`
	Controller string   `json:"controller,omitempty"` // the one that the node has joined
	Linked     bool     `json:"linked"`               // it can be reached
	Held       string   `json:"held,omitempty"`
}

type released struct {
	Held bool `json:"held"`
}

// query spells how as the parameters of a request.
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

// parseApplyOptions reads what query spells; fault is "" where it can.
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

// The bounds of How.Confirm.
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

// Confirm makes the pending config the confirmed one.
func (c *Client) Confirm(ctx context.Context) error {
	_, err := post[struct{}](ctx, c, "/v1/confirm", nil, nil)
	return err
}

// Rollback undoes the pending config.
func (c *Client) Rollback(ctx context.Context) error {
	_, err := post[struct{}](ctx, c, "/v1/rollback", nil, nil)
	return err
}

// Release ends a local hold, and says whether there was one.
func (c *Client) Release(ctx context.Context) (held bool, err error) {
	out, err := post[released](ctx, c, "/v1/release", nil, nil)
	return out.Held, err
}
