package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"edgespan/config/httpapi/rest"
)

// EnforceOptions are the options of Enforce.
type EnforceOptions struct {
	DryRun   bool
	Replaces string        // Enforced.Config of a dry run: ErrConflict if the node has another config by now; "": any
	Confirm  time.Duration // as in ApplyOptions
	By       string        // as in ApplyOptions
	Caller   string        // as in ApplyOptions
}

// Enforced is what enforcing the access rules of an app changes.
type Enforced struct {
	Config   string      // the generation of the config that it replaces
	Adapters []string    // "<app>/<index>", those that had observe
	Flows    FlowChanges // that are denied from then on
	Warnings []string
}

// enforced is Enforced on the wire.
type enforced struct {
	Adapters        []string     `json:"adapters"`
	Flows           []FlowChange `json:"flows,omitempty"`
	FlowsLeftOut    int          `json:"flowsLeftOut,omitempty"`
	FlowsIncomplete bool         `json:"flowsIncomplete,omitempty"`
	Replaces        string       `json:"replaces"`
	Warnings        []string     `json:"warnings"`
}

func (a *api) enforce(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	apply, fault := parseApplyOptions(q)
	dry := q.Get("dryRun")
	switch {
	case fault != "":
	case dry != "" && dry != "0" && dry != "1":
		fault = fmt.Sprintf("dryRun: invalid value %q: must be 0 or 1", printableName(dry))
	case apply.Local:
		fault = "local: not allowed: a node that a controller manages is changed there"
	}
	if fault != "" {
		answerProblem(w, rest.Refuse(rest.TypeBadRequest, "%s", fault))
		return
	}
	app, index, ok := a.appOf(w, r)
	if !ok {
		return
	}
	x, err := a.backend.Enforce(r.Context(), app, index,
		EnforceOptions{DryRun: dry == "1", Replaces: q.Get("replaces"), Confirm: apply.Confirm, By: apply.By,
			Caller: callerOf(r.Context())})
	answerWith(w, enforced{orEmpty(x.Adapters), x.Flows.List, x.Flows.LeftOut, x.Flows.Incomplete, x.Config,
		orEmpty(x.Warnings)}, err)
}

// Enforce ends observe of an app's adapters, or of one of them.
func (c *Client) Enforce(ctx context.Context, app, index string, how EnforceOptions) (Enforced, error) {
	q := ApplyOptions{Confirm: how.Confirm, By: how.By}.query()
	q.Set("of", appTarget(app, index))
	if how.DryRun {
		q.Set("dryRun", "1")
	}
	if how.Replaces != "" {
		q.Set("replaces", how.Replaces)
	}
	x, err := post[enforced](ctx, c, "/v1/acl/enforce", q, nil)
	return Enforced{x.Replaces, x.Adapters, FlowChanges{x.Flows, x.FlowsLeftOut, x.FlowsIncomplete}, x.Warnings}, err
}
