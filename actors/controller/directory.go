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

// directory is what is known of all nodes, for whoever asks: the fleet actor and the nodes'
// own write it, and nobody has to ask ten thousand actors.
type directory struct {
	marks nodes.Marks // of the nodes
	ready atomic.Bool // the store was read
	seen  seen

	mu       sync.RWMutex
	byID     map[string]*nodes.Handle
	byName   map[string]*nodes.Handle
	facts    map[string]ops.NodeFact // nobody changes it
	hardware fleet.Hardware
	kinds    map[string]layers.Set         // by name
	learnt   map[string]*baseConfig        // by board
	metadata *metadata.Metadata            // with the vendors'
	rules    map[string]*metadata.Metadata // of boards that brought some

	peers atomic.Pointer[peer.Fleet] // descriptors; nil before they were read
}

func newDirectory(m *metadata.Metadata) *directory {
	return &directory{byID: map[string]*nodes.Handle{}, byName: map[string]*nodes.Handle{}, kinds: map[string]layers.Set{},
		metadata: m}
}

// node finds a node that has joined.
func (d *directory) node(id string) *nodes.Handle {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byID[id]
}

// named finds a node that is known.
func (d *directory) named(name string) *nodes.Handle {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byName[name]
}

// spends is what is left of what may be written for a node; nil for one that is not known.
func (d *directory) spends(id string) *pace.Budget {
	if s := d.node(id); s != nil {
		return s.Budget()
	}
	return nil
}

// handles are all nodes that are known.
func (d *directory) handles() []*nodes.Handle {
	d.mu.RLock()
	defer d.mu.RUnlock()
	out := make([]*nodes.Handle, 0, len(d.byName))
	for _, s := range d.byName {
		out = append(out, s)
	}
	return out
}

// nodeFacts is what is known of all nodes. Nobody changes it.
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

// nodes are all nodes, by name.
func (d *directory) nodes(now time.Time, set fleet.Settings) []fleetapi.Node {
	handles := d.handles()
	out := make([]fleetapi.Node, len(handles))
	for i, s := range handles {
		out[i] = s.List(now, set)
	}
	slices.SortFunc(out, func(a, b fleetapi.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// know notes from where a node is known, under the name that it has now; from nowhere
// forgets it.
func (d *directory) know(name, id string, k fleet.Known) {
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

// leave forgets that a node has joined.
func (d *directory) leave(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.byID[id]; s != nil {
		delete(d.byID, id)
		if name, _ := s.Called(); d.byName[name] == s {
			delete(d.byName, name)
		}
		d.marks.Changed.Store(true)
	}
}

// kindIs keeps the layers of a kind, for those who ask what a node's config is.
func (d *directory) kindIs(m kindRead) {
	if m.err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kinds[m.kind.Name] = m.set
}

// hardwareIs takes over what is known of versions and boards.
func (d *directory) hardwareIs(h fleet.Hardware, learnt map[string]*baseConfig, m *metadata.Metadata,
	rules map[string]*metadata.Metadata) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hardware, d.learnt, d.metadata, d.rules = h, learnt, m, rules
	d.kinds = map[string]layers.Set{}
}

// world is the part of a world that is no layer.
func (d *directory) world() *ops.World {
	facts := d.nodeFacts()
	d.mu.RLock()
	defer d.mu.RUnlock()
	return &ops.World{Hardware: d.hardware, Nodes: facts, Metadata: d.metadata, Rules: d.rules}
}

// kindLayers are the documents of a kind. Those that no node had yet are read now.
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
