package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	nodespkg "edgespan/actors/controller/nodes"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
)

var _ fleetapi.Peers = (*Controller)(nil)

// readPeers returns the descriptors and deployments that the nodes get.
func (c *Controller) readPeers(ctx context.Context) (*peer.Inventory, error) {
	if err := c.d.checkUpToDate(ctx); err != nil {
		return nil, err
	}
	if f := c.d.dir.peers.Load(); f != nil {
		return f, nil
	}
	return peer.NewFleet(nil, nil, nil), nil
}

// Peers lists all nodes that have a descriptor or have joined.
func (c *Controller) Peers(ctx context.Context) ([]fleetapi.Peer, error) {
	f, err := c.readPeers(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for name := range f.Peers {
		names[name] = true
	}
	for _, s := range c.d.dir.handles() {
		if name, id := s.Names(); id != "" {
			names[name] = true
		}
	}
	out := make([]fleetapi.Peer, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		r, _ := c.d.peerReport(f, name)
		out = append(out, c.d.peerOf(f, r))
	}
	return out, nil
}

// Peer returns everything known of one peer.
func (c *Controller) Peer(ctx context.Context, name string) (fleetapi.PeerDetail, error) {
	f, err := c.readPeers(ctx)
	if err != nil {
		return fleetapi.PeerDetail{}, err
	}
	v, err := c.readDescriptor(ctx, history.Layer{Kind: history.Peer, Name: name})
	if err != nil {
		return fleetapi.PeerDetail{}, err
	}
	if s := c.d.dir.nodeByName(name); v.Document == nil && (s == nil || s.Process() == nil) {
		return fleetapi.PeerDetail{}, &ops.NotFoundError{What: fmt.Sprintf("peer %q", name),
			Allowed: "'edgespan peers list' lists the peers"}
	}
	r, view := c.d.peerReport(f, name)
	d := fleetapi.PeerDetail{
		Peer: c.d.peerOf(f, r), Descriptor: ops.MaskPeer(v.Document), Parameters: []fleetapi.PeerParameter{},
		Ignored: []fleetapi.PeerParameter{},
	}
	if v.Document != nil {
		d.Revision = v.Revision
	}
	for _, p := range r.Parameters {
		d.Parameters = append(d.Parameters, nodespkg.ShownParameter(p, view.More[p.ID]))
	}
	for _, i := range r.Ignored {
		d.Ignored = append(d.Ignored, fleetapi.PeerParameter{
			ID: i.ID, Kind: i.Kind, Reported: string(i.Reported), State: string(stateloop.Ignored), Review: string(i.Review),
			Reason: i.Reason, Since: nodespkg.Moment(i.Since),
		})
	}
	return d, nil
}

// Clusters lists all described clusters, by name.
func (c *Controller) Clusters(ctx context.Context) ([]fleetapi.Cluster, error) {
	f, err := c.readPeers(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]fleetapi.Cluster, 0, len(f.Clusters))
	for _, name := range slices.Sorted(maps.Keys(f.Clusters)) {
		out = append(out, c.d.clusterOf(f, name, c.d.clusterStatus(f, name)))
	}
	return out, nil
}

// Cluster returns everything known of one cluster.
func (c *Controller) Cluster(ctx context.Context, name string) (fleetapi.ClusterDetail, error) {
	f, err := c.readPeers(ctx)
	if err != nil {
		return fleetapi.ClusterDetail{}, err
	}
	cluster, ok := f.Clusters[name]
	if !ok {
		return fleetapi.ClusterDetail{},
			&ops.NotFoundError{What: fmt.Sprintf("cluster %q", name), Allowed: "'edgespan clusters list' lists the clusters"}
	}
	v, err := c.readDescriptor(ctx, history.Layer{Kind: history.Cluster, Name: name})
	if err != nil {
		return fleetapi.ClusterDetail{}, err
	}
	s := c.d.clusterStatus(f, name)
	d := fleetapi.ClusterDetail{
		Cluster: c.d.clusterOf(f, name, s), Descriptor: v.Document, Revision: v.Revision, Peers: []fleetapi.Peer{},
		Tunnels: []fleetapi.Tunnel{},
	}
	for _, m := range s.Members {
		d.Peers = append(d.Peers, c.d.peerOf(f, m.Report))
	}
	vnis := f.Deployments[name].VNIs
	for _, pair := range slices.Sorted(maps.Keys(vnis)) {
		a, b, _ := strings.Cut(pair, " ")
		t := fleetapi.Tunnel{Between: [2]string{a, b}, VNI: vnis[pair]}
		t.States[0], t.Reason = c.d.tunnelState(cluster, s, a, b)
		var reason string
		t.States[1], reason = c.d.tunnelState(cluster, s, b, a)
		t.Reason = cmp.Or(t.Reason, reason)
		d.Tunnels = append(d.Tunnels, t)
	}
	return d, nil
}

// Changed waits until a peer or cluster may have changed since mark.
func (c *Controller) Changed(ctx context.Context, mark uint64) (uint64, error) {
	for {
		next, moved := c.d.dir.marks.Changes.After()
		if next != mark {
			return next, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return mark, ctx.Err()
		case <-c.d.Context.Done():
			return mark, fmt.Errorf("%w: shutting down", fleetapi.ErrBusy)
		}
	}
}

// readDescriptor returns the layer of a descriptor; without a descriptor its document is nil.
func (c *Controller) readDescriptor(ctx context.Context, l history.Layer) (history.Version, error) {
	return read(ctx, c, func(w *ops.Snapshot) (history.Version, error) { return w.State.Layer(l) })
}

// peerReport returns the current report of a node. For a node without a stream, it is the last one, without its health
// and readiness.
func (d *deps) peerReport(f *peer.Inventory, name string) (stateloop.PeerStatusReport, nodespkg.PeerView) {
	r, v := stateloop.PeerStatusReport{Counts: map[stateloop.State]int{}}, nodespkg.PeerView{}
	s := d.dir.nodeByName(name)
	if s != nil {
		if p := s.View(); p != nil {
			r, v = p.Report, *p
		}
		_, replica, _ := s.At()
		r.Online = replica != ""
		r.LastReport = s.LastReport()
	}
	r.Name, r.Clusters = name, f.ClustersOf(name)
	switch {
	case !r.Online:
		r.Ready, r.Why = false, "it is offline"
		if r.Health = stateloop.Unknown; r.Reviews > 0 {
			r.Health = stateloop.Red
		}
	case v.Report.Counts == nil:
		r.Ready, r.Health, r.Why = false, stateloop.Unknown, "no report yet"
		if row := s.Row(); row != nil {
			r.Why = string(row.Key.State) + ": " + row.Why
			r.Desired, r.Applied = row.Key.Wants, row.Key.Runs
		}
	}
	return r, v
}

// peerOf summarizes a report.
func (d *deps) peerOf(f *peer.Inventory, r stateloop.PeerStatusReport) fleetapi.Peer {
	_, described := f.Peers[r.Name]
	p := fleetapi.Peer{
		Name: r.Name, Described: described, Clusters: append([]string{}, r.Clusters...), Online: r.Online,
		Health: string(r.Health),
		Ready:  r.Ready, Why: r.Why, Counts: map[string]int{}, LastReport: nodespkg.Moment(r.LastReport),
	}
	if s := d.dir.nodeByName(r.Name); s != nil {
		_, p.ID = s.Names()
	}
	if p.ID == "" {
		p.Why = "not joined"
	}
	for word, n := range r.Counts {
		p.Counts[string(word)] = n
	}
	if r.Desired != (fleet.Generation{}) {
		p.Desired = r.Desired.String()
	}
	if r.Applied != (fleet.Generation{}) {
		p.Applied = r.Applied.String()
	}
	if age, ok := r.Age(d.Now()); ok {
		seconds := age.Seconds()
		p.AgeSeconds = &seconds
	}
	return p
}

// clusterStatus combines the reports of a cluster's members.
func (d *deps) clusterStatus(f *peer.Inventory, name string) stateloop.ClusterStatus {
	nodes := map[string]peer.Node{}
	c := f.Clusters[name]
	for member := range c.Members {
		nodes[member] = peer.Node{ID: d.idOf(member)}
	}
	var members []stateloop.ClusterMember
	for member := range c.Members {
		r, _ := d.peerReport(f, member)
		m := stateloop.ClusterMember{Report: r}
		for _, p := range peer.Derive(peer.Input{Name: member, Nodes: nodes, Fleet: singleCluster(f, name)}).Parameters {
			if p.Kind != peer.KindExecutor {
				m.Parameters = append(m.Parameters, p.ID)
			}
		}
		members = append(members, m)
	}
	s := stateloop.SummarizeCluster(name, members)
	for member := range c.Members {
		if s.Ready && nodes[member].ID == uuid.Nil {
			s.Ready, s.Why = false, member+": not joined"
		}
	}
	return s
}

// singleCluster returns a fleet with a single deployed cluster.
func singleCluster(f *peer.Inventory, cluster string) *peer.Inventory {
	all := map[string]peer.Deployment{}
	if one, ok := f.Deployments[cluster]; ok {
		all[cluster] = one
	}
	return peer.NewFleet(f.Peers, f.Clusters, all)
}

// idOf returns the id of a node that has joined, uuid.Nil for any other.
func (d *deps) idOf(name string) uuid.UUID {
	s := d.dir.nodeByName(name)
	if s == nil {
		return uuid.Nil
	}
	_, text := s.Names()
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil
	}
	return id
}

// clusterOf summarizes a cluster.
func (d *deps) clusterOf(f *peer.Inventory, name string, s stateloop.ClusterStatus) fleetapi.Cluster {
	c := f.Clusters[name]
	_, deployed := f.Deployments[name]
	out := fleetapi.Cluster{
		Name: name, ID: c.ID.String(), Leader: c.Leader, Topology: string(c.Topology),
		Members:  slices.Sorted(maps.Keys(c.Members)),
		Deployed: deployed, State: "undeployed", Health: string(stateloop.Unknown),
	}
	if deployed {
		out.Health, out.Ready, out.Why, out.State = string(s.Health), s.Ready, s.Why, "deploying"
		if s.Ready {
			out.State = "deployed"
		}
		return out
	}
	out.Why = "not deployed"
	if late := d.nodesWithLeftovers(c.ID); len(late) > 0 {
		out.State, out.Why = "undeploying", notRemovedText(late)
	}
	return out
}

// notRemovedText names nodes that have not reported the removal of their part.
func notRemovedText(late []string) string {
	if more := len(late) - 1; more > 0 {
		return fmt.Sprintf("%s and %d more have not yet reported that their parts are removed", late[0], more)
	}
	return late[0] + " has not yet reported that its part is removed"
}

// nodesWithLeftovers lists by name the nodes that may still have part of an undeployed cluster.
func (d *deps) nodesWithLeftovers(cluster uuid.UUID) []string {
	var out []string
	for _, s := range d.dir.handles() {
		v := s.View()
		if v == nil || len(v.Gone()) == 0 {
			continue
		}
		name, text := s.Names()
		id, err := uuid.Parse(text)
		if err != nil {
			continue
		}
		network := peer.NetworkOf(cluster, id).String()
		if slices.ContainsFunc(v.Gone(), func(g peer.Leftover) bool { return strings.Contains(g.ID, network) }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// tunnelState returns the state of a tunnel at one end, and a reason unless it is Present.
func (d *deps) tunnelState(c peer.Cluster, s stateloop.ClusterStatus, here, there string) (word, reason string) {
	id := peer.TunnelID(peer.NetworkOf(c.ID, d.idOf(here)), d.idOf(there))
	for _, m := range s.Members {
		if m.Report.Name != here {
			continue
		}
		for _, p := range m.Parameters {
			if p.ID == id {
				if p.State != stateloop.Present {
					reason = here + ": " + cmp.Or(p.Reason, string(p.State))
				}
				return string(p.State), reason
			}
		}
	}
	return "", here + ": nothing is known of it yet"
}
