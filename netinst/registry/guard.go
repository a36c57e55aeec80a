package registry

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/pubsub/backoff"
)

// What the registry does about others: what they flush, and what a former release left for
// the guard (guard.go) to spare.

// TouchNetworks has networks looked at: what others changed of theirs hangs in host's chains,
// which were looked at first.
type TouchNetworks struct {
	Networks []int
	Full     bool // somebody asked for it: everything is looked at
}

func (TouchNetworks) registryEffect() {}

// changed has what is host's looked at, and then the networks. While an apply fails, the next
// one comes when its retry is due, whatever others do meanwhile.
func (r *Registry) changed(e HostChanged) []Effect {
	if r.held == nil {
		r.held = map[int]bool{}
	}
	for _, n := range e.Networks {
		r.held[n] = true
	}
	r.heldFull = r.heldFull || e.Full
	if len(r.members) == 0 || r.backoff > 0 || !r.found || !r.known || !r.ready {
		return r.release()
	}
	r.dirty = true
	return r.next()
}

// release touches the networks that waited, unless another apply is due before them.
func (r *Registry) release() []Effect {
	if len(r.held) == 0 || r.dirty && r.backoff == 0 && r.ready && r.known && r.found {
		return nil
	}
	touch := TouchNetworks{slices.Sorted(maps.Keys(r.held)), r.heldFull}
	clear(r.held)
	r.heldFull = false
	return []Effect{touch}
}

// The waits until what failed is tried again, and until networks that are unmarked are looked for again.
var (
	hostRetries = backoff.Backoff{First: 100 * time.Millisecond, Max: time.Minute}
	searches    = backoff.Backoff{First: time.Second, Max: netinst.CheckEvery}
)

// FindOwners asks for an OwnersFound after a while: the guard spares networks whose chains
// were made by a former release, until their managers have made them anew.
type FindOwners struct{ After time.Duration }

func (FindOwners) registryEffect() {}

// unmarked are the numbers of the networks that the guard spares.
func (r *Registry) unmarked() []int {
	var ns []int
	for _, id := range r.ids() {
		if m := r.members[id]; m.unmarked {
			ns = append(ns, m.number)
		}
	}
	return ns
}

// searchAgain looks for networks that still are unmarked: at once after an upgrade, and
// ever more seldom while one stays so, as one that no config claims.
func (r *Registry) searchAgain() []Effect {
	if len(r.unmarked()) == 0 || r.searching {
		return nil
	}
	r.searching = true
	r.search = searches.Next(r.search)
	return []Effect{FindOwners{r.search}}
}

// foundAgain takes from a later search which networks are unmarked still, and nothing else: it
// may be older than the end of a network, whose number another has by now.
func (r *Registry) foundAgain(os []netstate.Owner) []Effect {
	unmarked := map[string]bool{}
	for _, o := range os {
		unmarked[fmt.Sprint(o.Name, " ", o.Number)] = o.Unmarked
	}
	for id, m := range r.members {
		m.unmarked = m.unmarked && (unmarked[fmt.Sprint(id, " ", m.number)] || unmarked[fmt.Sprint(" ", m.number)])
	}
	r.dirty = true
	return r.next()
}

func compareUUIDs(a, b uuid.UUID) int { return cmp.Compare(a.String(), b.String()) }

func lowestFree(used map[int]bool) int {
	n := 1
	for used[n] {
		n++
	}
	return n
}
