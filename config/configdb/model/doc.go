// Package model owns the objects of ConfigDB: components, resource definitions, environments with their levels and
// nodes, and records with their versions; the validation of a write and the changes that it makes; and the keys of all
// these in the controller's store (docs/adr/0022).
//
// It never talks to a store: it names the keys to read and gets them through a Reader, and a write becomes transactions
// that the caller commits in order. It never checks permissions, never speaks HTTP and has no clock.
//
// Read state.go first, then apply.go.
package model

import (
	"time"

	"edgespan/config/configdb"
)

// Ref names a component, a resource definition or a level, by its id or by its name.
type Ref struct {
	ID   int64
	Name string // "": the reference is by ID
}

// Kind is one of the two halves of a record.
type Kind string

// The halves of a record. Overrides are merged over the values of their level and survive new uploads of values.
const (
	Values    Kind = "values"
	Overrides Kind = "overrides"
)

// LevelValue is one pair of a path: the name of a level and one of its values ("nodes", "1").
type LevelValue struct {
	Level string `json:"level"`
	Value string `json:"value"`
}

// Target is one resource at one place of an environment. Levels are a prefix of the environment's levels, in their
// order; none means the root, which applies to the complete environment. The value of the level "nodes" (or "node") may
// be any name of a registered node.
type Target struct {
	Environment int64
	Levels      []LevelValue
	Resource    Ref
}

// Component is a component in the form of the API.
type Component struct {
	ID          int64        `json:"id"`
	Name        string       `json:"name"`
	Definitions []Definition `json:"resource_definitions"`
}

// Definition is a resource definition in the form of the API. Component is nil if it belongs to no component; Content
// is null if it has none.
type Definition struct {
	ID        int64         `json:"id"`
	Name      string        `json:"name"`
	Component *int64        `json:"component_id"`
	Content   configdb.JSON `json:"content"`
	Secret    bool          `json:"-"` // it declares secrets
}

// Environment is an environment in the form of the API. Its levels go from the broadest to the narrowest.
type Environment struct {
	ID         int64    `json:"id"`
	Components []int64  `json:"components"`
	Levels     []string `json:"hierarchy_levels"`
	Nodes
}

// Nodes holds an environment's rules for unregistered nodes.
type Nodes struct {
	// SelfRegistration lets a node register itself, by its first upload, under the name of its certificate.
	SelfRegistration bool `json:"self_registration,omitempty"`
	// StrictNodes requires registration: reads and writes of an unregistered node return NotFound.
	StrictNodes bool `json:"strict_nodes,omitempty"`
}

// Level is a hierarchy level in the form of the API. Values are those with a record or a registration, sorted.
type Level struct {
	ID          int64    `json:"id"`
	Name        string   `json:"name"`
	Environment int64    `json:"environment_id"`
	Parent      *string  `json:"parent"`
	Values      []string `json:"values"`
}

// Node is a node registered in an environment; all its names lead to the same data. FQDN and Certname are "" if
// unknown. Levels are the declared values of the node at other levels ("role": "compute"); the node may read the data
// there. They are stored by level id and so survive the renaming of a level.
type Node struct {
	ID       string            `json:"id"`
	FQDN     string            `json:"fqdn,omitempty"`
	Certname string            `json:"certname,omitempty"`
	Levels   map[string]string `json:"levels,omitempty"`
	// Undeclared reports that an upload, possibly the node's own, registered the node instead of an admin.
	Undeclared bool `json:"undeclared,omitempty"`
	// Former reports that an earlier release registered the node without recording whether an admin or the node itself
	// chose its names. It counts as declared; a write by an admin resolves it.
	Former bool `json:"former,omitempty"`
}

// Write is one atomic write. Its implementations follow below.
type Write interface{ write() }

// The writes of the model. A nil pointer leaves its field unchanged.
type (
	// CreateComponent uses the given ID, if any; Content of a definition may be nil.
	CreateComponent struct {
		ID          *int64
		Name        string
		Definitions []Definition // only Name and Content are used
	}
	// EditComponent with Definitions replaces its members and deletes those left out.
	EditComponent struct {
		ID          int64
		Name        *string
		Definitions *[]int64
	}
	// DeleteComponent also deletes its definitions.
	DeleteComponent struct{ ID int64 }

	// CreateDefinition uses the given ID, if any.
	CreateDefinition struct {
		ID        *int64
		Name      string
		Component *int64
		Content   configdb.JSON
	}
	// EditDefinition with a Component that points to nil detaches the definition.
	EditDefinition struct {
		ID        int64
		Name      *string
		Component **int64
		Content   *configdb.JSON
	}
	// EditContent applies a keys operation to the content of a definition.
	EditContent struct {
		ID   int64
		Edit configdb.KeysEdit
	}
	// DeleteDefinition also deletes its records.
	DeleteDefinition struct{ ID int64 }
	// DeclareSecrets replaces the secret keys of a resource (configdb.ParseSecret).
	DeclareSecrets struct {
		ID   int64
		Keys []string
	}

	// CreateEnvironment uses the given ID, if any.
	CreateEnvironment struct {
		ID         *int64
		Components []Ref
		Levels     []string
		Nodes
	}
	// EditEnvironment with Levels keeps the records of levels whose names remain, in any order, and deletes the others.
	EditEnvironment struct {
		ID         int64
		Components *[]Ref
		Levels     *[]string

		SelfRegistration *bool `json:",omitempty"`
		StrictNodes      *bool `json:",omitempty"`
	}
	// DeleteEnvironment also deletes its levels, nodes and records.
	DeleteEnvironment struct{ ID int64 }
	// RenameLevel renames a level, which keeps its records.
	RenameLevel struct {
		Environment int64
		Level       Ref
		Name        string
	}

	// PutNode registers a node or changes its other names. Nil Levels keep the present ones. An Undeclared node never
	// revokes a declaration.
	PutNode struct {
		Environment int64
		Node        Node
	}
	// DeleteNode removes a node's registration, not its records.
	DeleteNode struct {
		Environment int64
		ID          string // any of its names
	}
)

// The writes of records. If IfMatch is not empty, one of its ETags must match the present half ("*": the half must
// exist).
type (
	// Put replaces a half of a record. Register registers the node of its level value if needed.
	Put struct {
		Target
		Kind     Kind
		Value    configdb.JSON
		IfMatch  []string
		Register bool
	}
	// EditKeys applies a keys operation to a half of a record.
	EditKeys struct {
		Target
		Kind     Kind
		Edit     configdb.KeysEdit
		IfMatch  []string
		Register bool
	}
	// Remove removes a half of a record. Its versions remain, and the removal gets no version number: those count uploads.
	Remove struct {
		Target
		Kind    Kind
		IfMatch []string
	}
	// Rollback writes an old state of a half as a new version. Without a resource (the zero Ref) it applies to both halves
	// of all resources of the place.
	Rollback struct {
		Target
		Kind     Kind
		Version  uint64 // of the half; 0: use Revision
		Revision uint64
	}
	// Bulk applies several writes, in order, as one revision.
	Bulk struct{ Writes []Write }
)

// Record is one revision of ConfigDB: its author, time, message and changes.
type Record struct {
	Revision uint64    `json:"revision"`
	Time     time.Time `json:"time"`
	Author   string    `json:"author"`
	Message  string    `json:"message,omitempty"`
	Changes  []Change  `json:"changes"`
	Own      bool      `json:"own,omitempty"` // a node's write about itself
}

// Change is one change of a revision, with the ids and names of that time.
type Change struct {
	What        string       `json:"what"` // component, definition, environment, level, node, values, overrides
	Did         string       `json:"did"`  // created, changed, deleted
	ID          int64        `json:"id,omitempty"`
	Name        string       `json:"name,omitempty"`
	Environment int64        `json:"environment,omitempty"`
	Levels      []LevelValue `json:"levels,omitempty"` // the level value of a record; none: the root
	Resource    int64        `json:"resource,omitempty"`
	Version     uint64       `json:"version,omitempty"` // new version of a half of a record; none: it was removed
	SHA256      string       `json:"sha256,omitempty"`  // of the new content
}

// ErrorKind is the kind of a Fault.
type ErrorKind uint8

// The kinds of faults, and the status that the API gives each.
const (
	Invalid  ErrorKind = iota + 1 // 400
	NotFound                      // 404
	Conflict                      // 409
	Stale                         // 412: If-Match
	TooLarge                      // 413: a quota is exceeded
	Busy                          // 503: not possible now; a retry may succeed
)

// RequestError is the reason why a request is refused.
type RequestError struct {
	Kind   ErrorKind
	Text   string
	Unsure bool // of a Busy write: its outcome is unknown
}

func (f *RequestError) Error() string { return f.Text }

// Query requests one answer.
type Query struct {
	Target
	Kind      Kind // Values or Overrides; Values if Effective
	Effective bool
	Lookup    bool     // show_lookup: each top-level value with the level that won
	Key       []string // dotted key; nil: the complete document
	Version   uint64   // of the values at exactly that level; 0: the newest
	Revision  uint64   // read at this revision; 0: the newest
	Deep      bool     // merge hashes deeply rather than by their top-level keys
	Reveal    bool     // show secrets
}

// Answer is the result of a query. Callers must not change Body, which may be shared.
type Answer struct {
	Body     []byte // nil if the caller's ETag matches
	ETag     string // with quotes
	Version  uint64 // of the values at exactly that level, removed or not; 0: none was uploaded
	Revision uint64 // revision of ConfigDB at which it was read
	Secret   bool   // the requested resource declares secrets
}

// HieraQuery looks up keys in resources of one place, given from the highest to the lowest.
type HieraQuery struct {
	Environment int64
	Levels      []LevelValue
	Resources   []string
	Merge       configdb.MergeOptions
	Keys        []string // in Puppet's spelling: a.b.0, quotes around a literal dot; nil: all data
	Reveal      bool
}

// Written is the result of a write. Revision is that of ConfigDB, the previous one if nothing changed.
type Written struct {
	Revision   uint64
	Changed    bool
	ETag       string // of the written half of a record, raw
	Version    uint64 // of the values
	ID         int64  // of a created object
	Changes    []Change
	Registered string // the node that the write registered
	Stored     int    // bytes of the versions that the write created
}

// VersionsQuery requests the versions of a half of a record, the newest first.
type VersionsQuery struct {
	Target
	Kind   Kind
	Before uint64 // only older ones; 0: all
	Limit  int    // number of versions, not counting removals; 0: all
}

// Version is one version of a half of a record, or the removal of the previous version, which has no number.
type Version struct {
	Number   uint64    `json:"version,omitempty"`
	Revision uint64    `json:"revision"`
	Time     time.Time `json:"time"`
	Author   string    `json:"author"`
	Message  string    `json:"message,omitempty"`
	SHA256   string    `json:"sha256"`
	Size     int       `json:"size"` // bytes of the canonical form
	Removed  bool      `json:"removed,omitempty"`
}

// RecordsQuery requests revisions of ConfigDB, the newest first.
type RecordsQuery struct {
	Environment int64  // 0: all
	Before      uint64 // only older ones; 0: all
	Limit       int    // 0: all
}
