package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"edgespan/config"
	"edgespan/config/history"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/operate"
	"edgespan/config/peer"
	"edgespan/config/state"
)

// described is the fleet as its descriptors are now, and the state that it was read from.
// Descriptors with faults are left out, and told to the log.
func (c *Controller) described(ctx context.Context) (*peer.Fleet, history.State, error) {
	w, err := c.d.world(ctx)
	if err != nil {
		return nil, history.State{}, err
	}
	f, err := w.Peers()
	if faults := config.Faults(nil); errors.As(err, &faults) {
		c.d.Log.Warn("descriptors that can't be read", zap.Error(err))
		err = nil
	}
	return f, w.State, err
}

// Peers are all nodes that have a descriptor or have joined.
func (c *Controller) Peers(ctx context.Context) ([]fleetapi.Peer, error) {
	f, _, err := c.described(ctx)
	if err != nil {
		return nil, err
	}
	all := c.peersOf(f)
	return slices.SortedFunc(maps.Values(all), func(a, b fleetapi.Peer) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// peersOf are the peers of a fleet, by name.
func (c *Controller) peersOf(f *peer.Fleet) map[string]fleetapi.Peer {
	now, out := c.d.Now(), map[string]fleetapi.Peer{}
	for name := range f.Peers {
		out[name] = peerOf(f, fleetapi.Node{Name: name}, now)
	}
	for _, n := range c.d.dir.nodes(now, c.d.settings()) {
		if n.ID != "" || out[n.Name].Described {
			out[n.Name] = peerOf(f, n, now)
		}
	}
	return out
}

// peerOf is a peer as far as the list of nodes says it.
func peerOf(f *peer.Fleet, n fleetapi.Node, now time.Time) fleetapi.Peer {
	_, described := f.Peers[n.Name]
	p := fleetapi.Peer{
		Name: n.Name, ID: n.ID, Described: described, Clusters: f.ClustersOf(n.Name), Online: n.Online, Ready: n.Ready,
		Counts: map[string]int{}, Wanted: n.Wanted.Generation, Applied: n.Running.Generation, LastReport: n.LastReport,
	}
	if n.LastReport != nil {
		age := max(0, now.Sub(*n.LastReport).Seconds())
		p.AgeSeconds = &age
	}
	p.Health = string(state.Yellow)
	switch {
	case n.ID == "":
		p.Health, p.Why = string(state.Unknown), "it has not joined"
	case !n.Online:
		p.Health, p.Why = string(state.Unknown), "it is offline"
	case n.Ready:
		p.Health = string(state.Green)
	default:
		p.Why = n.State + ": " + n.Why
	}
	return p
}

// Peer is all that is known of one peer.
func (c *Controller) Peer(ctx context.Context, name string) (fleetapi.PeerDetail, error) {
	f, s, err := c.described(ctx)
	if err != nil {
		return fleetapi.PeerDetail{}, err
	}
	p, is := c.peersOf(f)[name]
	if !is {
		return fleetapi.PeerDetail{}, &operate.NotFoundError{What: fmt.Sprintf("peer %q", name), Allowed: "a peer that is described or has joined is allowed"}
	}
	d := fleetapi.PeerDetail{Peer: p}
	v, err := s.Layer(history.Layer{Kind: history.Peer, Name: name})
	if err != nil {
		return d, err
	}
	d.Descriptor, d.Revision = v.Document, v.Revision
	if d.ID == "" {
		return d, nil
	}
	n, err := c.Node(ctx, name)
	if err != nil {
		return d, err
	}
	for _, one := range n.Parameters {
		d.Counts[one.State]++
		if one.Review == string(state.Yes) {
			d.Health = string(state.Red)
		}
		d.Parameters = append(d.Parameters, fleetapi.PeerParameter{
			ID: one.ID, Kind: one.Kind, Target: one.Target, State: one.State, Review: one.Review, Reason: one.Reason,
		})
	}
	return d, nil
}

// Clusters are all clusters, by name.
func (c *Controller) Clusters(ctx context.Context) ([]fleetapi.Cluster, error) {
	f, _, err := c.described(ctx)
	if err != nil {
		return nil, err
	}
	peers, out := c.peersOf(f), []fleetapi.Cluster{}
	for _, name := range slices.Sorted(maps.Keys(f.Clusters)) {
		out = append(out, clusterOf(f, name, peers))
	}
	return out, nil
}

// clusterOf is a cluster as far as its members' places in the list of nodes say it.
func clusterOf(f *peer.Fleet, name string, peers map[string]fleetapi.Peer) fleetapi.Cluster {
	is := f.Clusters[name]
	out := fleetapi.Cluster{
		Name: name, ID: is.ID.String(), Leader: is.Leader, Topology: string(is.Topology), Members: slices.Sorted(maps.Keys(is.Members)),
		State: "undeployed", Health: string(state.Unknown), Why: "it is not deployed",
	}
	if _, out.Deployed = f.Deployments[name]; !out.Deployed {
		return out
	}
	out.State, out.Health, out.Ready, out.Why = "deployed", string(state.Green), true, ""
	for _, member := range out.Members {
		p := peers[member]
		if p.Ready {
			continue
		}
		if out.Ready {
			out.State, out.Health, out.Ready, out.Why = "deploying", p.Health, false, member+": "+p.Why
		}
	}
	return out
}

// Cluster is all that is known of one cluster.
func (c *Controller) Cluster(ctx context.Context, name string) (fleetapi.ClusterDetail, error) {
	f, s, err := c.described(ctx)
	if err != nil {
		return fleetapi.ClusterDetail{}, err
	}
	if _, is := f.Clusters[name]; !is {
		return fleetapi.ClusterDetail{}, &operate.NotFoundError{What: fmt.Sprintf("cluster %q", name), Allowed: "a cluster that is described is allowed"}
	}
	peers := c.peersOf(f)
	d := fleetapi.ClusterDetail{Cluster: clusterOf(f, name, peers)}
	v, err := s.Layer(history.Layer{Kind: history.Cluster, Name: name})
	if err != nil {
		return d, err
	}
	d.Descriptor, d.Revision = v.Document, v.Revision
	for _, member := range d.Members {
		d.Peers = append(d.Peers, peers[member])
	}
	vnis := f.Deployments[name].VNIs
	for i, a := range d.Members {
		for _, b := range d.Members[i+1:] {
			if n, is := vnis[peer.Pair(a, b)]; is {
				d.Tunnels = append(d.Tunnels, fleetapi.Tunnel{Between: [2]string{a, b}, VNI: n, States: [2]string{string(state.Creating), string(state.Creating)}})
			}
		}
	}
	return d, nil
}

// lookEvery is how often Changed looks.
const lookEvery = time.Second

// Changed looks again and again.
func (c *Controller) Changed(ctx context.Context, mark uint64) (uint64, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		f, s, err := c.described(ctx)
		if err != nil {
			return mark, err
		}
		peers := c.peersOf(f)
		for name, p := range peers {
			p.AgeSeconds = nil
			peers[name] = p
		}
		text, err := json.Marshal(peers)
		if err != nil {
			return mark, fmt.Errorf("peers: %w", err)
		}
		h := fnv.New64a()
		fmt.Fprintf(h, "%d %s", s.Number, text)
		if now := max(1, h.Sum64()); now != mark {
			return now, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return mark, ctx.Err()
		case <-c.d.ctx.Done():
			return mark, fmt.Errorf("%w: it is ending", fleetapi.ErrBusy)
		}
	}
}
