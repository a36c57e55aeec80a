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

// Document is the answer to a read of one document.
type Document struct {
	Object   config.Object
	Revision uint64 // of the history that wrote it last; 0: it was never written, or has no history
	Digest   string // MD5 of the canonical form; of what is masked, a keyed revision of it
	Next     string // of a page: the name after which it goes on; "" where that is all
}

// ConfigQuery asks for the effective config of one node.
type ConfigQuery struct {
	Node            string
	Paths           [][]string // none: all of it; a "*" is every key at its place
	layers.Versions            // empty fields: as the node reported last
	Reveal          bool       // secrets as they are
}

// PathsQuery asks for parts of many nodes' configs: {node: {…}}. A node that has none of
// them is left out.
type PathsQuery struct {
	Nodes  []string // none: all
	Paths  [][]string
	Reveal bool
	After  string // only nodes whose name comes after this one
	Limit  int    // so many nodes at most, or as many as fit into one answer; 0: all, or *TooLargeError
}

// LayerQuery asks for one layer. The answer is, by layer: base {version: {…}} under the
// versions that were asked for, firmware the same, hardware {board: {version: {…}}}, auto
// and node {node: {…}}, network the overrides themselves.
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
	// SetNodes replaces the overrides of the nodes that it names, {node: {…}}, or merges into
	// them. All of it passes or nothing does.
	SetNodes struct {
		Overrides config.Object
		Modify    bool
	}
	// Unset removes single keys of the network or node layer; of the latter a key begins with
	// the node.
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
		Replica string // whose own part it is, for what is not shared
	}
	// Optimize assigns what its kinds assign.
	Optimize struct {
		Kinds     []optimize.Kind
		ClearUser bool
	}
	// SetTopology replaces the topology by a file of the seed's form.
	SetTopology struct{ Document config.Object }
	// EditTopology adds, edits, deletes or renames one node, link or site. The document is one
	// entry in the form of the file; an edit merges it into what is there.
	EditTopology struct {
		Object   string // "node", "link", "site"
		Op       string // "add", "edit", "delete", "rename"
		Name     string // of what is there; of an add it stands in the document
		To       string // of a rename
		Document config.Object
	}
	// Restore brings layers back to what they were as of a revision.
	Restore struct {
		Revision uint64
		Layers   []history.Layer // none: all
	}
	// Revert undoes what one revision did, and nothing of what came after it.
	Revert struct{ Revision uint64 }
	// Import makes the layers what the seed's files say.
	Import struct{ Files history.Files }
	// Migrate is the controller's own too: it brings all layers from the keys of older versions to
	// those of newer ones, as far as the nodes have them.
	Migrate struct{}
	// SetAuto is the controller's own: it replaces values of the auto layer,
	// {node: {…}}; null removes one.
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

// Outcome is a write that passes: the change, not yet stored, and what follows from it.
type Outcome struct {
	Change   history.Change // without author, time and message; no layers: nothing changes
	Message  string         // for people: "Success. 3 nodes change."
	Warnings []string
	Unknown  [][]string        // keys that no metadata describes, with the node or file first
	Effects  []override.Effect // what changes on the nodes; secrets masked
	Peers    []string          // nodes whose parameters may change by descriptors and deployments, sorted
	// Migrated is what migrations moved; nil where they moved nothing.
	Migrated []Moved
	// Actions are the controller's or the aggregator's own, where their files change, and
	// Flags what UPDATE_GFLAG is about.
	Actions []metadata.Action
	Flags   []controllerconf.FlagChange
}

// Refused is a write or a read with faults, all of them.
type Refused struct{ Faults override.Faults }

// Error is one line for each fault.
func (r *Refused) Error() string { return r.Faults.Error() }

// Is says that it is rejected.
func (r *Refused) Is(target error) bool { return target == config.Rejected }

// NotFoundError is a node, file, layer or object that there is not.
type NotFoundError struct {
	What    string // "node ulm-1"
	Allowed string // what would be, "" where nobody can say
}

// Error says what is not there.
func (e *NotFoundError) Error() string {
	if e.Allowed == "" {
		return e.What + " does not exist"
	}
	return e.What + " does not exist: " + e.Allowed
}

// Is says that it is not found.
func (e *NotFoundError) Is(target error) bool { return target == config.NotFound }
