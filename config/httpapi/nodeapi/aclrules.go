package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"edgespan/config/httpapi/rest"
)

// AppRules are the access rules of an app's adapters, with what they have decided.
type AppRules struct {
	App      string         `json:"app"`  // UUID
	Name     string         `json:"name"` // display name, "" for none
	Adapters []AdapterRules `json:"adapters"`
	Error    string         `json:"error,omitempty"` // why not all counters could be read now
}

// AdapterRules are the access rules of one adapter, in order, and the drops behind the last. Read is when their
// counters were last read; absent if they were not yet.
type AdapterRules struct {
	Adapter string     `json:"adapter"` // "<app>/<index>"
	Read    time.Time  `json:"read,omitzero"`
	Rules   []RuleHits `json:"rules"`
	Observe bool       `json:"observe,omitempty"` // the rules deny nothing, except toward the node
	// Shadow is what the rules of an adapter with Observe would have denied since it has that, one entry for each rule
	// that may deny and each direction. Toward the node they do deny.
	Shadow []RuleHits `json:"shadow,omitempty"`
}

// Shadowed returns the adapters with Observe, with Shadow as their rules.
func (x AppRules) Shadowed() AppRules {
	all := x.Adapters
	x.Adapters = []AdapterRules{}
	for _, a := range all {
		if a.Observe {
			a.Rules, a.Shadow = a.Shadow, nil
			x.Adapters = append(x.Adapters, a)
		}
	}
	return x
}

// RuleHits is what an access rule has decided since the daemon's start, or since before that if the rule is older.
// Packets of a flow that an earlier packet of it has opened are not counted, except in a network with limits.
type RuleHits struct {
	Rule      string    `json:"rule"`      // its name in acl; "" for a drop behind the last
	Direction string    `json:"direction"` // egress, ingress or both; of a drop also "to the node" or "from the node"
	Action    string    `json:"action"`
	Packets   uint64    `json:"packets"`
	Bytes     uint64    `json:"bytes"`
	Dropped   uint64    `json:"dropped,omitempty"`  // of a limit: those of Packets above its rate
	Observed  uint64    `json:"observed,omitempty"` // those of Packets that it would deny and that passed
	LastHit   time.Time `json:"lastHit,omitzero"`   // of the reading in which Packets had grown; absent if unknown
}

// appOf reads the app, and the adapter or "", that a request names; if ok is false, the request is answered.
func (a *api) appOf(w http.ResponseWriter, r *http.Request) (app, index string, ok bool) {
	of := r.URL.Query().Get("of")
	kind, name, _ := strings.Cut(of, "/")
	if kind != "app" || name == "" {
		answerProblem(w, rest.Refuse(rest.TypeBadRequest, "of: invalid value %q: must be app/ID or app/ID/INDEX",
			printableName(of)))
		return "", "", false
	}
	of, err := identified(r.Context(), a.backend, of)
	if err != nil {
		answerError(w, fmt.Errorf("acl: %w", err))
		return "", "", false
	}
	app, index, _ = strings.Cut(strings.TrimPrefix(of, "app/"), "/")
	return strings.ToLower(app), index, true
}

func (a *api) rules(w http.ResponseWriter, r *http.Request) {
	if app, index, ok := a.appOf(w, r); ok {
		got, err := a.backend.Rules(r.Context(), app, index)
		answerWith(w, got, err)
	}
}

// appTarget is what appOf reads.
func appTarget(app, index string) string {
	if index == "" {
		return "app/" + app
	}
	return "app/" + app + "/" + index
}

// Rules reads what the access rules of an app, or of one of its adapters, have decided.
func (c *Client) Rules(ctx context.Context, app, index string) (AppRules, error) {
	return rest.Get[AppRules](ctx, c.Client, "/v1/acl/rules", url.Values{"of": {appTarget(app, index)}})
}
