package controller

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/underlay"
	"edgespan/config/kv"
	"edgespan/config/layers"
	"edgespan/config/stateloop/peer"
)

// peering is what the fleet goes by of peers and clusters: every replica derives the same from
// it. Nodes that are in neither cost two look-ups.
type peering struct {
	fleet     *peer.Fleet
	read      bool                // fleet is what the store says
	underlays map[string]kv.Entry // by id of the node
	ports     map[string]map[string]peer.Port
	made      map[string]madeFor // by name: what nodes have now
	dirty     map[string]bool    // names whose configuration may be another
}

// madeFor is a node's PeerConfiguration, and what it was made for.
type madeFor struct {
	md5, digest string
	with        *peer.Configuration
}

func newPeering() peering {
	return peering{
		fleet: peer.NewFleet(nil, nil, nil), underlays: map[string]kv.Entry{}, ports: map[string]map[string]peer.Port{},
		made: map[string]madeFor{}, dirty: map[string]bool{},
	}
}

// peersOf reads the descriptors of a state of the layers. Those with faults are told and left out.
func (d *deps) peersOf(s history.State) (*peer.Fleet, error) {
	f, err := (&ops.World{State: s}).Peers()
	var faults config.Faults
	if errors.As(err, &faults) {
		d.Log.Error("read the descriptors of peers and clusters", zap.Error(faults))
		return f, nil
	}
	return f, err
}

// peersAnyway is peersOf that leaves what was read before as it is where one is damaged in the store: nil.
func (d *deps) peersAnyway(s history.State) (*peer.Fleet, error) {
	f, err := d.peersOf(s)
	if errors.As(err, new(*ops.Refused)) {
		d.Log.Error("read the descriptors of peers and clusters: keeping the previous ones", zap.Error(err))
		return nil, nil
	}
	return f, err
}

// ofPeers says whether a layer is one of peers and clusters.
func ofPeers(d history.LayerDiff) bool {
	return isOfPeers(d.Layer)
}

func isOfPeers(l history.Layer) bool {
	return l.Kind == history.Peer || l.Kind == history.Cluster || l.Kind == history.Deployment
}

// peersAre takes over other descriptors.
func (a *fleetActor) peersAre(f *peer.Fleet) {
	if f == nil {
		return
	}
	for _, name := range peer.Touched(a.peers.fleet, f) {
		a.peers.dirty[name] = true
	}
	a.peers.fleet = f
	a.d.dir.peers.Store(f)
	a.d.dir.marks.Changes.Notify()
}

// around marks those that have a tunnel to a node, and the node.
func (a *fleetActor) around(name string) {
	for _, cluster := range a.peers.fleet.ClustersOf(name) {
		for member := range a.peers.fleet.Clusters[cluster].Members {
			a.peers.dirty[member] = true
		}
	}
}

// underlayIs takes over the ports that a node has.
func (a *fleetActor) underlayIs(e kv.Event, id string) {
	setEntry(e, a.peers.underlays, id)
	delete(a.peers.ports, id)
	if text, is := a.peers.underlays[id]; is {
		var u underlay.Ports
		if err := json.Unmarshal(text.Value, &u); err != nil {
			a.d.Log.Error("read a key of the store", zap.String("key", string(e.Entry.Key)), zap.Error(err))
		}
		a.peers.ports[id] = u.ByLabel()
	}
	a.underlayHandle(id)
	a.around(a.members[id].Name)
}

// underlayHandle lets the node's actor see what the store has of its ports.
func (a *fleetActor) underlayHandle(id string) {
	if s := a.d.dir.node(id); s != nil {
		text := string(a.peers.underlays[id].Value)
		s.Keeps(text)
	}
}

// place is what is known of a node by its name.
func (a *fleetActor) place(name string) peer.Node {
	id, joined := a.ids[name]
	if !joined {
		return peer.Node{}
	}
	parsed, err := uuid.Parse(id)
	if err != nil {
		return peer.Node{} // it has no part in any cluster
	}
	return peer.Node{ID: parsed, Ports: a.peers.ports[id]}
}

// goesWith is the PeerConfiguration of a node: fleet.Peers.
func (a *fleetActor) goesWith(name string, set layers.Set, md5 string) (*peer.Configuration, string) {
	f := a.peers.fleet
	_, described := f.Peers[name]
	clusters := f.ClustersOf(name)
	if !described && len(clusters) == 0 {
		delete(a.peers.made, name)
		return nil, ""
	}
	nodes := map[string]peer.Node{name: a.place(name)}
	for _, cluster := range clusters {
		for member := range f.Clusters[cluster].Members {
			nodes[member] = a.place(member)
		}
	}
	with := peer.Derive(peer.Input{Name: name, Nodes: nodes, Fleet: f, Declared: a.d.nodes.Declared(md5, set)})
	digest := with.Digest()
	if was, is := a.peers.made[name]; is && was.md5 == md5 && was.digest == digest {
		return was.with, digest
	}
	a.peers.made[name] = madeFor{md5, digest, &with}
	return &with, digest
}

// rederive looks at the nodes again whose PeerConfiguration may be another, and at nobody else.
func (a *fleetActor) rederive() ([]fleet.Touched, error) {
	if len(a.peers.dirty) == 0 {
		return nil, nil
	}
	names := slices.Sorted(maps.Keys(a.peers.dirty))
	clear(a.peers.dirty)
	return a.fleet.Touch(names...)
}
