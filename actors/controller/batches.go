package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/history"
	"edgespan/config/revision"
	"edgespan/config/topology"
)

// proceed takes what the store has told. What was written together is taken together: a
// rename moves layers and the name of a node, and no node may see one without the other. So
// the changes wait while the layers of a revision are read, and those that came meanwhile are
// read as one.
func (a *fleetActor) proceed(c actor.Context) {
	for !a.reading && len(a.queue) > 0 && a.library != nil {
		number, last := uint64(0), -1
		for i, m := range a.queue {
			for _, e := range m.events {
				if e.Entry.Key == history.HeadKey() && e.Kind == revision.EventPut {
					number, last = headNumber(e.Entry), i
				}
			}
		}
		if last < 0 && a.began {
			a.upTo = len(a.queue)
			a.take(c, headRead{state: a.state})
			continue
		}
		a.reading, a.upTo = true, max(last, 0)+1
		from, began := a.state, a.began
		a.d.leaf("layers", func() {
			m := a.d.readHead(number, from, began)
			a.d.system.Root.Send(a.self, m)
		})
	}
}

func headNumber(e revision.Entry) uint64 {
	var head struct{ Revision uint64 }
	if json.Unmarshal(e.Value, &head) != nil {
		return 0
	}
	return head.Revision
}

// readHead is the leaf that reads the layers as of a revision: all of them at first, later
// what changed.
func (d *deps) readHead(number uint64, from history.State, began bool) (m headRead) {
	r := reader{d.ctx, d.Store}
	if m.state, m.err = history.At(r, number); m.err != nil {
		return m
	}
	if number > 0 {
		if m.record, m.err = history.ReadRecord(r, number); m.err != nil {
			return m
		}
	}
	if !began {
		if m.all, m.err = m.state.All(); m.err == nil {
			m.peers, m.err = d.peersOf(m.state)
		}
		return m
	}
	if m.diffs, m.err = history.Diff(from, m.state); m.err != nil {
		if _, err := history.At(r, from.Number); errors.As(err, new(*history.NoRevisionError)) {
			d.fail(fmt.Errorf("read the layers: this replica was away while the history was pruned: %w", err)) // it begins anew
		}
		return m
	}
	m.own, m.err = d.ownChange(from, m)
	if m.err == nil && slices.ContainsFunc(m.diffs, ofPeers) {
		m.peers, m.err = d.peersOf(m.state)
	}
	return m
}

// headIs takes the layers of a revision, and the changes that waited for them.
func (a *fleetActor) headIs(c actor.Context, m headRead) {
	if m.err != nil {
		a.d.Log.Error("read the layers", zap.Error(m.err))
		a.d.after(storeBackoff, func() { a.d.system.Root.Send(a.self, again{}) })
		return
	}
	a.reading = false
	a.take(c, m)
}

// again says that reading is to be tried again.
type again struct{}

// take makes the queued changes that belong to a state of the layers the fleet's.
func (a *fleetActor) take(c actor.Context, m headRead) {
	touched := map[string]fleet.Touched{}
	gather := func(more []fleet.Touched, err error) {
		if err != nil {
			a.d.fail(fmt.Errorf("count what the nodes want: %w", err))
		}
		for _, t := range more {
			touched[t.Node] = t
		}
	}
	first := !a.began
	news := news{names: map[string]bool{}, layers: map[string]bool{}, counted: map[string]bool{}, all: first}
	a.layersAre(c, m, &news)
	batch := a.queue[:a.upTo]
	a.queue, a.upTo = a.queue[a.upTo:], 0
	for _, changes := range batch {
		for _, e := range changes.events {
			a.event(c, e, &news)
		}
	}
	if first {
		a.makeFleet()
	} else if news.network {
		gather(a.fleet.SetNetwork(a.network))
	}
	a.settle(c, &news)
	if a.fleet != nil {
		gather(a.rederive())
	}
	for _, name := range slices.Sorted(maps.Keys(news.layers)) {
		if r := a.nodes[a.ids[name]]; r != nil && r.asked {
			maps.Copy(touched, a.want(r))
		}
	}
	if news.learnt {
		maps.Copy(touched, a.setHardware())
	}
	if news.revoked {
		a.revokedAre()
	}
	by := &m.record
	if first || m.record.Number == 0 {
		by = nil
	}
	a.tell(c, touched, by)
	a.countedAre(c, news.counted)
	a.admit()
	a.d.dir.ready.Store(true)
	a.d.dir.seen.to(m.state.Number)
	a.follow(m, first)
	a.tellRollout(c, m, first)
}

// news is what changes of the store are about.
type news struct {
	all, network, learnt, revoked bool
	names                         map[string]bool // where they are known from may be another place
	layers                        map[string]bool // names whose own layers, or whose node, are others
	counted                       map[string]bool // ids whose generations another replica may have counted
}

// makeFleet begins with what the store had.
func (a *fleetActor) makeFleet() {
	f, err := fleet.NewFleet(a.d.Store.ID(), fleet.Hardware{Library: *a.library}, a.network)
	if err != nil {
		a.d.fail(err)
		return
	}
	a.fleet = f
	f.SetPeers(a.goesWith)
	a.setHardware()
}

// layersAre takes over the layers that are new.
func (a *fleetActor) layersAre(c actor.Context, m headRead, n *news) {
	if !a.began {
		a.flagsAre(c, nil) // those of the process
	}
	for _, v := range m.all {
		a.layerIs(c, v.Layer, v.Document, n)
	}
	for _, d := range m.diffs {
		a.layerIs(c, d.Layer, d.After.Document, n)
	}
	a.peersAre(m.peers)
	a.state, a.began = m.state, true
}

func (a *fleetActor) layerIs(c actor.Context, l history.Layer, doc config.Object, n *news) {
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
		a.topologyIs(doc)
		n.all = true
	case history.E2E:
		if l.Name == ownFile {
			a.flagsAre(c, doc)
		}
	default:
	}
}

// topologyIs takes over which nodes a topology has. One that can't be read has those of
// before: nobody becomes a stranger by a typing error.
func (a *fleetActor) topologyIs(doc config.Object) {
	if doc == nil {
		a.topology, a.gates.topology = map[string]bool{}, nil
		return
	}
	t, faults := topology.FromDocument(doc)
	if faults != nil {
		a.d.Log.Error("read the topology", zap.Error(faults))
		return
	}
	a.topology, a.gates.topology = map[string]bool{}, t
	for _, n := range t.Nodes {
		a.topology[n.Name] = true
	}
}
