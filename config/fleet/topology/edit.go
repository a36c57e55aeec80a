package topology

import (
	"maps"
	"slices"

	"edgespan/config"
)

// State is a topology with the two layers that use the names and MACs of its nodes, each {node: {…}}. They change
// together: an edit returns a new state, or all faults and the old state.
//
// Its writer maintains the topologyInfo in the auto layer: it must be updated after the edit.
type State struct {
	Topology   *Topology
	Auto, Node config.Object
}

// AddLink adds a link; one without a name gets the original's name for it.
func (s State) AddLink(l Link) (State, config.Faults) {
	if l.Name == "" {
		l.Name = LinkName(l.A, l.Z)
	}
	t := *s.Topology
	t.Links = append(slices.Clone(t.Links), l)
	return s.checkNext(State{&t, s.Auto, s.Node}, nil)
}

// EditNode replaces a node by n. Fields of the file that Node lacks are kept, unless n was read from another entry. If
// the name changes, the node's layers and the ends of its links follow, and links named after it are renamed. If a MAC
// changes, of the node or at one position of its radios, its links and the overrides under the MAC follow:
// radioParamsOverride of the node, linkParamsOverride of its peers.
func (s State) EditNode(name string, n Node) (State, config.Faults) {
	old, i, faults := findObject(s.Topology.Nodes, "nodes", name, func(n Node) string { return n.Name })
	if faults != nil {
		return s, faults
	}
	if other, taken := s.Topology.Node(n.Name); taken && n.Name != name {
		faults.Add(itemPath("nodes", i, "name"), config.Invalid(n.Name)+", the name of a node on site "+
			config.Quote(other.Site), "must be unique")
		return s, faults
	}
	if n.raw == nil {
		n.raw = old.raw
	}
	t := *s.Topology
	t.Nodes = slices.Clone(t.Nodes)
	t.Nodes[i] = n
	moved := newMACs(old, n)
	out := State{&t, s.Auto, s.Node}
	t.Links = slices.Clone(t.Links)
	for i, l := range t.Links {
		named := l.Name == LinkName(l.A, l.Z)
		for _, end := range []struct {
			node, mac *string
			peer      string
		}{{&l.A, &l.AMAC, l.Z}, {&l.Z, &l.ZMAC, l.A}} {
			if *end.node != name {
				continue
			}
			*end.node = n.Name
			if mac, changed := moved[*end.mac]; changed {
				out = out.rename(&faults, []string{end.peer, "linkParamsOverride"}, *end.mac, mac)
				*end.mac = mac
			}
		}
		if named {
			l.Name = LinkName(l.A, l.Z)
		}
		t.Links[i] = l
	}
	for _, mac := range slices.Sorted(maps.Keys(moved)) {
		out = out.rename(&faults, []string{name, "radioParamsOverride"}, mac, moved[mac])
	}
	out = out.rename(&faults, nil, name, n.Name)
	return s.checkNext(out, faults)
}

// newMACs maps the replaced MACs of a node to the new ones.
func newMACs(old, n Node) map[string]string {
	out := map[string]string{}
	if old.MAC != "" && n.MAC != "" && n.MAC != old.MAC {
		out[old.MAC] = n.MAC
	}
	for i, mac := range old.WlanMACs {
		if i < len(n.WlanMACs) && n.WlanMACs[i] != mac && !slices.Contains(n.WlanMACs, mac) {
			out[mac] = n.WlanMACs[i]
		}
	}
	return out
}

// EditLink replaces a link by l, which must join the same nodes.
func (s State) EditLink(name string, l Link) (State, config.Faults) {
	old, i, faults := findObject(s.Topology.Links, "links", name, func(l Link) string { return l.Name })
	if faults != nil {
		return s, faults
	}
	if l.A != old.A || l.Z != old.Z {
		faults.Add([]string{"links", name}, "leads to other nodes",
			"must be the link's own nodes; another link is deleted and added")
		return s, faults
	}
	if l.raw == nil {
		l.raw = old.raw
	}
	t := *s.Topology
	t.Links = slices.Clone(t.Links)
	t.Links[i] = l
	out := State{&t, s.Auto, s.Node}
	if old.ZMAC != "" && l.ZMAC != "" {
		out = out.rename(&faults, []string{l.A, "linkParamsOverride"}, old.ZMAC, l.ZMAC)
	}
	if old.AMAC != "" && l.AMAC != "" {
		out = out.rename(&faults, []string{l.Z, "linkParamsOverride"}, old.AMAC, l.AMAC)
	}
	return s.checkNext(out, faults)
}

// EditSite replaces a site; if its name changes, its nodes follow.
func (s State) EditSite(name string, site Site) (State, config.Faults) {
	old, i, faults := findObject(s.Topology.Sites, "sites", name, func(s Site) string { return s.Name })
	if faults != nil {
		return s, faults
	}
	if site.raw == nil {
		site.raw = old.raw
	}
	t := *s.Topology
	t.Sites = slices.Clone(t.Sites)
	t.Sites[i] = site
	t.Nodes = slices.Clone(t.Nodes)
	for i := range t.Nodes {
		if t.Nodes[i].Site == name {
			t.Nodes[i].Site = site.Name
		}
	}
	return s.checkNext(State{&t, s.Auto, s.Node}, nil)
}

// DeleteNode deletes a node with its links and its layers.
func (s State) DeleteNode(name string) (State, config.Faults) {
	_, i, faults := findObject(s.Topology.Nodes, "nodes", name, func(n Node) string { return n.Name })
	if faults != nil {
		return s, faults
	}
	out := s
	for _, l := range s.Topology.Links {
		if l.A == name || l.Z == name {
			out, _ = out.DeleteLink(l.Name)
		}
	}
	t := *out.Topology
	t.Nodes = slices.Delete(slices.Clone(t.Nodes), i, i+1)
	path := []string{name}
	return State{&t, config.Unset(out.Auto, path), config.Unset(out.Node, path)}, nil
}

// DeleteLink deletes a link, and the overrides that each end has for the other's MAC; a node without other overrides is
// removed from the layer.
func (s State) DeleteLink(name string) (State, config.Faults) {
	l, i, faults := findObject(s.Topology.Links, "links", name, func(l Link) string { return l.Name })
	if faults != nil {
		return s, faults
	}
	t := *s.Topology
	t.Links = slices.Delete(slices.Clone(t.Links), i, i+1)
	out := State{&t, s.Auto, s.Node}
	for node, mac := range map[string]string{l.A: l.ZMAC, l.Z: l.AMAC} {
		path := []string{node, "linkParamsOverride", mac}
		out.Auto, out.Node = config.Prune(out.Auto, path), config.Prune(out.Node, path)
	}
	return out, nil
}

// DeleteSite deletes a site, which must have no nodes.
func (s State) DeleteSite(name string) (State, config.Faults) {
	_, i, faults := findObject(s.Topology.Sites, "sites", name, func(s Site) string { return s.Name })
	for j, n := range s.Topology.Nodes {
		if n.Site == name {
			faults.Add(itemPath("nodes", j, "site_name"), config.Invalid(name)+": node "+config.Quote(n.Name)+" is on it",
				"must be a site without nodes")
		}
	}
	if faults != nil {
		return s, faults
	}
	t := *s.Topology
	t.Sites = slices.Delete(slices.Clone(t.Sites), i, i+1)
	return State{&t, s.Auto, s.Node}, nil
}

// checkNext returns the new state if it is consistent, otherwise the old one and the faults. It reads the topology like
// a file, so that the same faults are found.
func (s State) checkNext(next State, faults config.Faults) (State, config.Faults) {
	read, more := FromDocument(next.Topology.Document())
	if faults = append(faults, more...); len(faults) > 0 {
		faults.Sort()
		return s, faults
	}
	next.Topology = read
	return next, nil
}

// rename moves the values below a path from one key to another, in both layers. An existing value at the new key is a
// fault, and is not overwritten.
func (s State) rename(faults *config.Faults, path []string, from, to string) State {
	move := func(name string, layer config.Object) config.Object {
		old, place := config.Below(path, from), config.Below(path, to)
		v, found := config.Lookup(layer, old)
		if !found || from == to {
			return layer
		}
		if _, taken := config.Lookup(layer, place); taken {
			faults.Add(config.Below([]string{name}, place...), "exists already",
				"must be a name or MAC without overrides")
		}
		return config.Set(config.Unset(layer, old), place, v)
	}
	return State{s.Topology, move("auto", s.Auto), move("node", s.Node)}
}

// findObject finds the object to edit.
func findObject[T any](all []T, list, name string, of func(T) string) (T, int, config.Faults) {
	i := slices.IndexFunc(all, func(x T) bool { return of(x) == name })
	if i >= 0 {
		return all[i], i, nil
	}
	var none T
	return none, -1, config.Faults{{Path: []string{list}, Problem: "has no " + config.Quote(name),
		Expectation: "must be an existing name"}}
}
