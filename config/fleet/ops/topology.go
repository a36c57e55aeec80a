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

// chart is the topology with the layers of all nodes that the topology or the controller knows.
type chart struct {
	doc      config.Object // nil: there is none
	topology *topology.Topology
	network  config.Object
	auto     map[string]config.Object
	own      map[string]config.Object
	damaged  map[string]bool // nodes with an unreadable layer
}

// chart reads the chart. A future topology may be given, whose nodes are included.
func (j *check) chart(next ...*topology.Topology) (chart, error) {
	v, err := j.layer(topologyLayer)
	if err != nil {
		return chart{}, err
	}
	t, faults := topologyOf(v.Document)
	if len(faults) > 0 {
		return chart{}, refused(faultsOf(override.RuleTopology, []string{"topology"}, faults))
	}
	names := j.known()
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
	if err := j.layersOrDamaged(desired...); err != nil {
		return chart{}, err
	}
	if err := j.layersOf(networkLayer); err != nil {
		return chart{}, err
	}
	c := chart{doc: v.Document, topology: t, network: j.read[networkLayer].Document, auto: map[string]config.Object{},
		own: map[string]config.Object{}, damaged: map[string]bool{}}
	for _, name := range names {
		if j.damaged(name) {
			c.damaged[name] = true
		}
		if doc := j.read[autoLayer(name)].Document; doc != nil {
			c.auto[name] = doc
		}
		if doc := j.read[nodeLayer(name)].Document; doc != nil {
			c.own[name] = doc
		}
	}
	return c, nil
}

// files joins layers to one document {node: {…}}.
func files(layers map[string]config.Object) config.Object {
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
		if o, is := v.(config.Object); is {
			out[name] = o
		}
	}
	return out
}

// written adds the layers that differ to a change. It skips nodes with a damaged layer: derived values would replace
// values that could not be read.
func (j *check) written(c history.Change, kind history.Kind, before, after map[string]config.Object) {
	for name := range before {
		if _, stays := after[name]; !stays && !j.damaged(name) {
			c.Layers[history.Layer{Kind: kind, Name: name}] = nil
		}
	}
	for name, doc := range after {
		if was, had := before[name]; !j.damaged(name) && (!had || !config.Equal(was, doc)) {
			c.Layers[history.Layer{Kind: kind, Name: name}] = doc
		}
	}
}

// charted returns the write from one chart to another, with topologyInfo in the auto layer updated.
func (j *check) charted(was, is chart, notes []string) (WriteOutcome, error) {
	c := history.Change{Layers: map[history.Layer]config.Object{}}
	if doc := is.topology.Document(); was.doc == nil || !config.Equal(was.doc, doc) {
		c.Layers[topologyLayer] = doc
	}
	is.auto = is.withFacts()
	j.written(c, history.Auto, was.auto, is.auto)
	j.written(c, history.Node, was.own, is.own)
	return j.layersChange(c, notes)
}

// setTopology replaces the topology. Nodes that the new one lacks keep their node layer, and the outcome reports them.
func (j *check) setTopology(q SetTopology) (WriteOutcome, error) {
	t, faults := topologyOf(q.Document)
	if len(faults) > 0 {
		return WriteOutcome{}, refused(faultsOf(override.RuleTopology, nil, faults))
	}
	was, err := j.chart(t)
	if err != nil {
		return WriteOutcome{}, err
	}
	is := was
	is.topology = t
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
	return j.charted(was, is, notes)
}

// editTopology validates one edit of one node, link or site.
func (j *check) editTopology(q EditTopology) (WriteOutcome, error) {
	if !slices.Contains([]string{"node", "link", "site"}, q.Object) {
		return WriteOutcome{}, &NotFoundError{"object " + config.Quote(q.Object), "must be node, link or site"}
	}
	if !slices.Contains([]string{"add", "edit", "delete", "rename"}, q.Op) {
		return WriteOutcome{}, refused(override.WriteFaults{{Rule: override.RuleRequest, Problem: config.Invalid(q.Op),
			Expectation: "must be add, edit, delete or rename"}})
	}
	if q.Object == "node" && q.Op == "rename" {
		return j.renameNode(q.Name, q.To)
	}
	was, err := j.chart()
	if err != nil {
		return WriteOutcome{}, err
	}
	if q.Object == "node" {
		if err := j.layersOf(autoLayer(q.Name), nodeLayer(q.Name)); err != nil {
			return WriteOutcome{}, err
		}
	}
	next, err := was.edited(q)
	if err != nil {
		return WriteOutcome{}, err
	}
	is := was
	is.topology, is.auto, is.own = next.Topology, splitByNode(next.Auto), splitByNode(next.Node)
	return j.charted(was, is, nil)
}

// edited returns the topology after an edit, with the dependent layers.
func (c chart) edited(q EditTopology) (topology.State, error) {
	state := topology.State{Topology: c.topology, Auto: files(c.auto), Node: files(c.own)}
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
		return next, refused(faultsOf(override.RuleTopology, nil, faults))
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
		return state, refused(faultsOf(override.RuleTopology, nil, faults))
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
	return next, refused(faultsOf(override.RuleTopology, nil, faults))
}

// index returns the index of an object in its list, or -1.
func (c chart) index(q EditTopology) int {
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
func (c chart) with(list string, at int, entry config.Object) (*topology.Topology, config.Faults) {
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
		faults.Add(config.Sub([]string{list}, clash.Path...), config.InvalidType(config.KindOf(clash.Above))+
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
		if n, is := v.(config.Object); is && n["site_name"] == from && from != to {
			nodes[i] = config.Set(n, []string{"site_name"}, to)
		}
	}
	return config.Set(doc, []string{"nodes"}, nodes)
}

// renameNode renames a node everywhere at once: in the topology, the layers, the joined node's record, and its token.
func (j *check) renameNode(from, to string) (WriteOutcome, error) {
	was, err := j.chart()
	if err != nil {
		return WriteOutcome{}, err
	}
	if _, there := was.topology.Node(from); !there {
		if err := j.find(from); err != nil {
			return WriteOutcome{}, err
		}
	}
	c, err := j.State.Rename(from, to)
	if err != nil {
		return WriteOutcome{}, problemOf(err)
	}
	j.was[to] = from
	is := was
	is.auto, is.own = moved(was.auto, from, to), moved(was.own, from, to)
	if doc := c.Layers[topologyLayer]; doc != nil {
		t, faults := topologyOf(doc)
		if len(faults) > 0 {
			return WriteOutcome{}, refused(faultsOf(override.RuleTopology, []string{"topology"}, faults))
		}
		is.topology = t
		before := is.auto
		is.auto = is.withFacts()
		j.written(c, history.Auto, before, is.auto)
	}
	var notes []string
	for _, name := range sortedNames(is.own) {
		tunnels, _ := is.own[name][tunnelKey].(config.Object)
		for _, tunnel := range config.Keys(tunnels) {
			if dst, _ := destination(tunnels[tunnel]); dst == from {
				notes = append(notes, name+": "+config.FormatPath([]string{tunnelKey, tunnel})+
					".dstNodeName: names the node as it was called before")
			}
		}
	}
	return j.layersChange(c, notes)
}

func moved(layers map[string]config.Object, from, to string) map[string]config.Object {
	out := make(map[string]config.Object, len(layers))
	for name, doc := range layers {
		if name == from {
			name = to
		}
		out[name] = doc
	}
	return out
}
