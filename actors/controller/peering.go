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

// peering is what the fleet knows of peers and clusters; every replica derives the same configurations from it. A node
// in neither costs two lookups.
type peering struct {
	fleet     *peer.Inventory
	read      bool                // fleet was read from the store
	underlays map[string]kv.Entry // by node id
	ports     map[string]map[string]peer.Port
	made      map[string]madeFor // by name; what nodes have now
	dirty     map[string]bool    // names whose configuration may have changed
}

// madeFor is a node's PeerConfiguration and the input it was derived from.
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

// peersOf reads the descriptors of a state of the layers. It logs and omits those with faults.
func (d *deps) peersOf(s history.State) (*peer.Inventory, error) {
	f, err := (&ops.Snapshot{State: s}).Peers()
	var faults config.Faults
	if errors.As(err, &faults) {
		d.Log.Error("read the descriptors of peers and clusters", zap.Error(faults))
		return f, nil
	}
	return f, err
}

// peersOrDamaged is peersOf, but returns nil, to keep the previous descriptors, if one is damaged in the store.
func (d *deps) peersOrDamaged(s history.State) (*peer.Inventory, error) {
	f, err := d.peersOf(s)
	if errors.As(err, new(*ops.Refused)) {
		d.Log.Error("read the descriptors of peers and clusters: keeping the previous ones", zap.Error(err))
		return nil, nil
	}
	return f, err
}

// isPeerDiff reports whether a diff is of a layer of peers or clusters.
func isPeerDiff(d history.LayerDiff) bool {
	return isPeerLayer(d.Layer)
}

func isPeerLayer(l history.Layer) bool {
	return l.Kind == history.Peer || l.Kind == history.Cluster || l.Kind == history.Deployment
}

// setPeers stores new descriptors.
func (a *fleetActor) setPeers(f *peer.Inventory) {
	if f == nil {
		return
	}
	for _, name := range peer.ChangedNodes(a.peers.fleet, f) {
		a.peers.dirty[name] = true
	}
	a.peers.fleet = f
	a.d.dir.peers.Store(f)
	a.d.dir.marks.Changes.Notify()
}

// markClusterMembers marks all members of a node's clusters as dirty, the node included.
func (a *fleetActor) markClusterMembers(name string) {
	for _, cluster := range a.peers.fleet.ClustersOf(name) {
		for member := range a.peers.fleet.Clusters[cluster].Members {
			a.peers.dirty[member] = true
		}
	}
}

// setUnderlay stores the ports that a node reports.
func (a *fleetActor) setUnderlay(e kv.Event, id string) {
	setEntry(e, a.peers.underlays, id)
	delete(a.peers.ports, id)
	text, ok := a.peers.underlays[id]
	var u underlay.Ports
	if ok {
		if err := json.Unmarshal(text.Value, &u); err != nil {
			a.d.Log.Error("read a key of the store", zap.String("key", string(e.Entry.Key)), zap.Error(err))
		}
		a.peers.ports[id] = u.ByLabel()
	}
	a.d.dir.marks.SetKeys(id, u.Keys(), ok)
	a.passUnderlay(id)
	a.markClusterMembers(a.members[id].Name)
}

// passUnderlay passes the stored ports of a node to its handle.
func (a *fleetActor) passUnderlay(id string) {
	if s := a.d.dir.node(id); s != nil {
		text := string(a.peers.underlays[id].Value)
		s.SetUnderlay(text)
	}
}

// peerNode returns the id and ports of a node, by name.
func (a *fleetActor) peerNode(name string) peer.Node {
	id, joined := a.ids[name]
	if !joined {
		return peer.Node{}
	}
	parsed, err := uuid.Parse(id)
	if err != nil {
		return peer.Node{} // no cluster includes it
	}
	return peer.Node{ID: parsed, Ports: a.peers.ports[id]}
}

// peerConfigurationOf derives the PeerConfiguration of a node; it implements fleet.Peers.
func (a *fleetActor) peerConfigurationOf(name string, set layers.Set, md5 string) (*peer.Configuration, string) {
	f := a.peers.fleet
	_, described := f.Peers[name]
	clusters := f.ClustersOf(name)
	if !described && len(clusters) == 0 {
		delete(a.peers.made, name)
		return nil, ""
	}
	nodes := map[string]peer.Node{name: a.peerNode(name)}
	for _, cluster := range clusters {
		for member := range f.Clusters[cluster].Members {
			nodes[member] = a.peerNode(member)
		}
	}
	with := peer.Derive(peer.Input{Name: name, Nodes: nodes, Fleet: f, Declared: a.d.nodes.Declared(md5, set)})
	digest := with.Digest()
	if was, ok := a.peers.made[name]; ok && was.md5 == md5 && was.digest == digest {
		return was.with, digest
	}
	a.peers.made[name] = madeFor{md5, digest, &with}
	return &with, digest
}

// recomputeDirty recomputes the dirty nodes only.
func (a *fleetActor) recomputeDirty() ([]fleet.Touched, error) {
	if len(a.peers.dirty) == 0 {
		return nil, nil
	}
	names := slices.Sorted(maps.Keys(a.peers.dirty))
	clear(a.peers.dirty)
	return a.fleet.Recompute(names...)
}
