package optimize

import (
	"cmp"
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/fleet/topology"
)

// Kind is one of the four optimisations.
type Kind string

// The kinds: polarity and channel are assigned to radios, golay and superframe to links.
const (
	Polarity   Kind = "polarity"
	Channel    Kind = "channel"
	Golay      Kind = "golay"
	Superframe Kind = "superframe"
)

// All lists the kinds in their order of dependence: interference depends on polarities, and that of golay codes on
// channels.
var All = []Kind{Polarity, Channel, Golay, Superframe}

// Input is the input of an optimisation. The base layers are not used.
type Input struct {
	Topology *topology.Topology
	Auto     config.Object // {node: overrides}, the current ones
	Network  config.Object // overrides
	Node     config.Object // {node: overrides}
	Channels []int64       // that may be assigned, 1 to 4; nil means channel 2, as in the original
	// ClearUser removes values from the node layer instead of keeping them. Values of the network layer are always kept:
	// they do not belong to one node.
	ClearUser bool
}

// Result is the result of an optimisation.
type Result struct {
	Auto, Node config.Object // the complete documents, each MAC with one spelling
	Changes    []Change      // sorted
	Notes      []string      // for people: a cover that may not be minimal
}

// Change is one changed value of a layer.
type Change struct {
	Layer    string   // "auto" or "node"
	Path     []string // beginning with the node's name
	Old, New any      // nil for none
}

// LayerFault is a reason why nothing can be assigned, with the nodes concerned, sorted. Its path begins with the
// layer's name, or with "links" and a link's name.
type LayerFault struct {
	config.Fault
	Nodes []string
}

// LayerFaults are all reasons why nothing can be assigned.
type LayerFaults []LayerFault

// Run executes the given kinds, in the order of All, each on the results of the one before. With faults there is no
// result.
func Run(in Input, kinds ...Kind) (Result, LayerFaults) {
	r := run{in: in, net: newNetwork(in.Topology), result: Result{Auto: in.Auto, Node: in.Node},
		about: map[string][]string{}}
	r.faults = channelFaults(in.Channels)
	for _, kind := range All {
		if slices.Contains(kinds, kind) {
			r.one(kind)
		}
	}
	if len(r.faults) > 0 {
		return Result{}, r.named()
	}
	slices.SortFunc(r.result.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), slices.Compare(a.Path, b.Path))
	})
	return r.result, nil
}

// run is one call of Run. Its result is the input of the next kind.
type run struct {
	in     Input
	net    *network
	view   *view
	result Result
	faults config.Faults
	about  map[string][]string // the nodes of faults, by text
}

// named returns the faults without duplicates, with their nodes.
func (r *run) named() LayerFaults {
	r.faults.Sort()
	var out LayerFaults
	for i, f := range r.faults {
		if i > 0 && f.Error() == r.faults[i-1].Error() {
			continue
		}
		nodes := r.about[f.Error()]
		if len(f.Path) > 1 && (f.Path[0] == "node" || f.Path[0] == "auto") {
			nodes = append(nodes, f.Path[1])
		}
		slices.Sort(nodes)
		out = append(out, LayerFault{f, slices.Compact(nodes)})
	}
	return out
}

// conflict notes a fault between nodes.
func (r *run) conflict(path []string, what, allowed string, nodes ...string) {
	r.view.faults.Add(path, what, allowed)
	text := r.view.faults[len(r.view.faults)-1].Error()
	r.about[text] = append(r.about[text], nodes...)
}

// ends returns the nodes of links.
func (r *run) ends(links ...int) (nodes []string) {
	for _, l := range links {
		for _, end := range r.net.links[l].ends {
			nodes = append(nodes, r.net.radios[end].node)
		}
	}
	return nodes
}

func (r *run) one(kind Kind) {
	r.view = newView(r.in.Topology, r.result.Auto, r.in.Network, r.result.Node, r.in.ClearUser)
	var out []assignment
	params := []param{polarity}
	switch kind {
	case Polarity:
		out = r.polarity()
	case Channel:
		params = []param{channel}
		out = r.channel()
	case Golay:
		params = []param{txGolay, rxGolay}
		out = r.assignGolay()
	case Superframe:
		params = []param{superframe}
		out = r.superframe()
	}
	if r.faults = append(r.faults, r.view.faults...); len(r.faults) > 0 {
		return
	}
	if r.in.ClearUser {
		r.apply("node", &r.result.Node, r.clearings(params))
	}
	r.apply("auto", &r.result.Auto, out)
}

// apply writes assignments to one layer and records the changes.
func (r *run) apply(layer string, doc *config.Object, all []assignment) {
	byNode := map[string][]assignment{}
	for _, a := range all {
		byNode[a.path[0]] = append(byNode[a.path[0]], a)
	}
	out := maps.Clone(*doc)
	if out == nil {
		out = config.Object{}
	}
	for node, all := range byNode {
		old, _ := out[node].(config.Object)
		o := old
		// Two radios with links to one MAC share its values.
		slices.SortFunc(all, func(a, b assignment) int { return slices.Compare(a.path, b.path) })
		all = slices.CompactFunc(all, func(a, b assignment) bool { return slices.Equal(a.path, b.path) })
		for _, a := range all {
			spelt := r.view.layerSpelling(layer, a.path)
			was, _ := config.Lookup(old, spelt)
			o = a.write(o, spelt)
			if !config.Equal(was, a.value) {
				r.result.Changes = append(r.result.Changes, Change{layer, a.path, was, a.value})
			}
		}
		switch {
		case len(o) > 0:
			out[node] = o
		case len(old) > 0:
			delete(out, node)
		}
	}
	*doc = out
}
