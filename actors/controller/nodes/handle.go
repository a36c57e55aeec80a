package nodes

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/fleet"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/pace"
	"edgespan/config/fleet/underlay"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
)

// Marks report changes of any node.
type Marks struct {
	Changed atomic.Bool  // a node's facts changed since they were read last
	Changes notices      // of peers and clusters
	events  atomic.Int64 // bytes of the collected events

	mu     sync.Mutex
	owners underlay.Owners // of keys for encrypted clusters
}

// SetKeys sets the keys for encrypted clusters that a node has in the store; known is false if it is deleted.
func (m *Marks) SetKeys(id string, keys []string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known {
		m.owners.Set(id, keys)
	} else {
		m.owners.Forget(id)
	}
}

// ownerOf returns the node that a key for encrypted clusters belongs to, "" for none.
func (m *Marks) ownerOf(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owners.Of(key)
}

// Handle is one node's state that outlives a crash of its actor, and that others read.
type Handle struct {
	all       *Marks        // of all nodes
	asks      atomic.Uint64 // counts the requests to the node
	heard     atomic.Int64  // time of the last report, Unix nanoseconds; 0: none
	row       atomic.Pointer[Row]
	underlay  atomic.Pointer[string]          // the node's ports in the store; nil: not read yet
	peer      atomic.Pointer[PeerView]        // how it is shown as a peer; nil: unknown
	admission atomic.Pointer[fleet.Admission] // the config that a staged rollout admits; nil: not read yet
	spends    pace.Budget                     // of writes for the node; the saver spends it
	events    collectedEvents

	mu       sync.Mutex
	id, name string     // id is empty until it has joined
	pid      *actor.PID // nil until it has joined
	known    fleet.Known
	stream   nodeproto.ToNode // nil: not connected to this replica
	versions layers.Versions
	reported bool
	replica  string        // that has its stream; "" for none
	moved    chan struct{} // closed when replica changes; nil: no waiter
	address  string        // of its last connection; "" if others can't reach it
}

// Row is a node's entry in a list, as its actor published it.
type Row struct {
	Key rowKey
	Why string
}

// rowKey is the state in a row, without its reason.
type rowKey struct {
	State            fleet.State
	managed, ready   bool
	versions         layers.Versions
	desired, running fleet.Digest
	Wants, Runs      fleet.Generation
}

// NewHandle returns the handle of an unknown node.
func NewHandle(all *Marks) *Handle { return &Handle{all: all} }

// MoveTo sets from where a node is known and its name, and returns its previous name.
func (h *Handle) MoveTo(id, name string, k fleet.Known) (before string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before = h.name
	h.id, h.name, h.known = id, name, k
	return before
}

// SetProcess sets the node's actor.
func (h *Handle) SetProcess(pid *actor.PID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pid = pid
}

// HasJoined reports whether the node has joined and its certificates are valid.
func (h *Handle) HasJoined() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known.Joined
}

// SetAdmission sets which config a staged rollout admits for the node, and reports whether that changed.
func (h *Handle) SetAdmission(g fleet.Admission) bool {
	old := h.admission.Swap(&g)
	return old == nil || *old != g
}

// SetUnderlay sets the node's ports as the store has them.
func (h *Handle) SetUnderlay(underlay string) { h.underlay.Store(&underlay) }

// Row returns the node's entry in a list, nil until its actor has published one.
func (h *Handle) Row() *Row { return h.row.Load() }

// View returns how the node is shown as a peer; nil: unknown.
func (h *Handle) View() *PeerView { return h.peer.Load() }

// LastReport returns when the node reported last, zero for never.
func (h *Handle) LastReport() time.Time {
	if at := h.heard.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Budget returns the budget of writes for the node.
func (h *Handle) Budget() *pace.Budget { return &h.spends }

// Connection returns the node's stream to this replica, nil for none, and its reported versions.
func (h *Handle) Connection() (nodeproto.ToNode, layers.Versions) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stream, h.versions
}

// Fact returns what validation of layers uses of the node.
func (h *Handle) Fact() ops.NodeFact {
	h.mu.Lock()
	defer h.mu.Unlock()
	return ops.NodeFact{Versions: h.versions, Reported: h.reported, Alive: h.replica != "", ID: h.id, Address: h.address}
}

// setVersions records the reported versions of a node and the replica that has its stream.
func (h *Handle) setVersions(v layers.Versions, replica string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v == (layers.Versions{}) {
		v = h.versions // not reported
	} else {
		h.reported = true
	}
	if h.versions != v || h.replica != replica {
		if h.replica != replica && h.moved != nil {
			close(h.moved)
			h.moved = nil
		}
		h.versions, h.replica = v, replica
		h.all.Changed.Store(true)
	}
}

// At returns the node's id, the replica that has its stream, and a channel that is closed when that replica changes.
func (h *Handle) At() (id, replica string, moved <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.moved == nil {
		h.moved = make(chan struct{})
	}
	return h.id, h.replica, h.moved
}

// setAddress records the address that a node connected from, and reports whether it changed.
func (h *Handle) setAddress(address string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if address == "" || address == h.address {
		return false
	}
	h.address = address
	h.all.Changed.Store(true)
	return true
}

// LastAddress returns the address of the node's last connection, "" if others can't reach it.
func (h *Handle) LastAddress() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.address
}

// Attach sets the node's stream, unless it has a newer one.
func (h *Handle) Attach(stream nodeproto.ToNode) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stream == nil || h.stream.ID() < stream.ID() {
		h.stream = stream
	}
}

// Detach removes a stream, unless the node has another one by now.
func (h *Handle) Detach(stream nodeproto.ToNode) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stream != nil && h.stream.ID() == stream.ID() {
		h.stream = nil
	}
}

// Process returns the node's actor, nil for none.
func (h *Handle) Process() *actor.PID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pid
}

// List returns the node's entry in a list.
func (h *Handle) List(now time.Time, set fleet.Settings) fleetapi.Node {
	h.mu.Lock()
	n := fleetapi.Node{Name: h.name, ID: h.id, Online: h.replica != "", Software: h.versions.Software,
		Firmware: h.versions.Firmware, Board: h.versions.Board}
	known := h.known
	h.mu.Unlock()
	if at := h.heard.Load(); at != 0 {
		t := time.Unix(0, at).UTC()
		n.LastReport = &t
	}
	r := h.row.Load()
	if n.ID == "" || r == nil { // it has not joined
		m := fleet.New(n.Name, fleet.Memory{}, set)
		for _, e := range m.Step(now, known) {
			if status, ok := e.(fleet.Status); ok {
				n.State, n.Why = string(m.State(now)), status.Why
			}
		}
		return n
	}
	n.State, n.Why, n.Managed, n.Ready = string(r.Key.State), r.Why, r.Key.managed, r.Key.ready && n.Online
	n.Desired = fleetapi.Running{MD5: r.Key.desired.Config, Generation: r.Key.Wants.String()}
	n.Running = fleetapi.Running{MD5: r.Key.running.Config, Generation: r.Key.Runs.String()}
	return n
}

// Names returns the node's name, and its id once it has joined.
func (h *Handle) Names() (name, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.name, h.id
}
