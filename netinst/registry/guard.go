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

// Handling of other programs, which flush chains, and of chains from a former release, which the guard (guard.go)
// spares.

// TouchNetworks requests an observation of networks: their objects that others changed depend on the host's chains,
// which were repaired first; or their subnet or type has changed, and with it the chains of host's that lead to them.
type TouchNetworks struct {
	Networks []int
	Full     bool // requested by an operator: everything is observed
}

func (TouchNetworks) registryEffect() {}

// hostChanged observes the host state, and then the networks. While an apply fails, the next one waits for its retry,
// regardless of further changes.
func (r *Registry) hostChanged(e HostChanged) []Effect {
	r.hold(e.Networks...)
	r.heldFull = r.heldFull || e.Full
	if len(r.members) == 0 || r.backoff > 0 || !r.found || !r.known || !r.ready {
		return r.touchHeld()
	}
	r.dirty = true
	return r.next()
}

// hold has networks touched once the host state is as desired.
func (r *Registry) hold(numbers ...int) {
	if r.held == nil {
		r.held = map[int]bool{}
	}
	for _, n := range numbers {
		r.held[n] = true
	}
}

// touchHeld touches the networks that waited, unless another apply is due before them.
func (r *Registry) touchHeld() []Effect {
	if len(r.held) == 0 || r.dirty && r.backoff == 0 && r.ready && r.known && r.found {
		return nil
	}
	touch := TouchNetworks{slices.Sorted(maps.Keys(r.held)), r.heldFull}
	clear(r.held)
	r.heldFull = false
	return []Effect{touch}
}

// The waiting times before a failed apply is retried, and before networks of a former release are searched again.
var (
	hostRetries = backoff.Backoff{First: 100 * time.Millisecond, Max: time.Minute}
	searches    = backoff.Backoff{First: time.Second, Max: netinst.CheckEvery}
)

// FindOwners asks for an OwnersFound after a while: the host state spares networks whose chains or table were written
// by a former release, until their managers have rewritten them.
type FindOwners struct{ After time.Duration }

func (FindOwners) registryEffect() {}

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

// scheduleSearch searches for networks that still have chains or a table of a former release: at once after an upgrade,
// then less and less often while one remains, such as one that no config claims.
func (r *Registry) scheduleSearch() []Effect {
	old := slices.ContainsFunc(slices.Collect(maps.Values(r.members)), func(m *member) bool { return m.oldFrames })
	if len(r.unmarked()) == 0 && !old || r.searching {
		return nil
	}
	r.searching = true
	r.search = searches.Next(r.search)
	return []Effect{FindOwners{r.search}}
}

// mergeSearch takes from a later search only what networks still have of a former release: the search may be older than
// the end of a network, whose number may belong to another by now.
func (r *Registry) mergeSearch(os []netstate.Owner) []Effect {
	found := map[string]netstate.Owner{}
	for _, o := range os {
		found[fmt.Sprint(o.Name, " ", o.Number)] = o
	}
	for id, m := range r.members {
		named, nameless := found[fmt.Sprint(id, " ", m.number)], found[fmt.Sprint(" ", m.number)]
		m.unmarked = m.unmarked && (named.Unmarked || nameless.Unmarked)
		m.oldFrames = m.oldFrames && (named.OldFrames || nameless.OldFrames)
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

// OrphanUUID names an orphan of which only the number is known.
func OrphanUUID(n int) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "edgespan orphan %d", n))
}
