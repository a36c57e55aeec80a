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
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
)

// Marks report changes of any node.
type Marks struct {
	Changed atomic.Bool // a node's facts changed since they were read last
	Changes notices     // of peers and clusters
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
func (s *Handle) MoveTo(id, name string, k fleet.Known) (before string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.name
	s.id, s.name, s.known = id, name, k
	return before
}

// Started sets the node's actor.
func (s *Handle) Started(pid *actor.PID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid = pid
}

// Joined reports whether the node has joined and its certificates are valid.
func (s *Handle) Joined() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.Joined
}

// SetAdmission sets which config a staged rollout admits for the node, and reports whether that changed.
func (s *Handle) SetAdmission(g fleet.Admission) bool {
	old := s.admission.Swap(&g)
	return old == nil || *old != g
}

// SetUnderlay sets the node's ports as the store has them.
func (s *Handle) SetUnderlay(underlay string) { s.underlay.Store(&underlay) }

// Row returns the node's entry in a list, nil until its actor has published one.
func (s *Handle) Row() *Row { return s.row.Load() }

// View returns how the node is shown as a peer; nil: unknown.
func (s *Handle) View() *PeerView { return s.peer.Load() }

// LastReport returns when the node reported last, zero for never.
func (s *Handle) LastReport() time.Time {
	if at := s.heard.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Budget returns the budget of writes for the node.
func (s *Handle) Budget() *pace.Budget { return &s.spends }

// Connection returns the node's stream to this replica, nil for none, and its reported versions.
func (s *Handle) Connection() (nodeproto.ToNode, layers.Versions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream, s.versions
}

// Fact returns what validation of layers uses of the node.
func (s *Handle) Fact() ops.NodeFact {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ops.NodeFact{Versions: s.versions, Reported: s.reported, Alive: s.replica != "", ID: s.id, Address: s.address}
}

// is records the reported versions of a node and the replica that has its stream.
func (s *Handle) is(v layers.Versions, replica string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v == (layers.Versions{}) {
		v = s.versions // not reported
	} else {
		s.reported = true
	}
	if s.versions != v || s.replica != replica {
		if s.replica != replica && s.moved != nil {
			close(s.moved)
			s.moved = nil
		}
		s.versions, s.replica = v, replica
		s.all.Changed.Store(true)
	}
}

// At returns the node's id, the replica that has its stream, and a channel that is closed when that replica changes.
func (s *Handle) At() (id, replica string, moved <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.id, s.replica, s.moved
}

// from records the address that a node connected from, and reports whether it changed.
func (s *Handle) from(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if address == "" || address == s.address {
		return false
	}
	s.address = address
	s.all.Changed.Store(true)
	return true
}

// LastAddress returns the address of the node's last connection, "" if others can't reach it.
func (s *Handle) LastAddress() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// Attach sets the node's stream, unless it has a newer one.
func (s *Handle) Attach(stream nodeproto.ToNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == nil || s.stream.ID() < stream.ID() {
		s.stream = stream
	}
}

// Detach removes a stream, unless the node has another one by now.
func (s *Handle) Detach(stream nodeproto.ToNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil && s.stream.ID() == stream.ID() {
		s.stream = nil
	}
}

// Process returns the node's actor, nil for none.
func (s *Handle) Process() *actor.PID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
}

// List returns the node's entry in a list.
func (s *Handle) List(now time.Time, set fleet.Settings) fleetapi.Node {
	s.mu.Lock()
	n := fleetapi.Node{Name: s.name, ID: s.id, Online: s.replica != "", Software: s.versions.Software,
		Firmware: s.versions.Firmware, Board: s.versions.Board}
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

// Called returns the node's name, and its id once it has joined.
func (s *Handle) Called() (name, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name, s.id
}
