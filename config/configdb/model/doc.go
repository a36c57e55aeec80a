// Package model owns the objects of ConfigDB: components, resource definitions, environments with their levels and
// nodes, and records with their versions; the changes of a write and the reasons to refuse it; and the keys of all
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
	Name string // "": by its id
}

// Kind says which half of a record is meant.
type Kind string

// The halves of a record. An override is merged over the values of its level, and stays when
// those are uploaded anew.
const (
	Values    Kind = "values"
	Overrides Kind = "overrides"
)

// LevelValue is one pair of a path: the name of a level, and a value of it ("nodes", "1").
type LevelValue struct {
	Level string `json:"level"`
	Value string `json:"value"`
}

// Target is one resource at one place of an environment. Levels are a prefix of those
// that the environment has, in their order; none is the root, which is all of the environment. The value of
// the level "nodes" (or "node") may be any name of a registered node.
type Target struct {
	Environment int64
	Levels      []LevelValue
	Resource    Ref
}

// Component is a component as the API shows it.
type Component struct {
	ID          int64        `json:"id"`
	Name        string       `json:"name"`
	Definitions []Definition `json:"resource_definitions"`
}

// Definition is a resource definition as the API shows it. Component is nil for one that no
// component has, Content is null where there is none.
type Definition struct {
	ID        int64         `json:"id"`
	Name      string        `json:"name"`
	Component *int64        `json:"component_id"`
	Content   configdb.JSON `json:"content"`
	Secret    bool          `json:"-"` // secrets are declared of it
}

// Environment is an environment as the API shows it, its levels from the least to the most
// narrow.
type Environment struct {
	ID         int64    `json:"id"`
	Components []int64  `json:"components"`
	Levels     []string `json:"hierarchy_levels"`
	Nodes
}

// Nodes is what an environment has to do with nodes that nobody has registered.
type Nodes struct {
	// SelfRegistration lets a node register itself by its first upload, under the name of its certificate.
	SelfRegistration bool `json:"self_registration,omitempty"`
	// StrictNodes are known: what is asked of a node that is not registered is not found, and nothing is written there.
	StrictNodes bool `json:"strict_nodes,omitempty"`
}

// Level is a hierarchy level as the API shows it. Values are those that have a record or are registered,
// sorted.
type Level struct {
	ID          int64    `json:"id"`
	Name        string   `json:"name"`
	Environment int64    `json:"environment_id"`
	Parent      *string  `json:"parent"`
	Values      []string `json:"values"`
}

// Node is a node that is registered in an environment: whichever of its names is used reaches
// the same data. FQDN and Certname are "" if unknown. Levels are the values that it has of other levels than
// that of nodes, by their names ("role": "compute"), as somebody has declared them: the node itself may read
// what is there. What a level has is known by its id, so that it stays when the level gets another name.
type Node struct {
	ID       string            `json:"id"`
	FQDN     string            `json:"fqdn,omitempty"`
	Certname string            `json:"certname,omitempty"`
	Levels   map[string]string `json:"levels,omitempty"`
	// Undeclared is a node that no admin has registered, but an upload: it may have been its own.
	Undeclared bool `json:"undeclared,omitempty"`
	// Former is a node of which only an earlier release knew whether an admin or the node itself gave
	// it its names. It counts as declared; a write of it by an admin settles that.
	Former bool `json:"former,omitempty"`
}

// Write is one write, as a whole or not at all. Its kinds are those below.
type Write interface{ write() }

// The writes of the model. A nil pointer leaves as it is what it stands for.
type (
	// CreateComponent keeps a given id; Content of a definition may be nil.
	CreateComponent struct {
		ID          *int64
		Name        string
		Definitions []Definition // Name and Content count
	}
	// EditComponent with Definitions replaces its membership: those left out are deleted.
	EditComponent struct {
		ID          int64
		Name        *string
		Definitions *[]int64
	}
	// DeleteComponent takes its definitions along.
	DeleteComponent struct{ ID int64 }

	// CreateDefinition keeps a given id.
	CreateDefinition struct {
		ID        *int64
		Name      string
		Component *int64
		Content   configdb.JSON
	}
	// EditDefinition with a Component that points to nil detaches.
	EditDefinition struct {
		ID        int64
		Name      *string
		Component **int64
		Content   *configdb.JSON
	}
	// EditContent is a keys operation on the content of a definition.
	EditContent struct {
		ID   int64
		Edit configdb.KeysEdit
	}
	// DeleteDefinition takes its records along.
	DeleteDefinition struct{ ID int64 }
	// DeclareSecrets replaces which keys of a resource are secret (configdb.ParseSecret).
	DeclareSecrets struct {
		ID   int64
		Keys []string
	}

	// CreateEnvironment keeps a given id.
	CreateEnvironment struct {
		ID         *int64
		Components []Ref
		Levels     []string
		Nodes
	}
	// EditEnvironment with Levels keeps the records of names that stay, whatever their order, and deletes the
	// others.
	EditEnvironment struct {
		ID         int64
		Components *[]Ref
		Levels     *[]string

		SelfRegistration *bool `json:",omitempty"`
		StrictNodes      *bool `json:",omitempty"`
	}
	// DeleteEnvironment takes its levels, nodes and records along.
	DeleteEnvironment struct{ ID int64 }
	// RenameLevel keeps the records of the level.
	RenameLevel struct {
		Environment int64
		Level       Ref
		Name        string
	}

	// PutNode registers a node, or changes its other names. Levels that are nil leave those that it has. One that is
	// Undeclared takes no declaration back.
	PutNode struct {
		Environment int64
		Node        Node
	}
	// DeleteNode forgets that a node is registered; its records stay.
	DeleteNode struct {
		Environment int64
		ID          string // any of its names
	}
)

// The writes of records. IfMatch, if not empty, are the ETags one of which the half must have
// now ("*": it must be there).
type (
	// Put replaces a half of a record. Register makes the node of its level value known
	// if it is not.
	Put struct {
		Target
		Kind     Kind
		Value    configdb.JSON
		IfMatch  []string
		Register bool
	}
	// EditKeys is a keys operation on a half of a record.
	EditKeys struct {
		Target
		Kind     Kind
		Edit     configdb.KeysEdit
		IfMatch  []string
		Register bool
	}
	// Remove takes a half of a record away; its versions stay, and it makes none: they count uploads.
	Remove struct {
		Target
		Kind    Kind
		IfMatch []string
	}
	// Rollback writes again what a half had at a revision, as a new version. With no
	// resource in the target (the zero Ref) it is all resources of that place, both halves.
	Rollback struct {
		Target
		Kind     Kind
		Version  uint64 // of the half; 0: Revision says
		Revision uint64
	}
	// Bulk are several writes, in their order, as one revision.
	Bulk struct{ Writes []Write }
)

// Record is one revision of the facts: who wrote what, when and why.
type Record struct {
	Revision uint64    `json:"revision"`
	Time     time.Time `json:"time"`
	Author   string    `json:"author"`
	Message  string    `json:"message,omitempty"`
	Changes  []Change  `json:"changes"`
	Own      bool      `json:"own,omitempty"` // a node's, of itself
}

// Change is one thing that a revision changed, with the ids and names of then.
type Change struct {
	What        string       `json:"what"` // component, definition, environment, level, node, values, overrides
	Did         string       `json:"did"`  // created, changed, deleted
	ID          int64        `json:"id,omitempty"`
	Name        string       `json:"name,omitempty"`
	Environment int64        `json:"environment,omitempty"`
	Levels      []LevelValue `json:"levels,omitempty"` // the one level value of a record; none: the root
	Resource    int64        `json:"resource,omitempty"`
	Version     uint64       `json:"version,omitempty"` // that a half of a record has now; none: it was removed
	SHA256      string       `json:"sha256,omitempty"`  // of the content that it has now
}

// FaultKind says what is wrong with a request.
type FaultKind uint8

// The kinds of faults, and the status that the API gives each.
const (
	Invalid  FaultKind = iota + 1 // 400
	NotFound                      // 404
	Conflict                      // 409
	Stale                         // 412: If-Match
	TooLarge                      // 413: beyond a quota
	Busy                          // 503: it can not be known or done now; trying again may help
)

// Fault is why a request is refused.
type Fault struct {
	Kind   FaultKind
	Text   string
	Unsure bool // of a write that is Busy: it may have taken place or not
}

func (f *Fault) Error() string { return f.Text }

// Query asks for one answer.
type Query struct {
	Target
	Kind      Kind // Values or Overrides; of Effective, Values
	Effective bool
	Lookup    bool     // show_lookup: each top-level value with the level that won
	Key       []string // dotted key; nil: the whole
	Version   uint64   // of the values at exactly that level; 0: the newest
	Revision  uint64   // as of it; 0: now
	Deep      bool     // merge hashes deeply rather than by their top-level keys
	Reveal    bool     // secrets are shown
}

// Answer is what a query finds. Nobody changes a Body: others may be given the same.
type Answer struct {
	Body     []byte // nil where the caller knows the ETag
	ETag     string // with its quotes
	Version  uint64 // of the values at exactly that level, the last of those that were removed; 0: none was uploaded
	Revision uint64 // of the facts, that it was read at
	Secret   bool   // secrets are declared of what was asked for
}

// HieraQuery is a lookup of keys over resources of one place, from the highest to the lowest.
type HieraQuery struct {
	Environment int64
	Levels      []LevelValue
	Resources   []string
	Merge       configdb.MergeOptions
	Keys        []string // as Puppet spells them: a.b.0, quotes around a literal dot; nil: all of the data
	Reveal      bool
}

// Written is what came of a write. Revision is that of the facts, the one before if nothing
// changed.
type Written struct {
	Revision   uint64
	Changed    bool
	ETag       string // of the half of a record that was written, raw
	Version    uint64 // of the values
	ID         int64  // of what was created
	Changes    []Change
	Registered string // the node that the write registered
	Stored     int    // bytes of the versions that the write made
}

// VersionsQuery asks for the versions of a half of a record, the newest first.
type VersionsQuery struct {
	Target
	Kind   Kind
	Before uint64 // only older ones; 0: all
	Limit  int    // how many, beside which there may be their removals; 0: all
}

// Version is one version of a half of a record, or the removal of the one before it, which has no number.
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

// RecordsQuery asks for revisions of the facts, the newest first.
type RecordsQuery struct {
	Environment int64  // 0: all
	Before      uint64 // only older ones; 0: all
	Limit       int    // 0: all
}
