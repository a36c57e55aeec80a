package registry

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"edgespan/pubsub/backoff"
)

// Handling of other programs, which flush chains, and of chains from a former release, which the guard (guard.go)
// spares.

// TouchNetworks requests an observation of networks, whose objects that others changed depend on the host's chains,
// which were repaired first.
type TouchNetworks struct {
	Networks []int
	Full     bool // requested by an operator: everything is observed
	// Moved means that the host state itself has changed what leads to them: what hung there may have gone with it, and
	// is applied again.
	Moved bool
}

func (TouchNetworks) registryEffect() {}

// hostChanged observes the host state, and then the networks. While an apply fails, the next one waits for its retry,
// regardless of further changes.
func (r *Registry) hostChanged(e HostChanged) []Effect {
	if r.held == nil {
		r.held = map[int]bool{}
	}
	for _, n := range e.Networks {
		r.held[n] = true
	}
	r.heldFull = r.heldFull || e.Full
	if len(r.members) == 0 || r.backoff > 0 || !r.found || !r.known || !r.ready {
		return r.touchHeld()
	}
	r.dirty = true
	return r.next()
}

// move has a network that may be on the host touched once the host state is as desired: the branch that leads to it may
// go and come back, without the chains that hung there.
func (r *Registry) move(m *member) { m.moved = m.moved || m.spawned && r.seq > 0 }

// touchHeld touches the networks that waited, unless another apply is due before them.
func (r *Registry) touchHeld() []Effect {
	if len(r.held) == 0 || r.dirty && r.backoff == 0 && r.ready && r.known && r.found {
		return nil
	}
	touch := TouchNetworks{Networks: slices.Sorted(maps.Keys(r.held)), Full: r.heldFull}
	clear(r.held)
	r.heldFull = false
	return []Effect{touch}
}

// touchMoved touches the networks to which something else leads: after an apply that succeeded, and after each one that
// failed, perhaps with something else.
func (r *Registry) touchMoved(failed bool) []Effect {
	if r.dirty {
		return nil
	}
	touch := TouchNetworks{Moved: true}
	for _, id := range r.ids() {
		if m := r.members[id]; m.moved {
			touch.Networks = append(touch.Networks, m.number)
			m.moved = failed
		}
	}
	if touch.Networks == nil {
		return nil
	}
	return []Effect{touch}
}

// hostRetries are the delays before a failed apply is retried.
var hostRetries = backoff.Backoff{First: 100 * time.Millisecond, Max: time.Minute}

// unmarked returns the numbers of the networks that the guard spares.
func (r *Registry) unmarked() []int {
	var ns []int
	for _, id := range r.ids() {
		if m := r.members[id]; m.unmarked {
			ns = append(ns, m.number)
		}
	}
	return ns
}

func compareUUIDs(a, b uuid.UUID) int { return cmp.Compare(a.String(), b.String()) }

func lowestFree(used map[int]bool) int {
	n := 1
	for used[n] {
		n++
	}
	return n
}
