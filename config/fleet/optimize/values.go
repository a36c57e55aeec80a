package optimize

import (
	"fmt"
	"slices"

	"edgespan/config"
	"edgespan/config/fleet/topology"
)

// param is one assigned value of the layers.
type param struct {
	base, over string // the key of the value for all, and of those by MAC
	name       string
	allowed    []int64 // values that a user may set
	words      string
}

// The values, as the metadata of the original restricts them.
var (
	polarity = param{"radioParamsBase", "radioParamsOverride", "polarity", []int64{1, 2, 3, 4},
		"must be 1 (odd), 2 (even), 3 (hybrid odd) or 4 (hybrid even)"}
	channel    = param{"radioParamsBase", "radioParamsOverride", "channel", []int64{1, 2, 3, 4}, "must be 1 to 4"}
	txGolay    = param{"linkParamsBase", "linkParamsOverride", "txGolayIdx", []int64{1, 2, 3}, "must be 1 to 3"}
	rxGolay    = param{"linkParamsBase", "linkParamsOverride", "rxGolayIdx", []int64{1, 2, 3}, "must be 1 to 3"}
	superframe = param{"linkParamsBase", "linkParamsOverride", "controlSuperframe", []int64{0, 1, 255},
		"must be 0 or 1 between DNs, 255 to a CN"}
)

// setting is the value of a layer, and its path; nil for none.
type setting struct {
	value int64
	path  []string // beginning with the layer's name
}

func (s setting) given() bool { return s.path != nil }

// assignment is a value for the auto layer, or nil to remove one from a layer.
type assignment struct {
	path  []string // from the node, MACs in normal form
	value any
}

func assign(node, mac string, p param, v int64) assignment {
	return assignment{[]string{node, p.over, mac, "fwParams", p.name}, v}
}

// write applies the assignment to one node's overrides. spelt is the path below the node with the MAC as the document
// spells it; the normal form replaces it.
func (a assignment) write(o config.Object, spelt []string) config.Object {
	if a.value == nil {
		return config.Prune(o, spelt)
	}
	path := a.path[1:]
	if old := spelt[:2]; spelt[1] != path[1] {
		if v, found := config.Lookup(o, old); found {
			o = config.Set(config.Unset(o, old), path[:2], v)
		}
	}
	return config.Set(o, path, a.value)
}

// view reads values of the three layers.
type view struct {
	auto, node map[string]overrides // by node
	network    overrides
	ignore     bool // ignore users' values of the node layer
	faults     config.Faults
}

// overrides are those of one layer, for one node or for all.
type overrides struct {
	name []string // the layer, and the node if it has one
	o    config.Object
	keys map[string]map[string]string // the spelling of the MACs below a key
}

func newView(t *topology.Topology, auto, network, node config.Object, ignore bool) *view {
	v := &view{auto: map[string]overrides{}, node: map[string]overrides{}, ignore: ignore}
	v.network = v.overrides([]string{"network"}, network)
	for _, n := range t.Nodes {
		v.auto[n.Name] = v.overridesOf("auto", auto, n.Name)
		v.node[n.Name] = v.overridesOf("node", node, n.Name)
	}
	return v
}

func (v *view) overridesOf(layer string, doc config.Object, node string) overrides {
	name := []string{layer, node}
	return v.overrides(name, v.object(name, doc, node))
}

// object returns the object below a key; another type there is a fault.
func (v *view) object(path []string, o config.Object, key string) config.Object {
	below, given := o[key]
	object, ok := below.(config.Object)
	if given && !ok {
		v.faults.Add(path, config.InvalidType(config.KindOf(below)), "must be an object")
	}
	return object
}

// overrides notes what can't be read: a value other than an object on the path to a value, and two spellings of one
// MAC.
func (v *view) overrides(name []string, o config.Object) overrides {
	out := overrides{name, o, map[string]map[string]string{}}
	for _, base := range []string{polarity.base, txGolay.base} {
		v.object(config.Below(name, base, "fwParams"), v.object(config.Below(name, base), o, base), "fwParams")
	}
	for _, over := range []string{polarity.over, txGolay.over} {
		keys := map[string]string{}
		all := v.object(config.Below(name, over), o, over)
		for _, key := range config.Keys(all) {
			path := config.Below(name, over, key)
			v.object(config.Below(path, "fwParams"), v.object(path, all, key), "fwParams")
			mac, err := topology.ParseMAC(key)
			if err != nil {
				continue // not a radio; validation reports it
			}
			if first, twice := keys[mac]; twice {
				v.faults.Add(path, "duplicate of the MAC "+first, "must be one spelling of a MAC")
			}
			keys[mac] = key
		}
		out.keys[over] = keys
	}
	return out
}

// layerSpelling returns the path of an assignment below its node, with the MAC as the layer spells it.
func (v *view) layerSpelling(layer string, path []string) []string {
	o := v.auto[path[0]]
	if layer == "node" {
		o = v.node[path[0]]
	}
	out := slices.Clone(path[1:])
	if key, found := o.keys[out[0]][out[1]]; found {
		out[1] = key
	}
	return out
}

// over returns the value of a layer for one MAC, base the one for all.
func (o overrides) over(p param, mac string) (any, []string) {
	key, found := o.keys[p.over][mac]
	if !found {
		return nil, nil
	}
	return o.at(p.over, key, "fwParams", p.name)
}

func (o overrides) base(p param) (any, []string) { return o.at(p.base, "fwParams", p.name) }

func (o overrides) at(path ...string) (any, []string) {
	if v, found := config.Lookup(o.o, path); found {
		return v, config.Below(o.name, path...)
	}
	return nil, nil
}

// user returns the value that users set: the node layer takes precedence over the network layer, and a value by MAC
// over one for all. An invalid value is a fault.
func (v *view) user(node, mac string, p param) setting {
	s, raw := find(p, mac, v.users(node)...)
	if s.path == nil {
		return s
	}
	if i, ok := integer(raw); ok && slices.Contains(p.allowed, i) {
		s.value = i
		return s
	}
	v.faults.Add(s.path, config.InvalidValue(show(raw)), p.words)
	return setting{}
}

func (v *view) users(node string) []overrides {
	if v.ignore {
		return []overrides{v.network}
	}
	return []overrides{v.node[node], v.network}
}

// now returns the current value, including users' values that are being cleared.
func (v *view) now(node, mac string, p param) (int64, bool) {
	_, raw := find(p, mac, v.node[node], v.network, v.auto[node])
	return integer(raw)
}

// find searches layers, the highest first.
func find(p param, mac string, layers ...overrides) (setting, any) {
	for _, l := range layers {
		if raw, path := l.over(p, mac); path != nil {
			return setting{path: path}, raw
		}
	}
	for _, l := range layers {
		if raw, path := l.base(p); path != nil {
			return setting{path: path}, raw
		}
	}
	return setting{}, nil
}

func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), config.Equal(int64(v), v)
	}
	return 0, false
}

func show(v any) string {
	switch v.(type) {
	case config.Object, []any, nil:
		return "of type " + config.KindOf(v)
	}
	return fmt.Sprint(v)
}

// clearings removes users' values of params from the node layer.
func (r *run) clearings(params []param) []assignment {
	var out []assignment
	for _, p := range params {
		for _, n := range r.in.Topology.Nodes {
			out = append(out, assignment{path: []string{n.Name, p.base, "fwParams", p.name}})
		}
		for node, mac := range r.net.keys(p) {
			out = append(out, assignment{path: []string{node, p.over, mac, "fwParams", p.name}})
		}
	}
	return out
}
