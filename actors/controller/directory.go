package controller

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/fleet"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
	"edgespan/config/link"
	"edgespan/config/metadata"
	"edgespan/config/operate"
	"edgespan/config/pace"
	"edgespan/config/peer"
)

// directory is what is known of all nodes, for whoever asks: the fleet actor and the nodes'
// own write it, and nobody has to ask ten thousand actors.
type directory struct {
	changed atomic.Bool // since facts was made
	ready   atomic.Bool // the store was read
	seen    seen

	mu       sync.RWMutex
	byID     map[string]*seat
	byName   map[string]*seat
	facts    map[string]operate.NodeFact // nobody changes it
	hardware fleet.Hardware
	kinds    map[string]layers.Set         // by name
	learnt   map[string]*baseConfig        // by board
	metadata *metadata.Metadata            // with the vendors'
	rules    map[string]*metadata.Metadata // of boards that brought some

	peers atomic.Pointer[peer.Fleet] // descriptors; nil before they were read
	news  notices                    // of peers and clusters
}

// seat is the place of one node: what outlives a crash of its actor, and what others see.
type seat struct {
	asks     atomic.Uint64 // counts what the node was asked
	heard    atomic.Int64  // its last report, Unix nanoseconds; 0: none
	row      atomic.Pointer[row]
	underlay atomic.Pointer[string]     // what the store has of its ports; nil: the fleet has not said
	peer     atomic.Pointer[peerView]   // what is shown of it as a peer; nil: nothing is known
	gate     atomic.Pointer[fleet.Gate] // which config a staged rollout lets it have; nil: the fleet has not said
	spends   pace.Budget                // of what is written for it: the saver's

	mu       sync.Mutex
	id, name string     // no id: it has not joined
	pid      *actor.PID // nil: it has not joined
	known    fleet.Known
	stream   link.ToNode // nil: it has none here
	versions layers.Versions
	reported bool
	replica  string        // that has its stream, "" for none
	moved    chan struct{} // is closed when another has it; nil: nobody waits for that
	address  string        // that it connected from last, "" for none that others could reach
}

// row is a node in a list, as its actor said last.
type row struct {
	key rowKey
	why string
}

// rowKey is what makes a row another one.
type rowKey struct {
	state           fleet.State
	managed, ready  bool
	versions        layers.Versions
	wanted, running fleet.Digest
	wants, runs     fleet.Generation
}

func newDirectory(m *metadata.Metadata) *directory {
	return &directory{byID: map[string]*seat{}, byName: map[string]*seat{}, kinds: map[string]layers.Set{}, metadata: m}
}

// node finds a node that has joined.
func (d *directory) node(id string) *seat {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byID[id]
}

// named finds a node that is known.
func (d *directory) named(name string) *seat {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byName[name]
}

// spends is what is left of what may be written for a node; nil for one that is not known.
func (d *directory) spends(id string) *pace.Budget {
	if s := d.node(id); s != nil {
		return &s.spends
	}
	return nil
}

// seats are all nodes that are known.
func (d *directory) seats() []*seat {
	d.mu.RLock()
	defer d.mu.RUnlock()
	out := make([]*seat, 0, len(d.byName))
	for _, s := range d.byName {
		out = append(out, s)
	}
	return out
}

// nodeFacts is what is known of all nodes. Nobody changes it.
func (d *directory) nodeFacts() map[string]operate.NodeFact {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed.Swap(false) || d.facts == nil {
		d.facts = make(map[string]operate.NodeFact, len(d.byName))
		for name, s := range d.byName {
			d.facts[name] = s.fact()
		}
	}
	return d.facts
}

func (s *seat) fact() operate.NodeFact {
	s.mu.Lock()
	defer s.mu.Unlock()
	return operate.NodeFact{Versions: s.versions, Reported: s.reported, Alive: s.replica != "", ID: s.id, Address: s.address}
}

// is notes what a node says of itself.
func (s *seat) is(d *directory, v layers.Versions, replica string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v == (layers.Versions{}) {
		v = s.versions // nothing is said of it
	} else {
		s.reported = true
	}
	if s.versions != v || s.replica != replica {
		if s.replica != replica && s.moved != nil {
			close(s.moved)
			s.moved = nil
		}
		s.versions, s.replica = v, replica
		d.changed.Store(true)
	}
}

// at is the node's id and the replica that has its stream, and a channel that is closed when
// another has it, or none.
func (s *seat) at() (id, replica string, moved <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.id, s.replica, s.moved
}

// from notes where a node connected from, and says whether that is news.
func (s *seat) from(d *directory, address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if address == "" || address == s.address {
		return false
	}
	s.address = address
	d.changed.Store(true)
	return true
}

// whereabouts is where the node connected from last, "" for nowhere that others could reach.
func (s *seat) whereabouts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// attach gives a node its stream; of two the newer stays.
func (s *seat) attach(stream link.ToNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == nil || s.stream.ID() < stream.ID() {
		s.stream = stream
	}
}

// detach takes it away.
func (s *seat) detach(stream link.ToNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil && s.stream.ID() == stream.ID() {
		s.stream = nil
	}
}

func (s *seat) process() *actor.PID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
}

// list is a node in a list.
func (s *seat) list(now time.Time, set fleet.Settings) fleetapi.Node {
	s.mu.Lock()
	n := fleetapi.Node{Name: s.name, ID: s.id, Online: s.replica != "", Software: s.versions.Software, Firmware: s.versions.Firmware, Board: s.versions.Board}
	known := s.known
	s.mu.Unlock()
	if at := s.heard.Load(); at != 0 {
		t := time.Unix(0, at).UTC()
		n.LastReport = &t
	}
	r := s.row.Load()
	if n.ID == "" || r == nil { // it has not joined
		m := fleet.New(n.Name, fleet.Memory{}, set)
		for _, e := range m.Step(now, known) {
			if status, is := e.(fleet.Status); is {
				n.State, n.Why = string(status.State), status.Why
			}
		}
		return n
	}
	n.State, n.Why, n.Managed, n.Ready = string(r.key.state), r.why, r.key.managed, r.key.ready && n.Online
	n.Wanted = fleetapi.Running{MD5: r.key.wanted.Config, Generation: r.key.wants.String()}
	n.Running = fleetapi.Running{MD5: r.key.running.Config, Generation: r.key.runs.String()}
	return n
}

// nodes are all nodes, by name.
func (d *directory) nodes(now time.Time, set fleet.Settings) []fleetapi.Node {
	seats := d.seats()
	out := make([]fleetapi.Node, len(seats))
	for i, s := range seats {
		out[i] = s.list(now, set)
	}
	slices.SortFunc(out, func(a, b fleetapi.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// know notes from where a node is known, under the name that it has now; from nowhere
// forgets it.
func (d *directory) know(name, id string, k fleet.Known) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed.Store(true)
	if id == "" && k == (fleet.Known{}) {
		delete(d.byName, name)
		return
	}
	s := d.byID[id]
	if s == nil {
		if s = d.byName[name]; s == nil || id != "" {
			s = &seat{}
		}
	}
	s.mu.Lock()
	old := s.name
	s.id, s.name, s.known = id, name, k
	s.mu.Unlock()
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
		if d.byName[s.name] == s {
			delete(d.byName, s.name)
		}
		d.changed.Store(true)
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
func (d *directory) hardwareIs(h fleet.Hardware, learnt map[string]*baseConfig, m *metadata.Metadata, rules map[string]*metadata.Metadata) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hardware, d.learnt, d.metadata, d.rules = h, learnt, m, rules
	d.kinds = map[string]layers.Set{}
}

// world is the part of a world that is no layer.
func (d *directory) world() *operate.World {
	facts := d.nodeFacts()
	d.mu.RLock()
	defer d.mu.RUnlock()
	return &operate.World{Hardware: d.hardware, Nodes: facts, Metadata: d.metadata, Rules: d.rules}
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
