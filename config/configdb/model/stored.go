package model

import (
	"encoding/json"
	"fmt"

	"edgespan/config/configdb"
	"edgespan/config/kv"
)

// headValue is what HeadKey holds.
type headValue struct {
	Revision uint64 `json:"revision"`
	Serial   uint64 `json:"serial"` // the last that was given
	// Set names the write that is not in its place yet, of so many parts.
	Set   string `json:"set,omitempty"`
	Parts int    `json:"parts,omitempty"`
	IDs   ids    `json:"ids"`
}

// ids are the last of those that were given where the caller gave none.
type ids struct {
	Component   int64 `json:"component,omitempty"`
	Definition  int64 `json:"definition,omitempty"`
	Environment int64 `json:"environment,omitempty"`
	Level       int64 `json:"level,omitempty"`
}

// component is what the key of a component holds, and its serial.
type component struct {
	serial uint64
	ID     int64  `json:"id"`
	Name   string `json:"name"`
}

// definition is what the key of a definition holds, and its serial. Component is the serial of one, 0 for
// none: a definition whose component is not there is out of sight.
type definition struct {
	serial    uint64
	masks     string   // the digest of its secrets; "" without any
	ID        int64    `json:"id"`
	Name      string   `json:"name"`
	Component uint64   `json:"component,omitempty"`
	Secrets   []string `json:"secrets,omitempty"`
	// Contents are what the content was, the newest last; older ones than keptContents are
	// forgotten.
	Contents []content `json:"contents,omitempty"`
}

const keptContents = 256

// content is one content of a definition. SHA is "" for null.
type content struct {
	Revision   uint64   `json:"revision"`
	SHA        string   `json:"sha,omitempty"`
	Size       int      `json:"size,omitempty"` // 0 of one that an earlier release wrote
	Form       form     `json:"form,omitempty"`
	References []string `json:"references,omitempty"` // the resources that it names, if it is a template
}

// form says what a content is to effective values.
type form string

// The forms. An object that an earlier release wrote is part of them by itself, also after keys of it were edited.
const (
	formOld      form = ""
	formOpaque   form = "opaque"
	formTemplate form = "template" // {"$template": {…}}
)

// templateKey is the only key of a content that is part of effective values.
const templateKey = "$template"

// templateOf is the object below the marker, if a content is marked.
func templateOf(v configdb.JSON) (configdb.JSON, bool) {
	o, err := configdb.ObjectOf(v)
	if err != nil || o.Len() != 1 {
		return nil, false
	}
	inner, is := o.Get(templateKey)
	return inner, is && isObject(inner)
}

// content is the newest one, or that as of a revision.
func (d *definition) content(at uint64) content {
	for i := len(d.Contents) - 1; i >= 0; i-- {
		if at == 0 || d.Contents[i].Revision <= at {
			return d.Contents[i]
		}
	}
	return content{}
}

// environment is what the key of an environment holds, its serial, and what is below it.
type environment struct {
	serial     uint64
	ID         int64    `json:"id"`
	Components []uint64 `json:"components"` // serials; one that is not there is out of sight
	Levels     []level  `json:"levels"`
	Nodes

	by      *token
	records int
	own     int64            // bytes of what nodes have of themselves, the newest versions alone
	places  table[*records]  // by place.name
	paths   table[struct{}]  // those below which something was written, by place.name
	nodes   table[nodeValue] // by id
	aliases table[string]    // an fqdn or certname: the id
}

type level struct {
	Serial uint64 `json:"serial"`
	ID     int64  `json:"id"`
	Name   string `json:"name"`
}

// records are those of one place, by the serials of their definitions.
type records struct {
	by *token
	m  map[uint64]now
}

func (rs *records) count() int {
	if rs == nil {
		return 0
	}
	return len(rs.m)
}

// own is how many bytes of a place's newest versions a node uploaded of itself.
func (rs *records) own() (size int64) {
	if rs == nil {
		return 0
	}
	for _, n := range rs.m {
		size += n.own()
	}
	return size
}

// now is the newest versions of a record, as its key has them.
type now struct {
	Values    half `json:"values,omitzero"`
	Overrides half `json:"overrides,omitzero"`
}

// own is how many bytes the newest versions have that a node uploaded of itself.
func (n now) own() (size int64) {
	for _, h := range []half{n.Values, n.Overrides} {
		if h.Own {
			size += int64(h.Size)
		}
	}
	return size
}

func (n *now) half(k Kind) *half {
	if k == Overrides {
		return &n.Overrides
	}
	return &n.Values
}

// half is what one write made of a half of a record: a version, or, where SHA is "", its removal, which has no number
// among the versions. N counts both, from 1, and names the key; it is 0 where there never was any.
type half struct {
	N        uint64 `json:"n"`
	Removals uint64 `json:"removals,omitempty"` // how many of the N are removals, this one included
	Revision uint64 `json:"revision"`
	SHA      string `json:"sha,omitempty"`
	Size     int    `json:"size,omitempty"`
	// Own is a version that a node uploaded of itself; OwnCount and OwnBytes are how many such versions there were so
	// far, and their bytes, this one included. An earlier release wrote none of them, and makes them begin anew where it
	// writes beside this one.
	Own      bool   `json:"own,omitempty"`
	OwnCount uint64 `json:"ownCount,omitempty"`
	OwnBytes uint64 `json:"ownBytes,omitempty"`
}

// version is how many versions there are with this: its own number, if it is one.
func (h half) version() uint64 { return h.N - h.Removals }

// nodeValue is what the key of a node holds. Levels are by the serials of levels; one that is not there
// is out of sight.
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

// declared says whether an admin has registered the node. Where an earlier release did not write that down, what no
// upload gives a node counts: levels, and other names than that of its certificate.
func (n nodeValue) declared(id string) bool {
	if n.By == "" {
		return len(n.Levels) > 0 || n.FQDN != "" || n.Certname != "" && n.Certname != id
	}
	return n.By == byAdmin
}

// setPart is what a part of a write that is too large for one transaction holds.
type setPart struct {
	Ops []setOp `json:"ops"`
}

// setOp writes a key; without a value it deletes it.
type setOp struct {
	Key   kv.Key          `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // none of these types can fail
	}
	return text
}

func decode[V any](k kv.Key, value []byte) (v V, err error) {
	if err := json.Unmarshal(value, &v); err != nil {
		return v, fmt.Errorf("read %s: %w", k, err)
	}
	return v, nil
}
