package controller

import (
	"encoding/json"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/actors/controller/nodes"
	"edgespan/config/fleet"
	"edgespan/config/kv"
)

// recount replaces this replica's count of a node's generations with the store's, unless the watch has already
// delivered a later one.
func (a *fleetActor) recount(c actor.Context, m nodes.Recount) {
	if !m.Now.Exists() || m.Now.ModRevision > a.counted[m.ID].ModRevision {
		a.counted[m.ID] = m.Now
	}
	a.countAnew(c, m.ID)
}

func (a *fleetActor) countAnew(c actor.Context, id string) {
	r := a.nodes[id]
	if r == nil {
		return
	}
	a.fleet.Remove(r.name)
	r.reported, r.kind = false, "" // if its kind is being read, setKind computes its config again
	a.publishTouched(c, a.computeDesired(r), nil)
}

// mergeCounts adopts generations that other replicas counted, where they are ahead of this replica's. Every replica
// that has had a node counts for it, and one may see configs that another skips because they were replaced while it
// read. Both compute the same config in the end, but only one has its number in the store. If the store's count is of
// another config, only the replica that has the stream counts over it: two replicas would alternate forever.
func (a *fleetActor) mergeCounts(c actor.Context, ids map[string]bool) {
	for id := range ids {
		r := a.nodes[id]
		if r == nil || !r.asked || !r.reported || a.fleet == nil {
			continue
		}
		own, ok := a.fleet.Counted(r.name)
		var stored fleet.Counted
		e, has := a.counted[id]
		if !ok || !has || json.Unmarshal(e.Value, &stored) != nil {
			continue
		}
		g := stored.Generation
		if g.Authority != own.Generation.Authority || g.Counter <= own.Generation.Counter {
			continue // this replica's write is under way, and detects the conflict
		}
		if stored.Digest == own.Digest || a.isOwner(a.owners[id]) {
			a.countAnew(c, id)
		}
	}
}

// isOwner reports whether this replica has a node's stream, by the node's owner key.
func (a *fleetActor) isOwner(e kv.Entry) bool {
	var o nodes.Owner
	return json.Unmarshal(e.Value, &o) == nil && o.Replica == a.d.Replica && o.Began == a.d.Began.UnixNano()
}
