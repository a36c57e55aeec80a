package controller

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/controller/nodes"
	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// queueListing queues a listing of all keys: known keys that it lacks become deletions.
func (a *fleetActor) queueListing(l storage.Listing) {
	c := kv.Batch{Revision: l.At, Events: l.Events}
	if l.Head.Exists() {
		c.Events = append(c.Events, kv.Event{Kind: kv.EventPut, Entry: l.Head})
	}
	gone := func(k kv.Key) {
		if !l.Has[k] {
			c.Events = append(c.Events, kv.Event{Kind: kv.EventDelete, Entry: kv.Entry{Key: k, ModRevision: l.At}})
		}
	}
	for id := range a.members {
		gone(history.NodeKey(id))
	}
	for name := range a.tokens {
		gone(history.TokenKey(name))
	}
	for id := range a.revoked {
		gone(history.RevokedKey(id))
	}
	for id := range a.counted {
		gone(history.GenerationKey(id))
	}
	for id := range a.owners {
		gone(history.OwnerKey(id))
	}
	for id := range a.peers.underlays {
		gone(history.UnderlayKey(id))
	}
	for board := range a.learnt {
		gone(history.AcceptedKey(board))
	}
	for id := range a.proposals {
		gone(history.ProposedKey(id))
	}
	for id := range a.bisects {
		gone(history.BisectKey(id))
	}
	for k := range a.operators {
		gone(k)
	}
	a.forMissingRolloutKeys(gone)
	a.queue, a.upTo = []kv.Batch{c}, 0 // it covers all earlier batches
}

// event applies the event of one key.
func (a *fleetActor) event(c actor.Context, e kv.Event, n *changes) {
	k, put := e.Entry.Key, e.Kind == kv.EventPut
	names := history.KeyTexts(k)
	if len(names) == 0 {
		return
	}
	id := names[0]
	a.storeRolloutKey(c, e, id)
	switch {
	case history.InNodes.Has(k):
		a.setMember(e, id, n)
	case history.InTokens.Has(k):
		setValue(a, e, a.tokens, id)
		a.d.joinTokens.event(e, id)
		n.names[id] = true
	case history.InRevoked.Has(k):
		setValue(a, e, a.revoked, id)
		n.revoked = true
		n.names[a.members[id].Name] = true
	case history.InGenerations.Has(k):
		setEntry(e, a.counted, id)
		n.counted[id] = true
	case history.InOwners.Has(k):
		setEntry(e, a.owners, id)
		n.counted[id] = true // the owner counts the generations
		if r := a.nodes[id]; r != nil {
			c.Send(r.pid, nodes.OwnerChanged{Entry: e.Entry})
		}
	case history.InPushes.Has(k):
		if r := a.nodes[id]; r != nil && put {
			c.Send(r.pid, nodes.MemoryChanged{Entry: e.Entry})
		}
	case history.InOutboxes.Has(k) && id == storage.LeaderOutbox:
		a.d.writes.DeliverAnswer(e)
		c.Send(a.d.leader, storage.OutboxEvent{Event: e})
	case history.InOutboxes.Has(k):
		if put {
			a.handleRemoteCommand(c, e.Entry, id)
		}
	case storage.IsPreview(k):
		if put {
			a.requestPreviews(e.Entry)
		}
	case history.InBisects.Has(k):
		a.setBisect(c, e, id)
	case history.InUnderlays.Has(k):
		a.setUnderlay(e, id)
	case history.InAccepted.Has(k):
		a.setAccepted(e, id)
		n.learnt = true
	case history.InProposed.Has(k):
		a.setProposed(e, id)
	case history.InOperators.Has(k):
		if a.d.operators.event(e, id); put {
			a.operators[k] = true
		} else {
			delete(a.operators, k)
		}
	}
}

// setEntry stores or deletes one entry.
func setEntry(e kv.Event, in map[string]kv.Entry, id string) {
	if e.Kind == kv.EventPut {
		in[id] = e.Entry
	} else {
		delete(in, id)
	}
}

// setValue stores or deletes one decoded value. It logs an unreadable value and keeps the previous one.
func setValue[V any](a *fleetActor, e kv.Event, in map[string]V, id string) {
	if e.Kind != kv.EventPut {
		delete(in, id)
		return
	}
	var v V
	if err := json.Unmarshal(e.Entry.Value, &v); err != nil {
		a.d.Log.Error("read a key of the store", zap.String("key", string(e.Entry.Key)), zap.Error(err))
		return
	}
	in[id] = v
}

// setMember records a node that joined, was renamed or was forgotten.
func (a *fleetActor) setMember(e kv.Event, id string, n *changes) {
	was, wasMember := a.members[id]
	setValue(a, e, a.members, id)
	current, isMember := a.members[id]
	if wasMember != isMember || was.Name != current.Name {
		a.markClusterMembers(was.Name)
		a.markClusterMembers(current.Name)
	}
	if wasMember && (!isMember || was.Name != current.Name) {
		n.names[was.Name] = true
		if a.ids[was.Name] == id {
			delete(a.ids, was.Name)
		}
	}
	if isMember {
		a.ids[current.Name] = id
		n.names[current.Name], n.layers[current.Name] = true, true
	}
}

// syncNodes updates the known nodes, their actors and the fleet from the keys.
func (a *fleetActor) syncNodes(c actor.Context, n *changes) {
	if !n.all && len(n.names) == 0 {
		return
	}
	var renamed []string
	for id, r := range a.nodes {
		m, ok := a.members[id]
		if !n.names[r.name] && !n.names[m.Name] && !n.all {
			continue
		}
		if !ok {
			a.leave(c, id, r)
		} else if r.name != m.Name {
			a.fleet.Remove(r.name)
			r.name, r.reported = m.Name, false
			renamed = append(renamed, id)
		}
	}
	a.renameTrials(c, renamed)
	names := maps.Clone(n.names)
	if n.all {
		names = a.allNames()
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a.setKnown(c, name)
	}
}

func (a *fleetActor) allNames() map[string]bool {
	names := maps.Clone(a.topology)
	for name := range a.ids {
		names[name] = true
	}
	for name := range a.tokens {
		names[name] = true
	}
	for _, s := range a.d.dir.handles() {
		name, _ := s.Names()
		names[name] = true
	}
	return names
}

// leave stops the actor of a node that is no longer a member.
func (a *fleetActor) leave(c actor.Context, id string, r *record) {
	if a.fleet != nil {
		a.fleet.Remove(r.name)
	}
	delete(a.nodes, id)
	a.stopping[id] = true
	a.d.dir.leave(id)
	c.Stop(r.pid)
}

// setKnown records from where a node is known, tells its actor, and spawns the actor of a node that has joined.
func (a *fleetActor) setKnown(c actor.Context, name string) {
	id, joined := a.ids[name]
	out, revoked := a.revoked[id]
	k := fleet.Known{Topology: a.topology[name], Joined: joined && (!revoked || out.Joining != "")}
	if t, ok := a.tokens[name]; ok && t.Used == nil {
		k.Token = t.Expires
	}
	a.d.dir.setKnown(name, id, k)
	if !joined {
		return
	}
	r := a.nodes[id]
	if r == nil && !a.stopping[id] {
		r = a.spawn(c, id)
	}
	if now := (nodes.Known{Known: k, Name: name}); r != nil && r.known != now {
		r.known = now
		c.Send(r.pid, now)
	}
}

// publishRevoked applies the list of revocations.
func (a *fleetActor) publishRevoked() {
	list := make([]Revocation, 0, len(a.revoked))
	for _, r := range a.revoked {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Revocation) int { return cmp.Compare(a.Node, b.Node) })
	if err := a.d.Issuer.Revoke(list); err != nil {
		a.d.Log.Error("apply the revocations", zap.Error(err))
	}
}
