package controller

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"edgespan/actors/controller/nodes"
	"edgespan/config/fleet"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/pace"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/stateloop/peer"
)

// directory holds what is known of every node. The fleet actor and the nodes' actors write it; anybody reads it without
// asking the actors.
type directory struct {
	marks nodes.Marks // what changed on any node
	ready atomic.Bool // the store has been read
	seen  appliedRevision

	mu       sync.RWMutex
	byID     map[string]*nodes.Handle
	byName   map[string]*nodes.Handle
	facts    map[string]ops.NodeFact // read-only; replaced when a node changes
	hardware fleet.Hardware
	kinds    map[string]layers.Set         // by name
	learnt   map[string]*baseConfig        // by board, once accepted
	metadata *metadata.Metadata            // with that of the boards
	rules    map[string]*metadata.Metadata // by board, for boards that bring their own

	peers atomic.Pointer[peer.Inventory] // descriptors; nil until they are read
}

func newDirectory(m *metadata.Metadata) *directory {
	return &directory{byID: map[string]*nodes.Handle{}, byName: map[string]*nodes.Handle{}, kinds: map[string]layers.Set{},
		metadata: m}
}

// node returns the node that joined with an id, nil for none.
func (d *directory) node(id string) *nodes.Handle {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byID[id]
}

// nodeByName returns the known node with a name, nil for none.
func (d *directory) nodeByName(name string) *nodes.Handle {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byName[name]
}

// budgetOf returns the budget of writes for a node; nil for an unknown node.
func (d *directory) budgetOf(id string) *pace.Budget {
	if s := d.node(id); s != nil {
		return s.Budget()
	}
	return nil
}

// handles returns all known nodes.
func (d *directory) handles() []*nodes.Handle {
	d.mu.RLock()
	defer d.mu.RUnlock()
	out := make([]*nodes.Handle, 0, len(d.byName))
	for _, s := range d.byName {
		out = append(out, s)
	}
	return out
}

// nodeFacts returns the facts of all nodes. The map is shared: callers must not change it.
func (d *directory) nodeFacts() map[string]ops.NodeFact {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.marks.Changed.Swap(false) || d.facts == nil {
		d.facts = make(map[string]ops.NodeFact, len(d.byName))
		for name, s := range d.byName {
			d.facts[name] = s.Fact()
		}
	}
	return d.facts
}

// nodes lists all nodes, by name.
func (d *directory) nodes(now time.Time, set fleet.Settings) []fleetapi.Node {
	handles := d.handles()
	out := make([]fleetapi.Node, len(handles))
	for i, s := range handles {
		out[i] = s.List(now, set)
	}
	slices.SortFunc(out, func(a, b fleetapi.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// setKnown records from where a node is known, and its current name; a zero k without an id forgets the name.
func (d *directory) setKnown(name, id string, k fleet.Known) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.marks.Changed.Store(true)
	if id == "" && k == (fleet.Known{}) {
		delete(d.byName, name)
		return
	}
	s := d.byID[id]
	if s == nil {
		if s = d.byName[name]; s == nil || id != "" {
			s = nodes.NewHandle(&d.marks)
		}
	}
	old := s.MoveTo(id, name, k)
	if old != name && d.byName[old] == s {
		delete(d.byName, old)
	}
	d.byName[name] = s
	if id != "" {
		d.byID[id] = s
	}
}

// leave removes a node that is no longer a member.
func (d *directory) leave(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.byID[id]; s != nil {
		delete(d.byID, id)
		if name, _ := s.Names(); d.byName[name] == s {
			delete(d.byName, name)
		}
		d.marks.Changed.Store(true)
	}
}

// setKind caches the layers of a kind for readers of effective configs.
func (d *directory) setKind(m kindRead) {
	if m.err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kinds[m.kind.Name] = m.set
}

// setHardware stores the current versions and boards, and drops the cached kinds.
func (d *directory) setHardware(h fleet.Hardware, learnt map[string]*baseConfig, m *metadata.Metadata,
	rules map[string]*metadata.Metadata) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hardware, d.learnt, d.metadata, d.rules = h, learnt, m, rules
	d.kinds = map[string]layers.Set{}
}

// snapshot returns a Snapshot without its layers.
func (d *directory) snapshot() *ops.Snapshot {
	facts := d.nodeFacts()
	d.mu.RLock()
	defer d.mu.RUnlock()
	return &ops.Snapshot{Hardware: d.hardware, Nodes: facts, Metadata: d.metadata, Rules: d.rules}
}

// kindLayers returns the documents of a kind, and reads them if no node has needed them yet.
func (d *deps) kindLayers(k fleet.Kind) (layers.Set, error) {
	d.dir.mu.RLock()
	set, has := d.dir.kinds[k.Name]
	learnt := d.dir.learnt
	d.dir.mu.RUnlock()
	if has {
		return set, nil
	}
	if k.Learnt {
		return d.readKind(k, learnt[k.Name[strings.LastIndexByte(k.Name, 0)+1:]])
	}
	return d.readKind(k, nil)
}
