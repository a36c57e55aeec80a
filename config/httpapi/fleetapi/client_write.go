package fleetapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/optimize"
	"edgespan/config/httpapi/rest"
)

// WriteOptions are the options of a write.
type WriteOptions struct {
	Message string // for the history
	DryRun  bool   // report what would happen, and do nothing
	// IfMatch is the revision of the written document that the caller has read; nil: any. 0 means never written.
	IfMatch *uint64
}

// Write changes layers. It accepts the writes of package ops except SetAuto, which only the controller makes, and
// Optimize of more than one kind.
func (c *Client) Write(ctx context.Context, w ops.Write, o WriteOptions) (Written, error) {
	r, err := writeRequest(w)
	if err != nil {
		return Written{}, err
	}
	rest.SetText(r.Query, "message", o.Message)
	rest.SetFlag(r.Query, "dryRun", o.DryRun)
	if o.IfMatch != nil {
		r.Header = map[string]string{"If-Match": revisionTag(*o.IfMatch)}
	}
	return rest.Ask[Written](ctx, c.Client, r)
}

// Preview asks the nodes that a SetNetwork or SetNodes would affect for the actions that it would trigger.
// PreviewResult returns their answers.
func (c *Client) Preview(ctx context.Context, w ops.Write) (Preview, error) {
	var modify bool
	switch w := w.(type) {
	case ops.SetNetwork:
		modify = w.Modify
	case ops.SetNodes:
		modify = w.Modify
	default:
		return Preview{}, fmt.Errorf("preview of %T: must be network or node overrides", w)
	}
	r, err := writeRequest(w)
	if err != nil {
		return Preview{}, err
	}
	r.Method, r.Path = http.MethodPost, r.Path+"/actions"
	rest.SetFlag(r.Query, "modify", modify)
	return rest.Ask[Preview](ctx, c.Client, r)
}

// writeRequest returns the request for a write.
func writeRequest(w ops.Write) (request, error) {
	v := url.Values{}
	switch w := w.(type) {
	case ops.SetNetwork:
		return newBodyRequest(setOrModify(w.Modify), route("layers", "network"), v, w.Overrides)
	case ops.SetNodes:
		return newBodyRequest(setOrModify(w.Modify), route("layers", "node"), v, w.Overrides)
	case ops.Unset:
		setPaths(v, "paths", w.Keys)
		return request{Method: http.MethodDelete, Path: route("layers", w.Layer.String()), Query: v}, nil
	case ops.ClearAuto:
		setList(v, "nodes", w.Nodes)
		setPaths(v, "paths", w.Paths)
		return request{Method: http.MethodDelete, Path: route("layers", "auto"), Query: v}, nil
	case ops.SetE2E:
		rest.SetText(v, "replica", w.Replica)
		return newBodyRequest(setOrModify(w.Modify), route("e2e", w.File), v, w.Config)
	case ops.Optimize:
		if len(w.Kinds) != 1 {
			return request{}, fmt.Errorf("optimize: %d kinds: must be one at a time", len(w.Kinds))
		}
		rest.SetFlag(v, "clearUser", w.ClearUser)
		return request{Method: http.MethodPost, Path: route("optimize", kindWord(w.Kinds[0])), Query: v}, nil
	case ops.SetTopology:
		return newBodyRequest(http.MethodPut, route("topology"), v, w.Document)
	case ops.EditTopology:
		return topologyRequest(w)
	case ops.Restore:
		for _, l := range w.Layers {
			v.Add("layers", l.String())
		}
		return request{Method: http.MethodPost, Path: route("history", strconv.FormatUint(w.Revision, 10), "restore"),
			Query: v}, nil
	case ops.Revert:
		return request{Method: http.MethodPost, Path: route("history", strconv.FormatUint(w.Revision, 10), "revert"),
			Query: v}, nil
	case ops.Import:
		return newBodyRequest(http.MethodPost, route("import"), v, FromHistory(w.Files))
	}
	return peerRequest(w)
}

func topologyRequest(w ops.EditTopology) (request, error) {
	v, many := url.Values{}, w.Object+"s"
	switch w.Op {
	case "add":
		return newBodyRequest(http.MethodPost, route("topology", many), v, w.Document)
	case "edit":
		return newBodyRequest(http.MethodPatch, route("topology", many, w.Name), v, w.Document)
	case "delete":
		return request{Method: http.MethodDelete, Path: route("topology", many, w.Name), Query: v}, nil
	case "rename":
		return newBodyRequest(http.MethodPost, route("topology", many, w.Name, "rename"), v, config.Object{"to": w.To})
	}
	return request{}, fmt.Errorf("edit of the topology: invalid value %s: must be add, edit, delete or rename",
		config.Quote(w.Op))
}

func setOrModify(modify bool) string {
	if modify {
		return http.MethodPatch
	}
	return http.MethodPut
}

// superframe is the name of optimize.Superframe in the route, as in the seed.
const superframe = "control-superframe"

func kindWord(k optimize.Kind) string {
	if k == optimize.Superframe {
		return superframe
	}
	return string(k)
}

func newBodyRequest(method, path string, v url.Values, doc any) (request, error) {
	if o, ok := doc.(config.Object); ok && o == nil {
		doc = config.Object{} // null is no document
	}
	body, err := encode(doc)
	return request{Method: method, Path: path, Query: v, Body: body}, err
}

// encode encodes JSON without escaping <, > and &.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return b.Bytes(), nil
}

// spellItem spells a name as one item of a list in a query (splitList).
func spellItem(name string) string {
	if name == "" || strings.ContainsAny(name, `",`) {
		return quoted(name)
	}
	return name
}

func quoted(s string) string {
	text, _ := encode(s) // a string always has a JSON form
	return strings.TrimSpace(string(text))
}
