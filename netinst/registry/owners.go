package registry

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/pubsub/backoff"
)

// The events of a search for networks on the host.
type (
	// OwnersFound carries the network instances that have objects on the host.
	OwnersFound struct{ Owners []netstate.Owner }
	// OwnersUnread reports that the host could not be read.
	OwnersUnread struct{ Error string }
)

func (OwnersFound) registryEvent()  {}
func (OwnersUnread) registryEvent() {}

// FindOwners asks for an OwnersFound or OwnersUnread after a while. Before the first OwnersFound, no network starts:
// what is on the host may be its own. Later, the host state spares networks whose chains or table were written by a
// former release, until their managers have rewritten them.
type FindOwners struct{ After time.Duration }

func (FindOwners) registryEffect() {}

// searches are the delays before the host is searched again.
var searches = backoff.Backoff{First: time.Second, Max: netinst.CheckEvery}

// adoptOwners takes over the networks found on the host. The alias wins over the journal; a number of an unknown owner
// is managed as an orphan under a UUID derived from it.
func (r *Registry) adoptOwners(os []netstate.Owner) []Effect {
	r.searching = false
	if r.found {
		return r.mergeSearch(os)
	}
	var out []Effect
	if r.search > 0 { // the host could not be read before
		out = append(out, HostProblem{})
	}
	r.found, r.search = true, 0
	for _, o := range os {
		id, err := uuid.Parse(o.Name)
		if err != nil {
			id = OrphanUUID(o.Number)
			for j, n := range r.journal {
				if n == o.Number {
					id = j
				}
			}
		}
		m := r.members[id]
		switch {
		case m == nil:
			m = &member{}
			r.members[id] = m
		case m.number != 0 && m.number != o.Number: // two networks claim one uuid
			id = OrphanUUID(o.Number)
			m = &member{}
			r.members[id] = m
		}
		m.number, m.unmarked, m.oldFrames = o.Number, o.Unmarked, o.OldFrames
		out = append(out, r.recordNumber(id, o.Number)...)
		if !m.spawned { // the host state has included it since it was created
			m.spawned = true
			out = append(out, SpawnManager{netstate.Owner{Name: id.String(), Number: o.Number}})
		}
	}
	for _, id := range r.ids() {
		out = append(out, r.assignNumber(id)...)
	}
	r.dirty = true
	return append(out, r.next()...)
}

// scheduleSearch searches for networks that still have chains or a table of a former release: at once after an upgrade,
// then less and less often while one remains, such as one that no config claims.
func (r *Registry) scheduleSearch() []Effect {
	old := slices.ContainsFunc(slices.Collect(maps.Values(r.members)), func(m *member) bool { return m.oldFrames })
	if len(r.unmarked()) == 0 && !old || r.searching {
		return nil
	}
	return r.searchAgain()
}

func (r *Registry) searchAgain() []Effect {
	r.searching = true
	r.search = searches.Next(r.search)
	return []Effect{FindOwners{r.search}}
}

// ownersUnread searches again. A host that is busy for a while is no reason to crash: who makes and deletes links all
// the time interrupts each listing of them.
func (r *Registry) ownersUnread(why string) []Effect {
	out := r.searchAgain()
	if !r.found {
		out = append(out, HostProblem{why})
	}
	return out
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

// OrphanUUID names an orphan of which only the number is known.
func OrphanUUID(n int) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "edgespan orphan %d", n))
}
