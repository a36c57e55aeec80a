package ops

import (
	"slices"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/topology"
	"edgespan/config/layers/override"
)

// topologyOf parses a topology; nil is an empty topology.
func topologyOf(doc config.Object) (*topology.Topology, config.Faults) {
	if doc == nil {
		doc = config.Object{}
	}
	return topology.FromDocument(doc)
}

// topologyLayers is the topology with the layers of all nodes that the topology or the controller knows.
type topologyLayers struct {
	doc      config.Object // nil: there is none
	topology *topology.Topology
	network  config.Object
	auto     map[string]config.Object
	own      map[string]config.Object
	damaged  map[string]bool // nodes with an unreadable layer
}

// readTopologyLayers reads the topology and the layers. A future topology may be given, whose nodes are included.
func (ck *check) readTopologyLayers(next ...*topology.Topology) (topologyLayers, error) {
	v, err := ck.layer(topologyLayer)
	if err != nil {
		return topologyLayers{}, err
	}
	t, faults := topologyOf(v.Document)
	if len(faults) > 0 {
		return topologyLayers{}, refuse(faultsOf(override.RuleTopology, []string{"topology"}, faults))
	}
	names := ck.nodeNames()
	for _, t := range append(next, t) {
		for _, n := range t.Nodes {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	desired := []history.Layer{networkLayer}
	for _, name := range names {
		desired = append(desired, autoLayer(name), nodeLayer(name))
	}
	if err := ck.layersOrDamaged(desired...); err != nil {
		return topologyLayers{}, err
	}
	if err := ck.layersOf(networkLayer); err != nil {
		return topologyLayers{}, err
	}
	c := topologyLayers{doc: v.Document, topology: t, network: ck.read[networkLayer].Document,
		auto: map[string]config.Object{},
		own:  map[string]config.Object{}, damaged: map[string]bool{}}
	for _, name := range names {
		if ck.damaged(name) {
			c.damaged[name] = true
		}
		if doc := ck.read[autoLayer(name)].Document; doc != nil {
			c.auto[name] = doc
		}
		if doc := ck.read[nodeLayer(name)].Document; doc != nil {
			c.own[name] = doc
		}
	}
	return c, nil
}

// joinLayers joins layers to one document {node: {…}}.
func joinLayers(layers map[string]config.Object) config.Object {
	out := make(config.Object, len(layers))
	for name, doc := range layers {
		out[name] = doc
	}
	return out
}

// splitByNode splits a document {node: {…}} into layers.
func splitByNode(doc config.Object) map[string]config.Object {
	out := make(map[string]config.Object, len(doc))
	for name, v := range doc {
		if o, ok := v.(config.Object); ok {
			out[name] = o
		}
	}
	return out
}

// addChanged adds the layers that differ to a change. It skips nodes with a damaged layer: derived values would replace
// values that could not be read.
func (ck *check) addChanged(c history.Change, kind history.Kind, before, after map[string]config.Object) {
	for name := range before {
		if _, stays := after[name]; !stays && !ck.damaged(name) {
			c.Layers[history.Layer{Kind: kind, Name: name}] = nil
		}
	}
	for name, doc := range after {
		if was, had := before[name]; !ck.damaged(name) && (!had || !config.Equal(was, doc)) {
			c.Layers[history.Layer{Kind: kind, Name: name}] = doc
		}
	}
}

// topologyOutcome returns the write from one state of the topology to another, with topologyInfo in the auto layer
// updated.
func (ck *check) topologyOutcome(was, now topologyLayers, notes []string) (WriteOutcome, error) {
	c := history.Change{Layers: map[history.Layer]config.Object{}}
	if doc := now.topology.Document(); was.doc == nil || !config.Equal(was.doc, doc) {
		c.Layers[topologyLayer] = doc
	}
	now.auto = now.withFacts()
	ck.addChanged(c, history.Auto, was.auto, now.auto)
	ck.addChanged(c, history.Node, was.own, now.own)
	return ck.validateLayersChange(c, notes)
}

// setTopology replaces the topology. Nodes that the new one lacks keep their node layer, and the outcome reports them.
func (ck *check) setTopology(q SetTopology) (WriteOutcome, error) {
	t, faults := topologyOf(q.Document)
	if len(faults) > 0 {
		return WriteOutcome{}, refuse(faultsOf(override.RuleTopology, nil, faults))
	}
	was, err := ck.readTopologyLayers(t)
	if err != nil {
		return WriteOutcome{}, err
	}
	now := was
	now.topology = t
	stays := map[string]bool{}
	for _, n := range t.Nodes {
		stays[n.Name] = true
	}
	var notes []string
	for _, n := range was.topology.Nodes {
		if !stays[n.Name] && was.own[n.Name] != nil {
			notes = append(notes, "node "+config.Quote(n.Name)+": is in the topology no more, and keeps its overrides")
		}
	}
	return ck.topologyOutcome(was, now, notes)
}

// editTopology validates one edit of one node, link or site.
func (ck *check) editTopology(q EditTopology) (WriteOutcome, error) {
	if !slices.Contains([]string{"node", "link", "site"}, q.Object) {
		return WriteOutcome{}, &NotFoundError{"object " + config.Quote(q.Object), "must be node, link or site"}
	}
	if !slices.Contains([]string{"add", "edit", "delete", "rename"}, q.Op) {
		return WriteOutcome{}, refuse(override.WriteFaults{{Rule: override.RuleRequest, Problem: config.Invalid(q.Op),
			Expectation: "must be add, edit, delete or rename"}})
	}
	if q.Object == "node" && q.Op == "rename" {
		return ck.renameNode(q.Name, q.To)
	}
	was, err := ck.readTopologyLayers()
	if err != nil {
		return WriteOutcome{}, err
	}
	if q.Object == "node" {
		if err := ck.layersOf(autoLayer(q.Name), nodeLayer(q.Name)); err != nil {
			return WriteOutcome{}, err
		}
	}
	next, err := was.applyEdit(q)
	if err != nil {
		return WriteOutcome{}, err
	}
	now := was
	now.topology, now.auto, now.own = next.Topology, splitByNode(next.Auto), splitByNode(next.Node)
	return ck.topologyOutcome(was, now, nil)
}

// applyEdit returns the topology after an edit, with the dependent layers.
func (c topologyLayers) applyEdit(q EditTopology) (topology.State, error) {
	state := topology.State{Topology: c.topology, Auto: joinLayers(c.auto), Node: joinLayers(c.own)}
	list := q.Object + "s"
	doc := c.topology.Document()
	entries, _ := doc[list].([]any)
	at := len(entries)
	if q.Op != "add" {
		if at = c.index(q); at < 0 {
			return state, &NotFoundError{q.Object + " " + config.Quote(q.Name), "must be one of the topology"}
		}
	}
	var faults config.Faults
	entry := q.Document
	switch q.Op {
	case "delete":
		next, faults := map[string]func(string) (topology.State, config.Faults){
			"node": state.DeleteNode, "link": state.DeleteLink, "site": state.DeleteSite,
		}[q.Object](q.Name)
		return next, refuse(faultsOf(override.RuleTopology, nil, faults))
	case "rename":
		if q.To == "" || q.To == q.Name {
			faults.Add([]string{"name"}, config.Invalid(q.To), "must be another name")
		}
		entry = config.Object{"name": q.To}
	case "edit":
		if name, given := q.Document["name"]; given && name != q.Name {
			faults.Add([]string{"name"}, config.InvalidValue(config.Shorten(config.OneLine(name))),
				"must be the name that it has; rename gives it another")
		}
	}
	if len(entry) == 0 {
		faults.Add(nil, "says nothing", "must be an entry of a topology file")
	}
	parsed, wrong := c.with(list, at, entry)
	if faults = append(faults, wrong...); len(faults) > 0 {
		return state, refuse(faultsOf(override.RuleTopology, nil, faults))
	}
	if q.Op == "add" {
		state.Topology = parsed
		return state, nil
	}
	var next topology.State
	switch q.Object {
	case "node":
		next, faults = state.EditNode(q.Name, parsed.Nodes[at])
	case "link":
		next, faults = state.EditLink(q.Name, parsed.Links[at])
	case "site":
		next, faults = state.EditSite(q.Name, parsed.Sites[at])
	}
	return next, refuse(faultsOf(override.RuleTopology, nil, faults))
}

// index returns the index of an object in its list, or -1.
func (c topologyLayers) index(q EditTopology) int {
	switch q.Object {
	case "node":
		return slices.IndexFunc(c.topology.Nodes, func(n topology.Node) bool { return n.Name == q.Name })
	case "link":
		return slices.IndexFunc(c.topology.Links, func(l topology.Link) bool { return l.Name == q.Name })
	}
	return slices.IndexFunc(c.topology.Sites, func(s topology.Site) bool { return s.Name == q.Name })
}

// with returns the topology with an entry merged into the one at an index of a list, or appended. References by name
// and MAC stay valid: a renamed site keeps its nodes.
func (c topologyLayers) with(list string, at int, entry config.Object) (*topology.Topology, config.Faults) {
	doc := c.topology.Document()
	entries, _ := doc[list].([]any)
	if list == "sites" && entries == nil { // a file without a list: the sites that nodes name
		for _, s := range c.topology.Sites {
			entries = append(entries, config.Object{"name": s.Name})
		}
	}
	entries = slices.Clone(entries)
	if at >= len(entries) {
		entries = append(entries, entry)
		return topologyOf(config.Set(doc, []string{list}, entries))
	}
	old, _ := entries[at].(config.Object)
	merged, clashes := config.Merge(old, entry)
	var faults config.Faults
	for _, clash := range clashes {
		faults.Add(config.Below([]string{list}, clash.Path...), config.InvalidType(config.KindOf(clash.Above))+
			" over an object",
			"must be an object")
	}
	if len(faults) > 0 {
		return nil, faults
	}
	entries[at] = merged
	if list == "sites" { // its nodes follow
		doc = renameSite(doc, old["name"], merged["name"])
	}
	return topologyOf(config.Set(doc, []string{list}, entries))
}

func renameSite(doc config.Object, from, to any) config.Object {
	nodes, _ := doc["nodes"].([]any)
	nodes = slices.Clone(nodes)
	for i, v := range nodes {
		if n, ok := v.(config.Object); ok && n["site_name"] == from && from != to {
			nodes[i] = config.Set(n, []string{"site_name"}, to)
		}
	}
	return config.Set(doc, []string{"nodes"}, nodes)
}

// renameNode renames a node everywhere at once: in the topology, the layers, the joined node's record, and its token.
func (ck *check) renameNode(from, to string) (WriteOutcome, error) {
	was, err := ck.readTopologyLayers()
	if err != nil {
		return WriteOutcome{}, err
	}
	if _, there := was.topology.Node(from); !there {
		if err := ck.checkNodesExist(from); err != nil {
			return WriteOutcome{}, err
		}
	}
	c, err := ck.State.Rename(from, to)
	if err != nil {
		return WriteOutcome{}, problemOf(err)
	}
	ck.was[to] = from
	now := was
	now.auto, now.own = moveLayer(was.auto, from, to), moveLayer(was.own, from, to)
	if doc := c.Layers[topologyLayer]; doc != nil {
		t, faults := topologyOf(doc)
		if len(faults) > 0 {
			return WriteOutcome{}, refuse(faultsOf(override.RuleTopology, []string{"topology"}, faults))
		}
		now.topology = t
		before := now.auto
		now.auto = now.withFacts()
		ck.addChanged(c, history.Auto, before, now.auto)
	}
	var notes []string
	for _, name := range sortedNames(now.own) {
		tunnels, _ := now.own[name][tunnelKey].(config.Object)
		for _, tunnel := range config.Keys(tunnels) {
			if dst, _ := tunnelPeer(tunnels[tunnel]); dst == from {
				notes = append(notes, name+": "+config.FormatPath([]string{tunnelKey, tunnel})+
					".dstNodeName: names the node as it was called before")
			}
		}
	}
	return ck.validateLayersChange(c, notes)
}

func moveLayer(layers map[string]config.Object, from, to string) map[string]config.Object {
	out := make(map[string]config.Object, len(layers))
	for name, doc := range layers {
		if name == from {
			name = to
		}
		out[name] = doc
	}
	return out
}
