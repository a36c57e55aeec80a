package nodes

import (
	"sync"
	"time"

	"edgespan/config/fleet"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
)

// PeerView is what is shown of a node as a peer: its own replica derives it, and tells it to the
// others with its key. Nobody changes it.
type PeerView struct {
	Report stateloop.PeerStatusReport `json:"report"`
	More   map[string]partView        `json:"more,omitempty"` // by id
	has    []peer.Gone                // what may be on it, by its memory
}

// Gone is what may be on the node, by its memory.
func (v *PeerView) Gone() []peer.Gone { return v.has }

// partView is what is shown of a parameter beside its state.
type partView struct {
	Dependencies []string  `json:"dependencies,omitempty"`
	Reported     string    `json:"reported,omitempty"` // what the node said
	Attempts     int       `json:"attempts,omitempty"`
	NextTry      time.Time `json:"nextTry,omitzero"`
	Describes    string    `json:"describes,omitempty"`
}

// notices tell those who wait that something that is shown is another.
type notices struct {
	mu     sync.Mutex
	number uint64
	moved  chan struct{} // is closed by the next; nil: nobody waits
}

// Notify tells.
func (n *notices) Notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.number++
	if n.moved != nil {
		close(n.moved)
		n.moved = nil
	}
}

// After is the number of now, and a channel that is closed by the next one.
func (n *notices) After() (uint64, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.moved == nil {
		n.moved = make(chan struct{})
	}
	return n.number + 1, n.moved // 0 is before all of them
}

// view publishes what is new of the node as a peer.
func (n *node) view() {
	key := viewKey{n.theirs, n.stream != nil, n.report != nil, n.want.Generation, n.derived(), sameList(n.machine.Has())}
	if n.viewOf == key {
		return
	}
	n.viewOf = key
	n.handle.peer.Store(n.viewed())
	n.handle.all.Changes.Notify()
	if n.peers() {
		n.notifyReplicas()
	}
}

// viewKey says what a view was made of.
type viewKey struct {
	theirs         *reported
	here, reported bool
	wants          fleet.Generation
	derived        uint64
	has            listKey
}

// derived is the number of the derivation of now, 0 for none: of a node that is in sync or has
// a PeerConfiguration. What others are on their way to is told by their state.
func (n *node) derived() uint64 {
	if n.theirs != nil || n.report == nil && n.want.With == nil || !n.peers() && !n.synced() {
		return 0
	}
	n.summarize()
	return n.summary.number
}

// peers says whether the node has, or may have, more than its config declares.
func (n *node) peers() bool { return n.want.With != nil || len(n.machine.Has()) > 0 }

// viewed is the view of now; nil of a node that nothing is known of.
func (n *node) viewed() *PeerView {
	has := n.machine.Has()
	if t := n.theirs; t != nil && t.Peer != nil {
		v := *t.Peer
		v.has = has
		return &v
	} else if t != nil && t.Health != "" {
		return t.view(has)
	}
	if n.derived() == 0 {
		if has == nil {
			return nil
		}
		return &PeerView{has: has}
	}
	v := PeerView{Report: n.summary.report, More: n.summary.more, has: has}
	v.Report.LastReport = time.Time{}
	return &v
}

// view is the view of a node without a PeerConfiguration, as its replica tells it.
func (t *reported) view(has []peer.Gone) *PeerView {
	v := PeerView{has: has, Report: stateloop.PeerStatusReport{Health: t.Health,
		Ready: t.Ready, Desired: t.Wants, Applied: t.Runs, Counts: map[stateloop.State]int{}}}
	if !t.Ready {
		v.Report.Why = t.Why
	}
	for _, p := range t.Parameters {
		one := stateloop.Parameter{ID: p.ID, Kind: p.Kind, Target: stateloop.Target(p.Target),
			State: stateloop.State(p.State), Review: stateloop.Review(p.Review), Reason: p.Reason}
		v.Report.Parameters = append(v.Report.Parameters, one)
		if v.Report.Counts[one.State]++; one.Review == stateloop.Yes {
			v.Report.Reviews++
		}
	}
	return &v
}

// listKey is the identity of a list that nobody changes.
type listKey struct {
	first *peer.Gone
	size  int
}

func sameList(l []peer.Gone) listKey {
	if len(l) == 0 {
		return listKey{}
	}
	return listKey{&l[0], len(l)}
}

// ShownParameter is a parameter as people get it.
func ShownParameter(p stateloop.Parameter, more partView) fleetapi.PeerParameter {
	return fleetapi.PeerParameter{
		ID: p.ID, Kind: p.Kind, Target: string(p.Target), State: string(p.State), Reported: more.Reported,
		Review: string(p.Review), Reason: p.Reason,
		Since: Moment(p.Since), Dependencies: more.Dependencies, Attempts: more.Attempts, NextTry: Moment(more.NextTry),
		Describes: more.Describes,
	}
}

// Moment is a time, nil for none.
func Moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
