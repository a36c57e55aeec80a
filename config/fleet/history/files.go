package history

import (
	"strings"

	"edgespan/config"
	"edgespan/config/fleet/topology"
	"edgespan/config/layers"
)

// Files holds the documents of the seed's files under /data/cfg. A missing file is nil.
type Files struct {
	Network  config.Object            // network_config_overrides.json
	Nodes    config.Object            // node_config_overrides.json, {node: {…}}
	Auto     config.Object            // auto_node_config_overrides.json, {node: {…}}
	Topology config.Object            // e2e_topology.conf
	Metadata config.Object            // config_metadata.json
	E2E      map[string]config.Object // "controller": controller_config.json, …
}

// Import returns the change that replaces the layers by the content of files: a node that a file lacks loses its layer,
// and a missing file changes nothing. Deprecated and read-only values are allowed, because a file may have been in
// place when the controller first started. Faults (config.Faults, with the layer as the first segment of the path) are
// a node's layer that is not an object, and the faults of a topology.
func (s State) Import(f Files) (Change, error) {
	c := Change{Message: "import files", Layers: map[Layer]config.Object{}}
	var faults config.Faults
	for kind, doc := range map[Kind]config.Object{Network: f.Network, Topology: f.Topology, Metadata: f.Metadata} {
		if doc != nil {
			c.Layers[Layer{Kind: kind}] = doc
		}
	}
	for name, doc := range f.E2E {
		if doc != nil {
			c.Layers[Layer{E2E, name}] = doc
		}
	}
	if f.Topology != nil {
		_, wrong := topology.FromDocument(f.Topology)
		faults = prefixFaults(faults, Topology, wrong)
	}
	have, err := s.entries(s.objects())
	if err != nil {
		return Change{}, err
	}
	for kind, doc := range map[Kind]config.Object{Node: f.Nodes, Auto: f.Auto} {
		if doc == nil {
			continue
		}
		for _, e := range have {
			if e.Layer.Kind == kind {
				c.Layers[e.Layer] = nil
			}
		}
		nodes, wrong := layers.NodeLayers(doc)
		faults = prefixFaults(faults, kind, wrong)
		for name, own := range nodes {
			c.Layers[Layer{kind, name}] = own
		}
	}
	if faults.Sort(); len(faults) > 0 {
		return Change{}, faults
	}
	return c, nil
}

// prefixFaults adds the faults of a layer.
func prefixFaults(faults config.Faults, k Kind, more config.Faults) config.Faults {
	for _, f := range more {
		f.Path = config.Below([]string{k.String()}, f.Path...)
		faults = append(faults, f)
	}
	return faults
}

// Export returns the state as files, without the parts that belong to single replicas. If no node has a layer, the node
// file is {}.
func (s State) Export() (Files, error) {
	all, err := s.AllLayers()
	if err != nil {
		return Files{}, err
	}
	f := Files{Nodes: config.Object{}, Auto: config.Object{}}
	for _, v := range all {
		switch v.Layer.Kind {
		case Network:
			f.Network = v.Document
		case Node:
			f.Nodes[v.Layer.Name] = v.Document
		case Auto:
			f.Auto[v.Layer.Name] = v.Document
		case Topology:
			f.Topology = v.Document
		case Metadata:
			f.Metadata = v.Document
		case E2E:
			if strings.Contains(v.Layer.Name, "/") {
				continue
			}
			if f.E2E == nil {
				f.E2E = map[string]config.Object{}
			}
			f.E2E[v.Layer.Name] = v.Document
		case Peer, Cluster, Deployment: // the seed has no such files
		}
	}
	return f, nil
}
