package ops

import (
	"edgespan/config"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/optimize"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
)

// DocumentAnswer is the answer to a read of one document.
type DocumentAnswer struct {
	Object   config.Object
	Revision uint64 // the last revision that wrote it; 0: never written, or without history
	Digest   string // MD5 of the canonical form; a keyed digest if secrets are masked
	Next     string // of a page: the name after which the next page begins; "" for the last page
}

// ConfigQuery requests the effective config of one node.
type ConfigQuery struct {
	Node            string
	Paths           [][]string // none: the whole config; "*" matches every key
	layers.Versions            // empty fields: as reported last
	Reveal          bool       // show secrets in clear
}

// PathsQuery requests parts of many nodes' configs: {node: {…}}. The answer leaves out nodes that have none of them.
type PathsQuery struct {
	Nodes  []string // none: all
	Paths  [][]string
	Reveal bool
	After  string // only nodes whose name is greater
	Limit  int    // maximum number of nodes, or as many as fit into one answer; 0: all, or *TooLargeError
}

// LayerQuery requests one layer. The form of the answer depends on the layer: base {version: {…}} under the requested
// versions, firmware the same, hardware {board: {version: {…}}}, auto and node {node: {…}}, network the overrides
// themselves.
type LayerQuery struct {
	Layer    layers.Layer
	Nodes    []string // of auto and node; none: all
	Versions []string // of base, firmware and hardware; none: all
	Boards   []string // of hardware; none: all
	Reveal   bool
}

// Write is one operation that changes layers.
type Write interface{ write() }

type (
	// SetNetwork replaces the network overrides, or merges into them.
	SetNetwork struct {
		Overrides config.Object
		Modify    bool
	}
	// SetNodes replaces the overrides of the nodes that it names, {node: {…}}, or merges into them. It is accepted
	// completely or not at all.
	SetNodes struct {
		Overrides config.Object
		Modify    bool
	}
	// Unset removes single keys of the network or node layer; a key of the node layer begins with the node.
	Unset struct {
		Layer layers.Layer
		Keys  [][]string
	}
	// ClearAuto removes paths from the auto overrides of nodes.
	ClearAuto struct {
		Nodes []string // none: all
		Paths [][]string
	}
	// SetE2E replaces the config of the controller or the aggregator, or merges into it.
	SetE2E struct {
		File    string // "controller" or "aggregator"
		Config  config.Object
		Modify  bool
		Replica string // whose part to write
	}
	// Optimize assigns the settings of its kinds.
	Optimize struct {
		Kinds     []optimize.Kind
		ClearUser bool
	}
	// SetTopology replaces the topology by a file in the seed's format.
	SetTopology struct{ Document config.Object }
	// EditTopology adds, edits, deletes or renames one node, link or site. The document is one entry in the file's format;
	// an edit merges it into the current entry.
	EditTopology struct {
		Object   string // "node", "link", "site"
		Op       string // "add", "edit", "delete", "rename"
		Name     string // of the existing object; an add has it in the document
		To       string // of a rename
		Document config.Object
	}
	// Restore returns layers to their content at a revision.
	Restore struct {
		Revision uint64
		Layers   []history.Layer // none: all
	}
	// Revert undoes the changes of one revision and keeps all later ones.
	Revert struct{ Revision uint64 }
	// Import replaces the layers by the content of the seed's files.
	Import struct{ Files history.Files }
	// Migrate is an internal write: it migrates all layers from the keys of older versions to those of newer ones, as
	// far as the nodes support them.
	Migrate struct{}
	// SetAuto is an internal write: it replaces values of the auto layer, {node: {…}}; null removes one.
	SetAuto struct{ Values config.Object }
)

func (SetNetwork) write()   {}
func (SetNodes) write()     {}
func (Unset) write()        {}
func (ClearAuto) write()    {}
func (SetE2E) write()       {}
func (Optimize) write()     {}
func (SetTopology) write()  {}
func (EditTopology) write() {}
func (Restore) write()      {}
func (Revert) write()       {}
func (Import) write()       {}
func (SetAuto) write()      {}
func (Migrate) write()      {}

// WriteOutcome is a validated write: the change, which is not stored yet, and its effects.
type WriteOutcome struct {
	Change   history.Change // without author, time and message; without layers nothing changes
	Message  string         // for people: "Success. 3 nodes change."
	Warnings []string
	Unknown  [][]string        // keys without metadata, with the node or file first
	Effects  []override.Effect // changes on the nodes; secrets masked
	Peers    []string          // nodes whose parameters may change by descriptors and deployments, sorted
	// Migrated lists the keys that migrations moved; nil for none.
	Migrated []Moved
	// Actions are the actions of the controller or the aggregator if their files change, and Flags the flags to which
	// UPDATE_GFLAG applies.
	Actions []metadata.Action
	Flags   []controllerconf.FlagChange
}

// Refused is the error of a write or a read, with all its faults.
type Refused struct{ Faults override.WriteFaults }

// Error returns one line per fault.
func (r *Refused) Error() string { return r.Faults.Error() }

// Is reports whether target is config.Rejected.
func (r *Refused) Is(target error) bool { return target == config.Rejected }

// NotFoundError names a node, file, layer or object that does not exist.
type NotFoundError struct {
	What    string // "node ulm-1"
	Allowed string // the valid names, "" if unknown
}

// Error names the missing object.
func (e *NotFoundError) Error() string {
	if e.Allowed == "" {
		return e.What + " does not exist"
	}
	return e.What + " does not exist: " + e.Allowed
}

// Is reports whether target is config.NotFound.
func (e *NotFoundError) Is(target error) bool { return target == config.NotFound }
