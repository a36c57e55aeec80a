package ops

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/layers/override"
	"edgespan/config/stateloop/peer"
)

// The writes of peers and clusters (docs/adr/0020). They include the consequences for deployed clusters: a removed
// tunnel returns its number, and a new one gets one.
type (
	// Describe writes complete descriptors: kind, metadata and spec. All are accepted, or none.
	Describe struct{ Documents []config.Object }
	// Undescribe removes descriptors, except those that a deployed cluster needs.
	Undescribe struct {
		Kind  string // peer.KindPeer or peer.KindCluster
		Names []string
	}
	// Deploy deploys clusters on their members.
	Deploy struct{ Clusters []string }
	// Undeploy removes the deployments of clusters.
	Undeploy struct{ Clusters []string }
)

func (Describe) write()   {}
func (Undescribe) write() {}
func (Deploy) write()     {}
func (Undeploy) write()   {}

// descriptors holds the layers of a fleet's peers, by name.
type descriptors struct {
	peers, clusters, deployments map[string]config.Object
}

// readDescriptors reads the layers once per operation; a caller that changes the result must copy it. A damaged layer
// could concern any node, so all layers must be readable, except those being written.
func (ck *check) readDescriptors(written ...history.Layer) (descriptors, error) {
	if ck.peers != nil {
		return *ck.peers, nil
	}
	d := descriptors{map[string]config.Object{}, map[string]config.Object{}, map[string]config.Object{}}
	for kind, into := range map[history.Kind]map[string]config.Object{
		history.Peer: d.peers, history.Cluster: d.clusters, history.Deployment: d.deployments,
	} {
		all, err := ck.State.WithDamaged().LayersOfKind(kind)
		if err != nil {
			return d, err
		}
		for _, v := range all {
			ck.read[v.Layer] = v
			if v.Damaged != nil && !slices.Contains(written, v.Layer) {
				return d, problemOf(v.Damaged)
			}
			if v.Document != nil {
				into[v.Layer.Name] = v.Document
			}
		}
	}
	ck.peers = &d
	return d, nil
}

// withChange returns the layers with a change applied.
func (d descriptors) withChange(c history.Change) descriptors {
	d = descriptors{maps.Clone(d.peers), maps.Clone(d.clusters), maps.Clone(d.deployments)}
	for l, doc := range c.Layers {
		var into map[string]config.Object
		switch l.Kind {
		case history.Peer:
			into = d.peers
		case history.Cluster:
			into = d.clusters
		case history.Deployment:
			into = d.deployments
		default:
			continue
		}
		if delete(into, l.Name); doc != nil {
			into[l.Name] = doc
		}
	}
	return d
}

// fleet parses the layers. Faults have the layer in front of their path; it leaves out layers with faults.
func (d descriptors) fleet() (*peer.Inventory, config.Faults) {
	var faults config.Faults
	below := func(kind history.Kind, name string, more config.Faults) bool {
		for _, f := range more {
			faults.Add(config.Below([]string{history.Layer{Kind: kind, Name: name}.String()}, f.Path...), f.Problem,
				f.Expectation)
		}
		return len(more) == 0
	}
	named := func(at, name string) config.Faults {
		if at == name {
			return nil
		}
		return config.Faults{{Path: []string{"metadata", "name"}, Problem: config.Invalid(name),
			Expectation: config.MustBe(config.Quote(at)),
		}}
	}
	peers, clusters, deployments := map[string]peer.Peer{}, map[string]peer.Cluster{}, map[string]peer.Deployment{}
	for name, doc := range d.peers {
		p, wrong := peer.ParsePeer(doc)
		if below(history.Peer, name, append(wrong, named(name, p.Name)...)) {
			peers[name] = p
		}
	}
	for name, doc := range d.clusters {
		c, wrong := peer.ParseCluster(doc)
		if below(history.Cluster, name, append(wrong, named(name, c.Name)...)) {
			clusters[name] = c
		}
	}
	for name, doc := range d.deployments {
		v, wrong := peer.ParseDeployment(doc)
		if below(history.Deployment, name, wrong) {
			deployments[name] = v
		}
	}
	return peer.NewFleet(peers, clusters, deployments), faults
}

// Peers returns the descriptors and deployments of the fleet. It leaves out and reports those with faults, which occur
// only if another program wrote the store.
func (s *Snapshot) Peers() (*peer.Inventory, error) {
	d, err := s.newCheck().readDescriptors()
	if err != nil {
		return nil, err
	}
	f, faults := d.fleet()
	if len(faults) > 0 {
		return f, faults
	}
	return f, nil
}

// setDescriptors validates a write of descriptors.
func (ck *check) setDescriptors(q Describe) (WriteOutcome, error) {
	c := history.Change{Layers: map[history.Layer]config.Object{}}
	var faults override.WriteFaults
	if len(q.Documents) == 0 {
		faults = append(faults, override.WriteFault{Rule: override.RuleRequest,
			Problem: "the write has no document", Expectation: "must be one or more"})
	}
	for i, doc := range q.Documents {
		kind, _ := doc["kind"].(string)
		name, _ := config.Lookup(doc, []string{"metadata", "name"})
		text, _ := name.(string)
		l := history.Layer{Kind: history.Peer, Name: text}
		var wrong config.Faults
		switch kind {
		case peer.KindPeer:
			var err error
			if doc, err = ck.unmaskDescriptor(l, doc); err != nil {
				return WriteOutcome{}, err
			}
			_, wrong = peer.ParsePeer(doc)
		case peer.KindCluster:
			l.Kind = history.Cluster
			_, wrong = peer.ParseCluster(doc)
		default:
			wrong.Add([]string{"kind"}, config.Invalid(kind), config.MustBe(peer.KindPeer+" or "+peer.KindCluster))
		}
		below := l.String()
		if text == "" || kind != peer.KindPeer && kind != peer.KindCluster {
			below = fmt.Sprintf("documents/%d", i+1)
		}
		if _, twice := c.Layers[l]; twice {
			wrong.Add(nil, "duplicate", "must be unique")
		}
		faults = append(faults, faultsOf(RulePeers, []string{below}, wrong)...)
		c.Layers[l] = doc
	}
	if len(faults) > 0 {
		return WriteOutcome{}, refuse(faults)
	}
	return ck.validateLayersChange(c, nil)
}

// removeDescriptors validates the removal of descriptors.
func (ck *check) removeDescriptors(q Undescribe) (WriteOutcome, error) {
	kind := history.Peer
	if q.Kind == peer.KindCluster {
		kind = history.Cluster
	}
	d, err := ck.readDescriptors()
	if err != nil {
		return WriteOutcome{}, err
	}
	c := history.Change{Layers: map[history.Layer]config.Object{}}
	var missing []string
	for _, name := range q.Names {
		l := history.Layer{Kind: kind, Name: name}
		if c.Layers[l] = nil; ck.read[l].Document == nil {
			missing = append(missing, name)
		}
	}
	have := d.peers
	if kind == history.Cluster {
		have = d.clusters
	}
	if len(missing) > 0 {
		return WriteOutcome{}, missingFaults(kind.String(), missing, have)
	}
	return ck.validateLayersChange(c, nil)
}

func missingFaults(kind string, missing []string, have map[string]config.Object) error {
	allowed := "there is none"
	if len(have) > 0 {
		allowed = config.OneOf(sortedNames(have))
	}
	slices.Sort(missing)
	return &NotFoundError{What: kind + " " + strings.Join(slices.Compact(missing), ", "), Allowed: allowed}
}

// deploy deploys or undeploys clusters.
func (ck *check) deploy(names []string, desired bool) (WriteOutcome, error) {
	d, err := ck.readDescriptors()
	if err != nil {
		return WriteOutcome{}, err
	}
	c := history.Change{Layers: map[history.Layer]config.Object{}}
	var missing, notes []string
	for _, name := range names {
		l := history.Layer{Kind: history.Deployment, Name: name}
		_, ok := d.deployments[name]
		switch {
		case d.clusters[name] == nil && !(ok && !desired):
			missing = append(missing, name)
		case ok == desired && desired:
			notes = append(notes, "cluster "+name+" is deployed already")
		case ok == desired:
			notes = append(notes, "cluster "+name+" is not deployed")
		case desired: // numbers are allocated together with all others
			c.Layers[l] = peer.Deployment{Cluster: name}.Document()
		default:
			c.Layers[l] = nil
		}
	}
	if len(names) == 0 {
		return WriteOutcome{},
			refuse(override.WriteFaults{{Rule: override.RuleRequest, Problem: "the write names no cluster",
				Expectation: "must be one or more"}})
	}
	if len(missing) > 0 {
		return WriteOutcome{}, missingFaults("cluster", missing, d.clusters)
	}
	return ck.validateLayersChange(c, notes)
}

// peersChange adds to a change of layers its consequences for peers: tunnel numbers are allocated and released with
// their clusters, and every deployed cluster must be deployable.
func (ck *check) peersChange(c history.Change) (touched []string, faults override.WriteFaults, err error) {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(c.Layers)), func(l history.Layer) bool {
		return l.Kind == history.Peer || l.Kind == history.Cluster || l.Kind == history.Deployment
	}) {
		return nil, nil, nil
	}
	was, err := ck.readDescriptors(slices.Collect(maps.Keys(c.Layers))...)
	if err != nil {
		return nil, nil, err
	}
	before, _ := was.fleet()
	now := was.withChange(c)
	after, wrong := now.fleet()
	faults = append(faultsOf(RulePeers, nil, wrong), ck.checkIDs(after)...)
	for _, name := range sortedNames(now.deployments) {
		below := []string{history.Layer{Kind: history.Cluster, Name: name}.String()}
		if now.clusters[name] == nil {
			faults = append(faults, override.WriteFault{Path: below,
				Rule: RulePeers, Problem: "is deployed", Expectation: "must be undeployed first"})
			continue
		}
		if _, read := after.Clusters[name]; !read {
			continue // its faults are reported already
		}
		d, wrong := after.Deploy(name)
		if faults = append(faults, faultsOf(RulePeers, below, wrong)...); len(wrong) > 0 {
			continue
		}
		after.Deployments[name] = d
		l := history.Layer{Kind: history.Deployment, Name: name}
		if doc := d.Document(); !config.Equal(doc, now.deployments[name]) {
			c.Layers[l] = doc
		}
	}
	return peer.ChangedNodes(before, after), faults, nil
}

// checkIDs returns faults for the peers whose descriptor has another node's ID.
func (ck *check) checkIDs(f *peer.Inventory) override.WriteFaults {
	var faults override.WriteFaults
	for name, p := range f.Peers {
		nodeID := ck.Nodes[ck.nameBefore(name)].ID
		if said := p.ID.String(); p.ID != [16]byte{} && nodeID != "" && !strings.EqualFold(said, nodeID) {
			faults = append(faults, override.WriteFault{
				Path: []string{history.Layer{Kind: history.Peer, Name: name}.String(), "metadata", "id"}, Rule: RulePeers,
				Problem:     config.InvalidValue(said) + ", the node of this name is " + nodeID,
				Expectation: config.MustBe(nodeID + ", or empty"),
			})
		}
	}
	return faults
}
