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
	peers    *descriptors      // nil: not read yet
	cost     meter             // of an answer
	was      map[string]string // names of nodes before this operation, by their names after it
}

func (s *Snapshot) newCheck() *check {
	return &check{
		Snapshot: s, metadata: s.Metadata, kinds: map[layers.Versions]fleet.Kind{}, sets: map[string]layers.Set{},
		broken: map[string]error{}, read: map[history.Layer]history.Version{}, was: map[string]string{},
		cost: meter{ended: s.Ended},
	}
}

// kind returns the kind of versions, with its base, firmware and hardware layers.
func (ck *check) kind(v layers.Versions) (fleet.Kind, layers.Set, error) {
	k, known := ck.kinds[v]
	if !known {
		k = ck.Hardware.KindOf(v)
		ck.kinds[v] = k
	}
	set, err := ck.set(k)
	return k, set, err
}

func (ck *check) set(k fleet.Kind) (layers.Set, error) {
	if _, asked := ck.sets[k.Name]; !asked {
		var set layers.Set
		if ck.Layers != nil {
			set, ck.broken[k.Name] = ck.Layers(k)
		}
		ck.sets[k.Name] = set
	}
	return ck.sets[k.Name], ck.broken[k.Name]
}

// versions returns the versions that select a node's layers: the reported ones, or none, which selects the latest base.
// A renamed node keeps its versions.
func (ck *check) versions(node string) layers.Versions { return ck.Nodes[ck.nameBefore(node)].Versions }

func (ck *check) isKnown(node string) bool {
	_, known := ck.Nodes[ck.nameBefore(node)]
	return known
}

// nameBefore returns the name that a node had before this operation.
func (ck *check) nameBefore(node string) string {
	if before, renamed := ck.was[node]; renamed {
		return before
	}
	return node
}

// layer reads a layer.
func (ck *check) layer(l history.Layer) (history.Version, error) {
	if err := ck.layersOf(l); err != nil {
		return history.Version{}, err
	}
	return ck.read[l], nil
}

// layersOf reads the layers that have not been read yet. It refuses the operation if one is damaged.
func (ck *check) layersOf(desired ...history.Layer) error {
	if err := ck.layersOrDamaged(desired...); err != nil {
		return err
	}
	var faults override.WriteFaults
	for _, l := range desired {
		if bad := ck.read[l].Damaged; bad != nil {
			faults = append(faults, damagedFault(bad))
		}
	}
	return refuse(faults)
}

// layersOrDamaged is layersOf for callers that distinguish a damaged layer from a missing one.
func (ck *check) layersOrDamaged(desired ...history.Layer) error {
	var missing []history.Layer
	for _, l := range desired {
		if _, done := ck.read[l]; !done {
			missing = append(missing, l)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	versions, err := ck.State.WithDamaged().Layers(missing...)
	if err != nil {
		return err
	}
	for _, v := range versions {
		ck.read[v.Layer] = v
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
	return override.Sections{Keys: nodeconf.Sections(), Present: nodeconf.DropAbsent, Check: nodeconf.Check}
}

// readInputs returns the current state of nodes for config/layers/override. Broken files are faults. It leaves out
// nodes with a damaged layer that the write does not replace.
func (ck *check) readInputs(nodes []string, written ...history.Layer) (override.Inputs, error) {
	desired := []history.Layer{networkLayer}
	for _, name := range nodes {
		desired = append(desired, autoLayer(name), nodeLayer(name))
	}
	if err := ck.layersOrDamaged(desired...); err != nil {
		return override.Inputs{}, err
	}
	for _, l := range written {
		if v := ck.read[l]; v.Damaged != nil {
			v.Damaged = nil
			ck.read[l] = v
		}
	}
	if err := ck.layersOf(networkLayer); err != nil {
		return override.Inputs{}, err
	}
	nodes = slices.DeleteFunc(slices.Clone(nodes), ck.damaged)
	w := override.Inputs{
		Kinds: map[string]layers.Set{}, Network: ck.read[networkLayer].Document,
		Nodes: make(map[string]override.Node, len(nodes)), Metadata: ck.metadata, Rules: map[string]*metadata.Metadata{},
		Base:     ck.Base,
		Sections: Sections(),
	}
	if ck.metadata != ck.Metadata { // metadata that this operation writes applies to all nodes
		w.Base = nil
	}
	wrong := map[string]*override.WriteFault{}
	for _, name := range nodes {
		k, set, err := ck.kind(ck.versions(name))
		if err != nil && ck.isKnown(name) {
			if wrong[k.Name] == nil {
				wrong[k.Name] = brokenFault(err)
			}
			wrong[k.Name].Nodes = append(wrong[k.Name].Nodes, name)
		}
		if board := ck.versions(name).Board; k.Learnt && w.Base != nil && ck.Rules[board] != nil {
			w.Rules[k.Name] = ck.Rules[board]
		}
		w.Kinds[k.Name] = set
		w.Nodes[name] = override.Node{Kind: k.Name, Auto: ck.read[autoLayer(name)].Document,
			Own: ck.read[nodeLayer(name)].Document}
	}
	if len(nodes) == 0 { // broken files matter only if nodes use them
		k, set, _ := ck.kind(layers.Versions{})
		w.Kinds[k.Name] = set
	}
	var faults override.WriteFaults
	for _, f := range wrong {
		faults = append(faults, *f)
	}
	return w, refuse(faults)
}

func brokenFault(err error) *override.WriteFault {
	return &override.WriteFault{Rule: RuleLayers, Problem: "the layers of the versions can't be read: " + err.Error(),
		Expectation: "files that can be read are required"}
}

// nodeNames returns the names of all nodes, sorted.
func (s *Snapshot) nodeNames() []string { return slices.Sorted(maps.Keys(s.Nodes)) }

// unknownNodes returns a fault for each unknown node.
func (s *Snapshot) unknownNodes(names []string) override.WriteFaults {
	var faults override.WriteFaults
	for _, name := range names {
		if _, known := s.Nodes[name]; !known && name != "" {
			faults = append(faults, override.WriteFault{
				Nodes: []string{name}, Rule: override.RuleTopology, Problem: "unknown node",
				Expectation: "must be a node of the topology, one that has joined or one with an open token",
			})
		}
	}
	return faults
}

// refuse returns an error if there are faults.
func refuse(faults override.WriteFaults) error {
	if len(faults) == 0 {
		return nil
	}
	return &Refused{faults.Merged()}
}

// faultsOf converts the faults of a document to those of a write.
func faultsOf(rule string, below []string, faults config.Faults) override.WriteFaults {
	var out override.WriteFaults
	for _, f := range faults {
		out = append(out, override.WriteFault{Path: config.Below(below, f.Path...), Rule: rule, Problem: f.Problem,
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
		return refuse(override.WriteFaults{damagedFault(damaged)})
	case errors.As(err, &faults):
		return refuse(faultsOf(RuleHistory, nil, faults))
	case errors.As(err, &revisionless):
		return &NotFoundError{fmt.Sprintf("revision %d", revisionless.Number), "must be one that the history shows"}
	case errors.Is(err, kv.ErrInvalid):
		return refuse(override.WriteFaults{{Rule: override.RuleRequest, Problem: err.Error(),
			Expectation: "must be a name without control characters"}})
	}
	return err
}

const knownNodes = "a node of the topology, one that has joined and one with an open token are known"

// checkNodesExist returns an error for the unknown nodes that a read names.
func (s *Snapshot) checkNodesExist(names ...string) error {
	var missing []string
	for _, name := range names {
		if _, known := s.Nodes[name]; !known {
			missing = append(missing, "node "+config.Quote(name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return &NotFoundError{config.OrList(slices.Compact(missing)), knownNodes}
}
