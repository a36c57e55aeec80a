package metrics

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"edgespan/config/httpapi/metrics"
	"edgespan/netinst/netstate"
)

// Work counts what the actors do, from the start of the process. Its zero value is ready.
type Work struct {
	mu     sync.Mutex
	counts Counts
}

// Counts are the counts of Work.
type Counts struct {
	Reconciles map[string]metrics.Histogram // by result
	Failed     map[string]uint64            // ops that began to fail, by the kind of object
	Repaired   map[string]uint64            // objects that other programs had changed, by kind
	Switches   map[string]uint64            // moves to another port, by network
	Restarts   map[string]uint64            // by kind of actor
}

// The results of a reconcile.
const (
	ResultUnchanged = "unchanged" // the host was as desired
	ResultChanged   = "changed"
	ResultFailed    = "failed"
)

// Snapshot returns the counts as of now.
func (w *Work) Snapshot() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Counts{Reconciles: maps.Clone(w.counts.Reconciles), Failed: maps.Clone(w.counts.Failed),
		Repaired: maps.Clone(w.counts.Repaired), Switches: maps.Clone(w.counts.Switches),
		Restarts: maps.Clone(w.counts.Restarts)}
}

// Reconciled counts an apply, by what came of it.
func (w *Work) Reconciled(took time.Duration, changed, failed bool) {
	result := ResultUnchanged
	switch {
	case failed:
		result = ResultFailed
	case changed:
		result = ResultChanged
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts.Reconciles == nil {
		w.counts.Reconciles = map[string]metrics.Histogram{}
	}
	h := w.counts.Reconciles[result]
	h.Observe(took.Seconds())
	w.counts.Reconciles[result] = h
}

// OpFailed counts an op that began to fail, such as "add link es1a1".
func (w *Work) OpFailed(op string) { w.add(&w.counts.Failed, kindOf(op)) }

// Repaired counts an op that repaired what another program had changed.
func (w *Work) Repaired(op string) { w.add(&w.counts.Repaired, kindOf(op)) }

// Switched counts a network's move to another port.
func (w *Work) Switched(network string) { w.add(&w.counts.Switches, network) }

// ForgetNetwork forgets a network that is gone.
func (w *Work) ForgetNetwork(network string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.counts.Switches, network)
}

// Crashed counts a crash of an actor, which is restarted.
func (w *Work) Crashed(id string) { w.add(&w.counts.Restarts, ActorKind(id)) }

func (w *Work) add(to *map[string]uint64, label string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if *to == nil {
		*to = map[string]uint64{}
	}
	(*to)[label]++
}

// otherKind is the label of an op that is about no kind of object.
const otherKind = "other"

// kinds are the labels of ops.
var kinds = []string{string(netstate.KindSysctl), string(netstate.KindFile), string(netstate.KindSet),
	string(netstate.KindChain), string(netstate.KindLink), string(netstate.KindAddress), string(netstate.KindPort),
	string(netstate.KindRoute), string(netstate.KindRule), string(netstate.KindProcess), otherKind}

// kindOf returns the kind of object that an op is about: the second word of netstate.Op.String.
func kindOf(op string) string {
	words := strings.Fields(op)
	if len(words) < 2 {
		return otherKind
	}
	if slices.Contains(kinds, words[1]) {
		return words[1]
	}
	return otherKind
}

// ActorKind returns the kind of an actor by its id, which has the ids of objects in it.
func ActorKind(id string) string {
	parts := strings.Split(id, "/")
	switch {
	case len(parts) < 2:
		return parts[0]
	case parts[1] == "ni" && len(parts) > 3:
		return parts[3]
	case parts[1] == "ni":
		return "network"
	}
	return parts[1]
}
