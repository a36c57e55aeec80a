package model

import (
	"encoding/json"
	"fmt"

	"edgespan/config/configdb"
	"edgespan/config/kv"
)

// headValue is the value of HeadKey.
type headValue struct {
	Revision uint64 `json:"revision"`
	Serial   uint64 `json:"serial"` // the last one assigned
	// Set names the unfinished write, and Parts is the number of its parts.
	Set   string `json:"set,omitempty"`
	Parts int    `json:"parts,omitempty"`
	IDs   ids    `json:"ids"`
}

// ids are the last automatically assigned ids.
type ids struct {
	Component   int64 `json:"component,omitempty"`
	Definition  int64 `json:"definition,omitempty"`
	Environment int64 `json:"environment,omitempty"`
	Level       int64 `json:"level,omitempty"`
}

// component is the value of a component's key, with its serial.
type component struct {
	serial uint64
	ID     int64  `json:"id"`
	Name   string `json:"name"`
}

// definition is the value of a definition's key, with its serial. Component is a serial, 0 for none; a definition whose
// component does not exist is invisible.
type definition struct {
	serial    uint64
	masks     string   // digest of Secrets; "" without any
	ID        int64    `json:"id"`
	Name      string   `json:"name"`
	Component uint64   `json:"component,omitempty"`
	Secrets   []string `json:"secrets,omitempty"`
	// Contents are the present content, last, and up to keptContents in total with its predecessors.
	Contents []content `json:"contents,omitempty"`
}

const keptContents = 256

// content is one content of a definition. SHA is "" for null.
type content struct {
	Revision   uint64   `json:"revision"`
	SHA        string   `json:"sha,omitempty"`
	Size       int      `json:"size,omitempty"` // 0 if an earlier release wrote it
	Form       form     `json:"form,omitempty"`
	References []string `json:"references,omitempty"` // resources that a template names
}

// form is the role of a content in effective values.
type form string

// The forms. An object from an earlier release always takes part in effective values, even after an edit of its keys.
const (
	formOld      form = ""
	formOpaque   form = "opaque"
	formTemplate form = "template" // {"$template": {…}}
)

// templateKey is the only key of a content that takes part in effective values.
const templateKey = "$template"

// templateOf returns the object below the marker if a content is a template.
func templateOf(v configdb.JSON) (configdb.JSON, bool) {
	o, err := configdb.ObjectOf(v)
	if err != nil || o.Len() != 1 {
		return nil, false
	}
	inner, ok := o.Get(templateKey)
	return inner, ok && isObject(inner)
}

// content returns the newest content, or the one at a revision.
func (d *definition) content(at uint64) content {
	for i := len(d.Contents) - 1; i >= 0; i-- {
		if at == 0 || d.Contents[i].Revision <= at {
			return d.Contents[i]
		}
	}
	return content{}
}

// environment is the value of an environment's key, with its serial and the data below it.
type environment struct {
	serial     uint64
	ID         int64    `json:"id"`
	Components []uint64 `json:"components"` // serials; a component that does not exist is invisible
	Levels     []level  `json:"levels"`
	Nodes

	by      *token
	records int
	own     int64            // bytes of the newest versions that nodes uploaded about themselves
	places  table[*records]  // by place.name
	paths   table[struct{}]  // places below which something was written, by place.name
	nodes   table[nodeValue] // by id
	aliases table[string]    // fqdn or certname to id
}

type level struct {
	Serial uint64 `json:"serial"`
	ID     int64  `json:"id"`
	Name   string `json:"name"`
}

// records are those of one place, by the serials of their definitions.
type records struct {
	by *token
	m  map[uint64]halves
}

func (rs *records) count() int {
	if rs == nil {
		return 0
	}
	return len(rs.m)
}

// uploadedBytes returns the bytes of the place's newest versions that a node uploaded about itself.
func (rs *records) uploadedBytes() (size int64) {
	if rs == nil {
		return 0
	}
	for _, n := range rs.m {
		size += n.uploadedBytes()
	}
	return size
}

// halves holds the newest versions of a record, the value of its key.
type halves struct {
	Values    half `json:"values,omitzero"`
	Overrides half `json:"overrides,omitzero"`
}

// uploadedBytes returns the bytes of the newest versions that a node uploaded about itself.
func (n halves) uploadedBytes() (size int64) {
	for _, h := range []half{n.Values, n.Overrides} {
		if h.Own {
			size += int64(h.Size)
		}
	}
	return size
}

func (n *halves) half(k Kind) *half {
	if k == Overrides {
		return &n.Overrides
	}
	return &n.Values
}

// half is the result of one write to a half of a record: a version, or, if SHA is "", a removal, which has no version
// number. N counts both from 1 and is part of the key; 0 means that the half was never written.
type half struct {
	N        uint64 `json:"n"`
	Removals uint64 `json:"removals,omitempty"` // number of removals among the N, including this one
	Revision uint64 `json:"revision"`
	SHA      string `json:"sha,omitempty"`
	Size     int    `json:"size,omitempty"`
	// Own marks a version that a node uploaded about itself. OwnCount and OwnBytes are the number and bytes of such
	// versions so far, including this one. An earlier release does not write these fields, so the counts restart after its
	// writes.
	Own      bool   `json:"own,omitempty"`
	OwnCount uint64 `json:"ownCount,omitempty"`
	OwnBytes uint64 `json:"ownBytes,omitempty"`
}

// version returns the number of versions so far, which is the half's own number unless it is a removal.
func (h half) version() uint64 { return h.N - h.Removals }

// nodeValue is the value of a node's key. Levels are by level serial; a level that does not exist is invisible.
type nodeValue struct {
	FQDN     string            `json:"fqdn,omitempty"`
	Certname string            `json:"certname,omitempty"`
	Levels   map[uint64]string `json:"levels,omitempty"`
	By       string            `json:"by,omitempty"` // who registered it: byAdmin, byUpload; "": an earlier release
}

const (
	byAdmin  = "admin"
	byUpload = "upload"
)

// declared reports whether an admin registered the node. If an earlier release did not record it, a node counts as
// declared if it has data that no upload sets: levels, or names other than that of its certificate.
func (n nodeValue) declared(id string) bool {
	if n.By == "" {
		return len(n.Levels) > 0 || n.FQDN != "" || n.Certname != "" && n.Certname != id
	}
	return n.By == byAdmin
}

// setPart is one part of a write that is too large for one transaction.
type setPart struct {
	Ops []setOp `json:"ops"`
}

// setOp writes a key, or deletes it if Value is empty.
type setOp struct {
	Key   kv.Key          `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // impossible for these types
	}
	return text
}

func decode[V any](k kv.Key, value []byte) (v V, err error) {
	if err := json.Unmarshal(value, &v); err != nil {
		return v, fmt.Errorf("read %s: %w", k, err)
	}
	return v, nil
}
