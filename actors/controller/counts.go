package controller

import (
	"encoding/json"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/actors/controller/nodes"
	"edgespan/config/fleet"
	"edgespan/config/kv"
)

// recount takes the store's count of a node's generations in place of ours. What the watch
// told of later writes stays.
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
	r.reported, r.kind = false, "" // where its kind is being read, it comes back with that
	a.publishTouched(c, a.want(r), nil)
}

// countedAre takes over what other replicas counted, where that is more than was counted
// here. Every replica that had a node counts for it, and one may see configs that another
// skips because they were replaced while it read: both want the same in the end, and only one
// has its number in the store. Where the store's count is of another config, the replica that
// has the stream counts over it, and nobody else: two would go on for ever.
func (a *fleetActor) countedAre(c actor.Context, ids map[string]bool) {
	for id := range ids {
		r := a.nodes[id]
		if r == nil || !r.asked || !r.reported || a.fleet == nil {
			continue
		}
		own, is := a.fleet.Counted(r.name)
		var stored fleet.Counted
		e, has := a.counted[id]
		if !is || !has || json.Unmarshal(e.Value, &stored) != nil {
			continue
		}
		g := stored.Generation
		if g.Authority != own.Generation.Authority || g.Counter <= own.Generation.Counter {
			continue // ours is on its way there, and finds out
		}
		if stored.Digest == own.Digest || a.owns(a.owners[id]) {
			a.countAnew(c, id)
		}
	}
}

// owns says whether a node's stream is here, by the key of its owner.
func (a *fleetActor) owns(e kv.Entry) bool {
	var o nodes.Owner
	return json.Unmarshal(e.Value, &o) == nil && o.Replica == a.d.Replica && o.Began == a.d.Began.UnixNano()
}
