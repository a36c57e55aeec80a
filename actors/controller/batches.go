package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/topology"
	"edgespan/config/kv"
)

// applyQueued applies queued changes of the store. Keys that were written together are applied together: a rename moves
// a node's layers and its name, and no node may see one without the other. So changes wait while the layers of a
// revision are read, and those that arrive meanwhile are read as one.
func (a *fleetActor) applyQueued(c actor.Context) {
	for !a.reading && len(a.queue) > 0 && a.library != nil {
		number, last := uint64(0), -1
		for i, m := range a.queue {
			for _, e := range m.Events {
				if e.Entry.Key == history.HeadKey() && e.Kind == kv.EventPut {
					number, last = headNumber(e.Entry), i
				}
			}
		}
		if last < 0 && a.began {
			a.upTo = len(a.queue)
			a.applyHead(c, headRead{state: a.state})
			continue
		}
		a.reading, a.upTo = true, max(last, 0)+1
		from, began, damaged := a.state, a.began, slices.Collect(maps.Keys(a.damaged))
		a.d.Leaf("layers", func() {
			m := a.d.readHead(number, from, began, damaged)
			a.d.Send(a.self, m)
		})
	}
}

func headNumber(e kv.Entry) uint64 {
	var head struct{ Revision uint64 }
	if json.Unmarshal(e.Value, &head) != nil {
		return 0
	}
	return head.Revision
}

// readHead is the leaf that reads the layers as of a revision: all of them the first time, later what changed.
//
// A damaged layer comes without a document and holds up only its own nodes; layers that were damaged are read again
// each time.
func (d *deps) readHead(number uint64, from history.State, began bool, damaged []history.Layer) (m headRead) {
	r := d.Reader(d.Context)
	if m.state, m.err = history.At(r, number); m.err != nil {
		return m
	}
	if number > 0 {
		if m.record, m.err = history.ReadRecord(r, number); m.err != nil {
			return m
		}
	}
	if !began {
		if m.all, m.err = m.state.WithDamaged().AllLayers(); m.err == nil {
			m.peers, m.err = d.peersOrDamaged(m.state)
		}
		return m
	}
	if len(damaged) > 0 {
		if m.all, m.err = m.state.WithDamaged().Layers(damaged...); m.err != nil {
			return m
		}
	}
	if m.diffs, m.err = history.Diff(from, m.state.WithDamaged()); m.err != nil {
		if _, err := history.At(r, from.Number); errors.As(err, new(*history.NoRevisionError)) {
			d.Fail(fmt.Errorf("read the layers: the history was pruned while this replica was disconnected: %w", err))
		}
		return m
	}
	if m.own, m.err = d.ownChange(from, m); errors.As(m.err, new(*history.DamagedError)) ||
		errors.As(m.err, new(*ops.Refused)) {
		d.Log.Error("read the controller's own config: keeping the current settings", zap.Error(m.err))
		m.err = nil
	}
	if m.err == nil && (slices.ContainsFunc(m.diffs, isPeerDiff) || slices.ContainsFunc(damaged, isPeerLayer)) {
		m.peers, m.err = d.peersOrDamaged(m.state)
	}
	return m
}

// handleHead stores the layers of a revision and applies the changes that waited for them.
func (a *fleetActor) handleHead(c actor.Context, m headRead) {
	if m.err != nil {
		a.d.Log.Error("read the layers", zap.Error(m.err))
		a.d.After(storage.StoreBackoff, func() { a.d.Send(a.self, applyAgain{}) })
		return
	}
	a.reading = false
	a.applyHead(c, m)
}

// applyAgain retries a failed read of the layers.
type applyAgain struct{}

// applyHead applies the queued changes that belong to a state of the layers.
func (a *fleetActor) applyHead(c actor.Context, m headRead) {
	touched := map[string]fleet.Touched{}
	first := !a.began
	pending := changes{names: map[string]bool{}, layers: map[string]bool{}, counted: map[string]bool{}, all: first,
		first: first}
	a.applyLayers(c, m, &pending)
	batch := a.queue[:a.upTo]
	a.queue, a.upTo = a.queue[a.upTo:], 0
	for _, changes := range batch {
		for _, e := range changes.Events {
			a.event(c, e, &pending)
		}
	}
	for _, p := range fleet.Phases(first, pending.network, pending.learnt, pending.revoked) {
		a.runPhase(c, p, m, &pending, touched)
	}
}

// runPhase runs one phase; fleet.Phases decides their order. Touched collects what nodes are sent.
func (a *fleetActor) runPhase(c actor.Context, p fleet.Phase, m headRead, n *changes,
	touched map[string]fleet.Touched) {
	gather := func(more []fleet.Touched, err error) {
		if err != nil {
			a.d.Fail(fmt.Errorf("number the nodes' desired configs: %w", err))
		}
		for _, t := range more {
			touched[t.Node] = t
		}
	}
	switch p {
	case fleet.PhaseBegin:
		a.makeFleet()
	case fleet.PhaseNetwork:
		gather(a.fleet.SetNetwork(a.network))
	case fleet.PhaseMembers:
		a.syncNodes(c, n)
	case fleet.PhasePeers:
		if a.fleet != nil {
			gather(a.recomputeDirty())
		}
	case fleet.PhaseLayers:
		for _, name := range slices.Sorted(maps.Keys(n.layers)) {
			if r := a.nodes[a.ids[name]]; r != nil && r.asked {
				maps.Copy(touched, a.computeDesired(r))
			}
		}
	case fleet.PhaseBoards:
		maps.Copy(touched, a.setHardware())
	case fleet.PhaseRevocations:
		a.publishRevoked()
	case fleet.PhasePublish:
		by := &m.record
		if n.first || m.record.Number == 0 {
			by = nil
		}
		a.publishTouched(c, touched, by)
	case fleet.PhaseCounts:
		a.mergeCounts(c, n.counted)
	case fleet.PhaseAdmit:
		a.admit()
	case fleet.PhaseServe:
		a.d.dir.ready.Store(true)
		a.d.dir.seen.to(m.state.Number)
	case fleet.PhaseConsequences:
		a.follow(m, n.first)
	case fleet.PhaseRollouts:
		a.notifyRollout(c, m, n.first)
	}
}

// changes is what changed in the store.
type changes struct {
	first                         bool // the first that this replica applies
	all, network, learnt, revoked bool
	names                         map[string]bool // nodes whose nodes.Known may have changed
	layers                        map[string]bool // nodes whose own layers or id changed
	counted                       map[string]bool // ids whose generations another replica may have counted
}

// makeFleet creates the fleet from the state of the store.
func (a *fleetActor) makeFleet() {
	f, err := fleet.NewFleet(a.d.Store.ID(), fleet.Hardware{Library: *a.library}, a.network)
	if err != nil {
		a.d.Fail(err)
		return
	}
	a.fleet = f
	f.SetPeers(a.peerConfigurationOf)
	a.setHardware()
}

// applyLayers applies new layers.
func (a *fleetActor) applyLayers(c actor.Context, m headRead, n *changes) {
	if !a.began {
		a.applyFlags(c, nil) // the flags of this process
	}
	for _, v := range m.all {
		a.applyLayer(c, v, n)
	}
	for _, d := range m.diffs {
		a.applyLayer(c, d.After, n)
	}
	if m.peers != nil && !a.peers.read {
		a.peers.read = true
		n.noteDamage(history.Layer{Kind: history.Network}, a.ids) // nodes may wait for the peers
	}
	a.setPeers(m.peers)
	a.state, a.began = m.state, true
}

// applyLayer applies a layer. A damaged layer leaves its last good document in place, and its nodes get no new config
// until it is repaired.
func (a *fleetActor) applyLayer(c actor.Context, v history.Version, n *changes) {
	l, doc := v.Layer, v.Document
	was := a.damaged[l]
	if v.Damaged != nil {
		if was == nil {
			a.d.Log.Error("damaged layer in the store: its nodes get no new config", zap.Error(v.Damaged))
		}
		a.damaged[l] = v.Damaged
		n.noteDamage(l, a.ids)
		return
	}
	if was != nil {
		delete(a.damaged, l)
		n.noteDamage(l, a.ids)
	}
	put := func(in map[string]config.Object) {
		if n.layers[l.Name] = true; doc == nil {
			delete(in, l.Name)
		} else {
			in[l.Name] = doc
		}
	}
	switch l.Kind {
	case history.Network:
		a.network, n.network = doc, true
	case history.Node:
		put(a.own)
	case history.Auto:
		put(a.auto)
	case history.Topology:
		a.setTopology(doc)
		n.all = true
	case history.E2E:
		if l.Name == ownFile {
			a.applyFlags(c, doc)
		}
	default:
	}
}

// noteDamage marks the nodes of a layer that was damaged or repaired.
func (n *changes) noteDamage(l history.Layer, ids map[string]string) {
	switch l.Kind {
	case history.Node, history.Auto:
		n.layers[l.Name] = true
	case history.Network:
		for name := range ids {
			n.layers[name] = true
		}
	default:
	}
}

// damageOf returns the first damage among the layers of a node's config.
func (a *fleetActor) damageOf(name string) error {
	for _, l := range []history.Layer{{Kind: history.Network}, {Kind: history.Auto, Name: name},
		{Kind: history.Node, Name: name}} {
		if bad := a.damaged[l]; bad != nil {
			return bad
		}
	}
	if !a.peers.read { // without its tunnels a node would remove them
		for l, bad := range a.damaged {
			if isPeerLayer(l) {
				return bad
			}
		}
	}
	return nil
}

// setTopology stores the nodes of a topology. An unreadable topology changes nothing, so that a typing error makes no
// node unknown.
func (a *fleetActor) setTopology(doc config.Object) {
	if doc == nil {
		a.topology, a.admissions.topology = map[string]bool{}, nil
		return
	}
	t, faults := topology.FromDocument(doc)
	if faults != nil {
		a.d.Log.Error("read the topology", zap.Error(faults))
		return
	}
	a.topology, a.admissions.topology = map[string]bool{}, t
	for _, n := range t.Nodes {
		a.topology[n.Name] = true
	}
}
