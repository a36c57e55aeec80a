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

// Marks say what is new of any node.
type Marks struct {
	Changed atomic.Bool // of what is known of them, since somebody took it
	Changes notices     // of peers and clusters
}

// Handle is the place of one node: what outlives a crash of its actor, and what others see.
type Handle struct {
	all       *Marks        // of all nodes
	asks      atomic.Uint64 // counts what the node was asked
	heard     atomic.Int64  // its last report, Unix nanoseconds; 0: none
	row       atomic.Pointer[Row]
	underlay  atomic.Pointer[string]          // what the store has of its ports; nil: the fleet has not said
	peer      atomic.Pointer[PeerView]        // what is shown of it as a peer; nil: nothing is known
	admission atomic.Pointer[fleet.Admission] // which config a staged rollout lets it have; nil: the fleet has not said
	spends    pace.Budget                     // of what is written for it: the saver's

	mu       sync.Mutex
	id, name string     // no id: it has not joined
	pid      *actor.PID // nil: it has not joined
	known    fleet.Known
	stream   nodeproto.ToNode // nil: it has none here
	versions layers.Versions
	reported bool
	replica  string        // that has its stream, "" for none
	moved    chan struct{} // is closed when another has it; nil: nobody waits for that
	address  string        // that it connected from last, "" for none that others could reach
}

// Row is a node in a list, as its actor said last.
type Row struct {
	Key rowKey
	Why string
}

// rowKey is what makes a row another one.
type rowKey struct {
	State            fleet.State
	managed, ready   bool
	versions         layers.Versions
	desired, running fleet.Digest
	Wants, Runs      fleet.Generation
}

// NewHandle is the place of a node that nothing is known of.
func NewHandle(all *Marks) *Handle { return &Handle{all: all} }

// MoveTo notes from where a node is known and what its name is now, and says which it was.
func (s *Handle) MoveTo(id, name string, k fleet.Known) (before string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.name
	s.id, s.name, s.known = id, name, k
	return before
}

// Started gives it the actor that a node which has joined gets.
func (s *Handle) Started(pid *actor.PID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid = pid
}

// Joined says whether the node has joined and its certificates count.
func (s *Handle) Joined() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.Joined
}

// Lets takes over which config a staged rollout lets the node have, and says whether that is another than before.
func (s *Handle) Lets(g fleet.Admission) bool {
	old := s.admission.Swap(&g)
	return old == nil || *old != g
}

// Keeps takes over what the store has of the node's ports.
func (s *Handle) Keeps(underlay string) { s.underlay.Store(&underlay) }

// Row is the node in a list, as its actor said last; nil before it said anything.
func (s *Handle) Row() *Row { return s.row.Load() }

// View is what is shown of it as a peer; nil: nothing is known.
func (s *Handle) View() *PeerView { return s.peer.Load() }

// LastReport is when the node reported last, zero for never.
func (s *Handle) LastReport() time.Time {
	if at := s.heard.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Budget is what may be written for it.
func (s *Handle) Budget() *pace.Budget { return &s.spends }

// Connection is the stream that the node has here, nil for none, and the versions that it says.
func (s *Handle) Connection() (nodeproto.ToNode, layers.Versions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream, s.versions
}

// Fact is what is known of it where layers are judged.
func (s *Handle) Fact() ops.NodeFact {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ops.NodeFact{Versions: s.versions, Reported: s.reported, Alive: s.replica != "", ID: s.id, Address: s.address}
}

// is notes what a node says of itself.
func (s *Handle) is(v layers.Versions, replica string) {
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
		s.all.Changed.Store(true)
	}
}

// At is the node's id and the replica that has its stream, and a channel that is closed when
// another has it, or none.
func (s *Handle) At() (id, replica string, moved <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.id, s.replica, s.moved
}

// from notes where a node connected from, and says whether that is news.
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

// Whereabouts is where the node connected from last, "" for nowhere that others could reach.
func (s *Handle) Whereabouts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// Attach gives a node its stream; of two the newer stays.
func (s *Handle) Attach(stream nodeproto.ToNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == nil || s.stream.ID() < stream.ID() {
		s.stream = stream
	}
}

// Detach takes it away.
func (s *Handle) Detach(stream nodeproto.ToNode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil && s.stream.ID() == stream.ID() {
		s.stream = nil
	}
}

// Process is its actor, nil for none.
func (s *Handle) Process() *actor.PID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
}

// List is a node in a list.
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

// Called is the node's name, and its id once it has joined.
func (s *Handle) Called() (name, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name, s.id
}
