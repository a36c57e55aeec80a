package controller

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/fleet"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
	"edgespan/config/link"
	"edgespan/config/operate"
	"edgespan/config/pace"
)

// marks say what is new of any node.
type marks struct {
	changed atomic.Bool // of what is known of them, since somebody took it
	news    notices     // of peers and clusters
}

// seat is the place of one node: what outlives a crash of its actor, and what others see.
type seat struct {
	all      *marks        // of all nodes
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

// newSeat is the place of a node that nothing is known of.
func newSeat(all *marks) *seat { return &seat{all: all} }

// moveTo notes from where a node is known and what its name is now, and says which it was.
func (s *seat) moveTo(id, name string, k fleet.Known) (before string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.name
	s.id, s.name, s.known = id, name, k
	return before
}

// started gives it the actor that a node which has joined gets.
func (s *seat) started(pid *actor.PID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid = pid
}

// joined says whether the node has joined and its certificates count.
func (s *seat) joined() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.Joined
}

// lets takes over which config a staged rollout lets the node have, and says whether that is another than before.
func (s *seat) lets(g fleet.Gate) bool {
	old := s.gate.Swap(&g)
	return old == nil || *old != g
}

// keeps takes over what the store has of the node's ports.
func (s *seat) keeps(underlay string) { s.underlay.Store(&underlay) }

// stands is the node in a list, as its actor said last; nil before it said anything.
func (s *seat) stands() *row { return s.row.Load() }

// view is what is shown of it as a peer; nil: nothing is known.
func (s *seat) view() *peerView { return s.peer.Load() }

// lastHeard is when the node reported last, zero for never.
func (s *seat) lastHeard() time.Time {
	if at := s.heard.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// budget is what may be written for it.
func (s *seat) budget() *pace.Budget { return &s.spends }

// connection is the stream that the node has here, nil for none, and the versions that it says.
func (s *seat) connection() (link.ToNode, layers.Versions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream, s.versions
}

// fact is what is known of it where layers are judged.
func (s *seat) fact() operate.NodeFact {
	s.mu.Lock()
	defer s.mu.Unlock()
	return operate.NodeFact{Versions: s.versions, Reported: s.reported, Alive: s.replica != "", ID: s.id, Address: s.address}
}

// is notes what a node says of itself.
func (s *seat) is(v layers.Versions, replica string) {
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
		s.all.changed.Store(true)
	}
}

// At is the node's id and the replica that has its stream, and a channel that is closed when
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
func (s *seat) from(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if address == "" || address == s.address {
		return false
	}
	s.address = address
	s.all.changed.Store(true)
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

// process is its actor, nil for none.
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

// called is the node's name, and its id once it has joined.
func (s *seat) called() (name, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name, s.id
}
