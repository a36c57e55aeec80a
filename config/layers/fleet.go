package layers

import (
	"fmt"
	"maps"
	"slices"

	"edgespan/config"
)

// EffectiveConfigs keeps the digests of the effective configs of many nodes. Nodes of one kind (equal software,
// firmware and hardware) share the layers below their own; of each node it keeps only the overrides and the digest,
// and computes the config on demand. It is not safe for concurrent use.
type EffectiveConfigs struct {
	network config.Object
	kinds   map[string]*kind
	nodes   map[string]*member
	hasher  config.Hasher
}

type kind struct {
	layers Set           // base, firmware and hardware
	merged config.Object // all three merged; nil if they clash
	plain  *member       // the result for a node without layers of its own; nil: not computed yet
}

type member struct {
	kind      string
	auto, own config.Object
	md5       string  // "" with clashes
	clashes   Clashes // as returned by Effective
}

// NewFleet returns a fleet without nodes.
func NewFleet(network config.Object) *EffectiveConfigs {
	return &EffectiveConfigs{network: network, kinds: map[string]*kind{}, nodes: map[string]*member{}}
}

// SetKind sets the layers of a kind and returns the nodes whose config has changed.
func (f *EffectiveConfigs) SetKind(name string, base, firmware, hardware config.Object) []string {
	k := &kind{layers: Set{Base: base, Firmware: firmware, Hardware: hardware}}
	merged, clashes := k.layers.Effective()
	if clashes == nil {
		k.merged = merged
	}
	f.kinds[name] = k
	return f.refresh(func(m *member) bool { return m.kind == name })
}

// SetNetwork replaces the network layer and returns the nodes whose config has changed.
func (f *EffectiveConfigs) SetNetwork(o config.Object) []string {
	f.network = o
	for _, k := range f.kinds {
		k.plain = nil
	}
	return f.refresh(func(*member) bool { return true })
}

// Put adds or replaces a node, and reports whether its config has changed. The kind must have been set.
func (f *EffectiveConfigs) Put(node, kindName string, auto, own config.Object) (changed bool, err error) {
	if f.kinds[kindName] == nil {
		return false, fmt.Errorf("node %s: kind %q has no layers", node, kindName)
	}
	old := f.nodes[node]
	m := &member{kind: kindName, auto: auto, own: own}
	f.nodes[node] = m
	f.compute(m)
	return old == nil || old.differs(m), nil
}

// Remove forgets a node.
func (f *EffectiveConfigs) Remove(node string) { delete(f.nodes, node) }

// Nodes returns all nodes, sorted.
func (f *EffectiveConfigs) Nodes() []string { return slices.Sorted(maps.Keys(f.nodes)) }

// MD5 returns the digest of a node's effective config, or its clashes instead. Both are empty for an unknown node.
func (f *EffectiveConfigs) MD5(node string) (string, Clashes) {
	m := f.nodes[node]
	if m == nil {
		return "", nil
	}
	return m.md5, m.clashes
}

// Layers returns the layers of a node.
func (f *EffectiveConfigs) Layers(node string) (Set, bool) {
	m := f.nodes[node]
	if m == nil {
		return Set{}, false
	}
	return f.layers(m), true
}

func (f *EffectiveConfigs) layers(m *member) Set {
	s := f.kinds[m.kind].layers
	s[Auto], s[Network], s[Node] = m.auto, f.network, m.own
	return s
}

// refresh computes the selected nodes again.
func (f *EffectiveConfigs) refresh(which func(*member) bool) (changed []string) {
	for name, m := range f.nodes {
		if !which(m) {
			continue
		}
		old := *m
		if f.compute(m); old.differs(m) {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}

// compute computes a member's config and digest, with the layers of its kind merged into one. Members without layers of
// their own share the result.
func (f *EffectiveConfigs) compute(m *member) {
	k := f.kinds[m.kind]
	plain := len(m.auto) == 0 && len(m.own) == 0
	if plain && k.plain != nil {
		m.md5, m.clashes = k.plain.md5, k.plain.clashes
		return
	}
	f.computeAlone(m)
	if plain {
		k.plain = m.clone()
	}
}

func (m *member) clone() *member {
	c := *m
	return &c
}

func (f *EffectiveConfigs) computeAlone(m *member) {
	m.md5, m.clashes = "", nil
	if merged := f.kinds[m.kind].merged; merged != nil {
		o, clashes := Set{Base: merged, Auto: m.auto, Network: f.network, Node: m.own}.Effective()
		if clashes == nil {
			m.md5 = f.hasher.MD5(o)
			return
		}
	}
	_, m.clashes = f.layers(m).Effective() // name the original layers of the clashes; rare, so the cost is acceptable
}

// differs reports whether two states of a member are different configs.
func (m *member) differs(other *member) bool {
	return m.md5 != other.md5 || m.clashes.Error() != other.clashes.Error()
}
