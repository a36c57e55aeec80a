package ops

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
	"edgespan/config/nodeconf"
)

// The rules of faults, in addition to those of config/layers/override and config/layers/metadata.
const (
	RuleLayers   = "layers"   // a base, firmware or hardware file that can't be read
	RuleFile     = "file"     // faults that config/fleet/controllerconf finds in the controller's files
	RuleHistory  = "history"  // obstacles to a change of several layers
	RuleOptimize = "optimize" // settings that can't be assigned
	RulePeers    = "peers"    // descriptors of peers and clusters, and deployments
)

// check runs one operation. It reads each layer and each kind once.
type check struct {
	*Snapshot
	metadata *metadata.Metadata // applies to this operation
	kinds    map[layers.Versions]fleet.Kind
	sets     map[string]layers.Set
	broken   map[string]error // kinds whose files can't be read
	read     map[history.Layer]history.Version
	peers    *described        // nil: not read yet
	cost     meter             // of an answer
	was      map[string]string // names of nodes before this operation, by their names after it
}

func (w *Snapshot) newCheck() *check {
	return &check{
		Snapshot: w, metadata: w.Metadata, kinds: map[layers.Versions]fleet.Kind{}, sets: map[string]layers.Set{},
		broken: map[string]error{}, read: map[history.Layer]history.Version{}, was: map[string]string{},
		cost: meter{ended: w.Ended},
	}
}

// kind returns the kind of versions, with its base, firmware and hardware layers.
func (j *check) kind(v layers.Versions) (fleet.Kind, layers.Set, error) {
	k, known := j.kinds[v]
	if !known {
		k = j.Hardware.KindOf(v)
		j.kinds[v] = k
	}
	set, err := j.set(k)
	return k, set, err
}

func (j *check) set(k fleet.Kind) (layers.Set, error) {
	if _, asked := j.sets[k.Name]; !asked {
		var set layers.Set
		if j.Layers != nil {
			set, j.broken[k.Name] = j.Layers(k)
		}
		j.sets[k.Name] = set
	}
	return j.sets[k.Name], j.broken[k.Name]
}

// versions returns the versions that select a node's layers: the reported ones, or none, which selects the latest base.
// A renamed node keeps its versions.
func (j *check) versions(node string) layers.Versions { return j.Nodes[j.nameBefore(node)].Versions }

func (j *check) isKnown(node string) bool {
	_, known := j.Nodes[j.nameBefore(node)]
	return known
}

// nameBefore returns the name that a node had before this operation.
func (j *check) nameBefore(node string) string {
	if before, renamed := j.was[node]; renamed {
		return before
	}
	return node
}

// layer reads a layer.
func (j *check) layer(l history.Layer) (history.Version, error) {
	if err := j.layersOf(l); err != nil {
		return history.Version{}, err
	}
	return j.read[l], nil
}

// layersOf reads the layers that have not been read yet. It refuses the operation if one is damaged.
func (j *check) layersOf(desired ...history.Layer) error {
	if err := j.layersOrDamaged(desired...); err != nil {
		return err
	}
	var faults override.WriteFaults
	for _, l := range desired {
		if bad := j.read[l].Damaged; bad != nil {
			faults = append(faults, damagedFault(bad))
		}
	}
	return refused(faults)
}

// layersOrDamaged is layersOf for callers that distinguish a damaged layer from a missing one.
func (j *check) layersOrDamaged(desired ...history.Layer) error {
	var missing []history.Layer
	for _, l := range desired {
		if _, done := j.read[l]; !done {
			missing = append(missing, l)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	versions, err := j.State.WithDamaged().Layers(missing...)
	if err != nil {
		return err
	}
	for _, v := range versions {
		j.read[v.Layer] = v
	}
	return nil
}

var (
	networkLayer  = history.Layer{Kind: history.Network}
	topologyLayer = history.Layer{Kind: history.Topology}
	metadataLayer = history.Layer{Kind: history.Metadata}
)

func nodeLayer(name string) history.Layer { return history.Layer{Kind: history.Node, Name: name} }
func autoLayer(name string) history.Layer { return history.Layer{Kind: history.Auto, Name: name} }

// Sections are the sections of a node's config that a write to layers checks.
func Sections() override.Sections {
	return override.Sections{Keys: nodeconf.Sections(), Present: nodeconf.Present, Check: nodeconf.Check}
}

// world returns the current state of nodes for config/layers/override. Broken files are faults. It leaves out nodes
// with a damaged layer that the write does not replace.
func (j *check) world(nodes []string, written ...history.Layer) (override.Inputs, error) {
	desired := []history.Layer{networkLayer}
	for _, name := range nodes {
		desired = append(desired, autoLayer(name), nodeLayer(name))
	}
	if err := j.layersOrDamaged(desired...); err != nil {
		return override.Inputs{}, err
	}
	for _, l := range written {
		if v := j.read[l]; v.Damaged != nil {
			v.Damaged = nil
			j.read[l] = v
		}
	}
	if err := j.layersOf(networkLayer); err != nil {
		return override.Inputs{}, err
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), j.damaged)
	w := override.Inputs{
		Kinds: map[string]layers.Set{}, Network: j.read[networkLayer].Document,
		Nodes: make(map[string]override.Node, len(nodes)), Metadata: j.metadata, Rules: map[string]*metadata.Metadata{},
		Base:     j.Base,
		Sections: Sections(),
	}
	if j.metadata != j.Metadata { // metadata that this operation writes applies to all nodes
		w.Base = nil
	}
	wrong := map[string]*override.WriteFault{}
	for _, name := range nodes {
		k, set, err := j.kind(j.versions(name))
		if err != nil && j.isKnown(name) {
			if wrong[k.Name] == nil {
				wrong[k.Name] = brokenFault(err)
			}
			wrong[k.Name].Nodes = append(wrong[k.Name].Nodes, name)
		}
		if board := j.versions(name).Board; k.Learnt && w.Base != nil && j.Rules[board] != nil {
			w.Rules[k.Name] = j.Rules[board]
		}
		w.Kinds[k.Name] = set
		w.Nodes[name] = override.Node{Kind: k.Name, Auto: j.read[autoLayer(name)].Document,
			Own: j.read[nodeLayer(name)].Document}
	}
	if len(nodes) == 0 { // broken files matter only if nodes use them
		k, set, _ := j.kind(layers.Versions{})
		w.Kinds[k.Name] = set
	}
	var faults override.WriteFaults
	for _, f := range wrong {
		faults = append(faults, *f)
	}
	return w, refused(faults)
}

func brokenFault(err error) *override.WriteFault {
	return &override.WriteFault{Rule: RuleLayers, Problem: "the layers of the versions can't be read: " + err.Error(),
		Expectation: "files that can be read are required"}
}

// known returns the names of all nodes, sorted.
func (w *Snapshot) known() []string { return slices.Sorted(maps.Keys(w.Nodes)) }

// unknownNodes returns a fault for each unknown node.
func (w *Snapshot) unknownNodes(names []string) override.WriteFaults {
	var faults override.WriteFaults
	for _, name := range names {
		if _, known := w.Nodes[name]; !known && name != "" {
			faults = append(faults, override.WriteFault{
				Nodes: []string{name}, Rule: override.RuleTopology, Problem: "unknown node",
				Expectation: "must be a node of the topology, one that has joined or one with an open token",
			})
		}
	}
	return faults
}

// refused returns an error if there are faults.
func refused(faults override.WriteFaults) error {
	if len(faults) == 0 {
		return nil
	}
	return &Refused{faults.Merged()}
}

// faultsOf converts the faults of a document to those of a write.
func faultsOf(rule string, below []string, faults config.Faults) override.WriteFaults {
	var out override.WriteFaults
	for _, f := range faults {
		out = append(out, override.WriteFault{Path: config.Sub(below, f.Path...), Rule: rule, Problem: f.Problem,
			Expectation: f.Expectation})
	}
	return out
}

// problemOf converts an error of config/fleet/history to one of this package.
func problemOf(err error) error {
	var faults config.Faults
	var damaged *history.DamagedError
	var revisionless *history.NoRevisionError
	switch {
	case errors.As(err, &damaged):
		return refused(override.WriteFaults{damagedFault(damaged)})
	case errors.As(err, &faults):
		return refused(faultsOf(RuleHistory, nil, faults))
	case errors.As(err, &revisionless):
		return &NotFoundError{fmt.Sprintf("revision %d", revisionless.Number), "must be one that the history shows"}
	case errors.Is(err, kv.ErrInvalid):
		return refused(override.WriteFaults{{Rule: override.RuleRequest, Problem: err.Error(),
			Expectation: "must be a name without control characters"}})
	}
	return err
}

const knownNodes = "a node of the topology, one that has joined and one with an open token are known"

// find returns an error for the unknown nodes that a read names.
func (w *Snapshot) find(names ...string) error {
	var missing []string
	for _, name := range names {
		if _, known := w.Nodes[name]; !known {
			missing = append(missing, "node "+config.Quote(name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return &NotFoundError{config.OrList(slices.Compact(missing)), knownNodes}
}
