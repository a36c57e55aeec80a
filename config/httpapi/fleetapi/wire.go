package fleetapi

import (
	"encoding/json"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
)

// Types that the routes answer with, besides those of backend.go. A document (a config, a layer, the topology) is sent
// as its object, with its revision in the ETag and its digest in DigestHeader.

// DigestHeader is the header with a document's digest.
const DigestHeader = "Edgespan-Digest"

// By is the revision that set a value.
type By struct {
	Number  uint64    `json:"number"`
	Author  string    `json:"author"`
	Time    time.Time `json:"time"`
	Message string    `json:"message,omitempty"`
}

// Explanation is one value of a node's effective config: which layer set it, when, by whom, and the values that it
// shadows.
type Explanation struct {
	Path     string   `json:"path"`
	Value    any      `json:"value"`
	Origin   string   `json:"origin"`
	By       *By      `json:"by,omitempty"` // nil for layers without revisions: base, firmware, hardware
	Shadowed []Shadow `json:"shadowed"`     // the highest first
}

// Shadow is the value of a lower layer, at the path or above it.
type Shadow struct {
	Layer string `json:"layer"`
	Path  string `json:"path"`
	Value any    `json:"value"`
	By    *By    `json:"by,omitempty"`
}

// LayerDiff is the difference of one layer between two revisions. Before and After are the revisions that wrote it
// last, 0 for never.
type LayerDiff struct {
	Layer  string  `json:"layer"`
	Before uint64  `json:"before"`
	After  uint64  `json:"after"`
	Values []Value `json:"values"`
}

// EditionDetail is one revision and its changes.
type EditionDetail struct {
	Edition
	Changes []LayerDiff `json:"changes"`
}

// Files are the documents of the seed's files under /data/cfg; a nil document is a missing file, {} an empty one.
type Files struct {
	Network  config.Object            `json:"network,omitzero"`  // network_config_overrides.json
	Nodes    config.Object            `json:"nodes,omitzero"`    // node_config_overrides.json
	Auto     config.Object            `json:"auto,omitzero"`     // auto_node_config_overrides.json
	Topology config.Object            `json:"topology,omitzero"` // e2e_topology.conf
	Metadata config.Object            `json:"metadata,omitzero"` // config_metadata.json
	E2E      map[string]config.Object `json:"e2e,omitzero"`      // "controller": controller_config.json, …
}

// Exported is the files as of a revision.
type Exported struct {
	Revision uint64 `json:"revision"`
	Files    Files  `json:"files"`
}

// NewOperator is a new token; its text is shown once.
type NewOperator struct {
	OperatorToken
	Token string `json:"token"`
}

// Check is one check of /readyz?verbose. The log says why it fails, since the route needs no authentication.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
}

// Alive answers /livez and /readyz.
type Alive struct {
	Status   string   `json:"status"`
	Checks   []Check  `json:"checks,omitempty"`   // of /readyz?verbose
	Warnings []string `json:"warnings,omitempty"` // of /readyz: for people to look at, although requests are served
}

// Nothing is the answer of a call without a result.
type Nothing struct{}

// UnmarshalJSON keeps 64-bit integers exact, as config.Parse does.
func (v *Value) UnmarshalJSON(text []byte) error {
	type plain Value
	return decodeExact(text, (*plain)(v), map[string]*any{"old": &v.Old, "new": &v.New})
}

// UnmarshalJSON keeps 64-bit integers exact.
func (e *Explanation) UnmarshalJSON(text []byte) error {
	type plain Explanation
	return decodeExact(text, (*plain)(e), map[string]*any{"value": &e.Value})
}

// UnmarshalJSON keeps 64-bit integers exact.
func (s *Shadow) UnmarshalJSON(text []byte) error {
	type plain Shadow
	return decodeExact(text, (*plain)(s), map[string]*any{"value": &s.Value})
}

// UnmarshalJSON keeps 64-bit integers exact.
func (p *Preview) UnmarshalJSON(text []byte) error {
	type plain Preview
	var overrides any
	err := decodeExact(text, (*plain)(p), map[string]*any{"overrides": &overrides})
	p.Overrides, _ = overrides.(config.Object)
	return err
}

// decodeExact decodes an object, and the given members with config.Parse.
func decodeExact(text []byte, into any, members map[string]*any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return err
	}
	var raw map[string]json.RawMessage
	err := json.Unmarshal(text, &raw)
	for name, member := range members {
		if one, ok := raw[name]; ok && err == nil {
			var v exact
			err = json.Unmarshal(one, &v)
			*member = v.value
		}
	}
	return err
}

// UnmarshalJSON keeps 64-bit integers exact.
func (f *Files) UnmarshalJSON(text []byte) error {
	var raw struct {
		Network, Nodes, Auto, Topology, Metadata exact
		E2E                                      map[string]exact
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	object := func(e exact) config.Object { o, _ := e.value.(config.Object); return o }
	*f = Files{
		Network: object(raw.Network), Nodes: object(raw.Nodes), Auto: object(raw.Auto),
		Topology: object(raw.Topology), Metadata: object(raw.Metadata),
	}
	for name, e := range raw.E2E {
		if f.E2E == nil {
			f.E2E = map[string]config.Object{}
		}
		f.E2E[name] = object(e)
	}
	return nil
}

// FromHistory converts the files to their wire form.
func FromHistory(f history.Files) Files {
	return Files{Network: f.Network, Nodes: f.Nodes, Auto: f.Auto, Topology: f.Topology, Metadata: f.Metadata, E2E: f.E2E}
}

// History converts the files from their wire form.
func (f Files) History() history.Files {
	return history.Files{Network: f.Network, Nodes: f.Nodes, Auto: f.Auto, Topology: f.Topology, Metadata: f.Metadata,
		E2E: f.E2E}
}

// exact is a value parsed by config.Parse.
type exact struct{ value any }

// UnmarshalJSON parses text, which is valid JSON.
func (e *exact) UnmarshalJSON(text []byte) error {
	v, faults := config.Parse(text)
	if len(faults) > 0 {
		return faults
	}
	e.value = v
	return nil
}
