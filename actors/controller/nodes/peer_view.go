package nodes

import (
	"sync"
	"time"

	"edgespan/config/fleet"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
)

// PeerView is how a node is shown as a peer. The replica that has its stream derives it and publishes it to the others.
// It is read-only.
type PeerView struct {
	Report stateloop.PeerStatusReport `json:"report"`
	More   map[string]partView        `json:"more,omitempty"` // by id
	has    []peer.Leftover            // what may be on the node, by its memory
}

// Gone returns what may be on the node, by its memory.
func (v *PeerView) Gone() []peer.Leftover { return v.has }

// partView is what is shown of a parameter in addition to its state.
type partView struct {
	Dependencies []string  `json:"dependencies,omitempty"`
	Reported     string    `json:"reported,omitempty"` // as the node reported it
	Attempts     int       `json:"attempts,omitempty"`
	NextTry      time.Time `json:"nextTry,omitzero"`
	Describes    string    `json:"describes,omitempty"`
}

// notices notifies waiters of changes to what is shown.
type notices struct {
	mu     sync.Mutex
	number uint64
	moved  chan struct{} // closed by the next change; nil: no waiter
}

// Notify wakes the waiters.
func (n *notices) Notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.number++
	if n.moved != nil {
		close(n.moved)
		n.moved = nil
	}
}

// After returns the current number, and a channel that the next change closes.
func (n *notices) After() (uint64, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.moved == nil {
		n.moved = make(chan struct{})
	}
	return n.number + 1, n.moved // 0 precedes all of them
}

// view publishes changes of the node as a peer.
func (n *node) view() {
	key := viewKey{n.theirs, n.stream != nil, n.report != nil, n.desired.Generation, n.derived(),
		keyOfList(n.machine.PossibleLeftovers())}
	if n.viewOf == key {
		return
	}
	n.viewOf = key
	n.handle.peer.Store(n.currentView())
	n.handle.all.Changes.Notify()
	if n.mayHaveParts() {
		n.notifyReplicas()
	}
}

// viewKey is the input that a view was derived from.
type viewKey struct {
	theirs         *reported
	here, reported bool
	wants          fleet.Generation
	derived        uint64
	has            listKey
}

// derived returns the number of the current summary, 0 for none. Only nodes that are in sync or have a
// PeerConfiguration are summarized; for the others their state says what they wait for.
func (n *node) derived() uint64 {
	if n.theirs != nil || n.report == nil && n.desired.With == nil || !n.mayHaveParts() && !n.isInSync() {
		return 0
	}
	n.summarize()
	return n.summary.number
}

// mayHaveParts reports whether the node has, or may have, more than its config declares.
func (n *node) mayHaveParts() bool {
	return n.desired.With != nil || len(n.machine.PossibleLeftovers()) > 0
}

// currentView returns the current view; nil for an unknown node.
func (n *node) currentView() *PeerView {
	has := n.machine.PossibleLeftovers()
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

// view returns the view of a node without a PeerConfiguration, from what its replica published.
func (t *reported) view(has []peer.Leftover) *PeerView {
	v := PeerView{has: has, Report: stateloop.PeerStatusReport{Health: t.Health,
		Ready: t.Ready, Desired: t.Wants, Applied: t.Runs, Counts: map[stateloop.State]int{}}}
	if !t.Ready {
		v.Report.Why = t.Why
	}
	for _, p := range t.Parameters {
		one := stateloop.DerivedParameter{ID: p.ID, Kind: p.Kind, Target: stateloop.Target(p.Target),
			State: stateloop.State(p.State), Review: stateloop.Review(p.Review), Reason: p.Reason}
		v.Report.Parameters = append(v.Report.Parameters, one)
		if v.Report.Counts[one.State]++; one.Review == stateloop.ReviewYes {
			v.Report.Reviews++
		}
	}
	return &v
}

// listKey identifies a read-only list.
type listKey struct {
	first *peer.Leftover
	size  int
}

func keyOfList(l []peer.Leftover) listKey {
	if len(l) == 0 {
		return listKey{}
	}
	return listKey{&l[0], len(l)}
}

// ShownParameter returns a parameter in its form of the API.
func ShownParameter(p stateloop.DerivedParameter, more partView) fleetapi.PeerParameter {
	return fleetapi.PeerParameter{
		ID: p.ID, Kind: p.Kind, Target: string(p.Target), State: string(p.State), Reported: more.Reported,
		Review: string(p.Review), Reason: p.Reason,
		Since: Moment(p.Since), Dependencies: more.Dependencies, Attempts: more.Attempts, NextTry: Moment(more.NextTry),
		Describes: more.Describes,
	}
}

// Moment returns a pointer to a time, nil for the zero time.
func Moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
