package fleet

import (
	"fmt"
	"slices"
	"time"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/stateloop/peer"
)

// DesiredConfigs holds the desired config of every node. Each change returns the nodes whose own config it affects,
// sorted by name. It is not safe for concurrent use.
type DesiredConfigs struct {
	authority string
	hardware  Hardware
	layers    *layers.EffectiveConfigs
	kinds     map[string]bool
	nodes     map[string]*nodeDesired
	peers     Peers // nil: no config has a PeerConfiguration
	trials    map[string]Trial
}

// Trial replaces layers of one node for a while: its config is tried, and not confirmed.
type Trial struct {
	Network, Auto, Own config.Object
	Undo               time.Duration // after which the node undoes it
}

// Peers returns the PeerConfiguration that belongs to the config of a node, nil for none, and its digest, from the
// node's layers and their MD5. It is called for each node that is computed; for most it returns nothing.
type Peers func(node string, set layers.Set, md5 string) (with *peer.Configuration, digest string)

type nodeDesired struct {
	kind    Kind
	counted Counted
	desired Desired // as returned last
}

// Touched is a node whose desired config changed. Counted is stored by compare-and-set before the node's machine gets
// Desired.
type Touched struct {
	Node    string
	Desired Desired
	Counted Counted
}

// NewFleet returns a Fleet without nodes. The authority is the store's id: a store restored to an old state needs
// another one, or generations would repeat.
func NewFleet(authority string, h Hardware, network config.Object) (*DesiredConfigs, error) {
	if err := config.CheckAuthority(authority); err != nil {
		return nil, fmt.Errorf("make fleet: %w", err)
	}
	return &DesiredConfigs{
		authority: authority, hardware: h, layers: layers.NewFleet(network),
		kinds: map[string]bool{}, nodes: map[string]*nodeDesired{}, trials: map[string]Trial{},
	}, nil
}

// Kind returns the kind of these versions, and whether its layers were set.
func (f *DesiredConfigs) Kind(v layers.Versions) (k Kind, set bool) {
	k = f.hardware.KindOf(v)
	return k, f.kinds[k.Name]
}

// SetKind sets the layers of a kind; Kind.Choice names them.
func (f *DesiredConfigs) SetKind(k Kind, base, firmware, hardware config.Object) ([]Touched, error) {
	f.kinds[k.Name] = true
	return f.changedConfigs(f.layers.SetKind(k.Name, base, firmware, hardware))
}

// SetHardware replaces the known versions and boards, and returns the nodes whose kind changed: the caller must Put
// them again.
func (f *DesiredConfigs) SetHardware(h Hardware) (others []string) {
	f.hardware = h
	kinds := map[layers.Versions]Kind{} // few kinds, many nodes
	for name, w := range f.nodes {
		k, found := kinds[w.desired.For]
		if !found {
			k = h.KindOf(w.desired.For)
			kinds[w.desired.For] = k
		}
		if k != w.kind {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return others
}

// SetNetwork replaces the network layer.
func (f *DesiredConfigs) SetNetwork(o config.Object) ([]Touched, error) {
	return f.changedConfigs(f.layers.SetNetwork(o))
}

// Put adds a node or replaces its versions and layers. The layers of its kind must be set before. For a node that is
// new here, counted is the stored value.
func (f *DesiredConfigs) Put(node string, v layers.Versions, auto, own config.Object, counted Counted) ([]Touched,
	error) {
	k, set := f.Kind(v)
	if !set {
		return nil, fmt.Errorf("put node %s: its kind (base %q, firmware %q, hardware %q) has no layers yet", node, k.Base,
			k.Firmware, k.Hardware)
	}
	if _, err := f.layers.Put(node, k.Name, auto, own); err != nil {
		return nil, fmt.Errorf("put node: %w", err)
	}
	w := f.nodes[node]
	if w == nil {
		w = &nodeDesired{counted: counted}
		f.nodes[node] = w
	}
	w.kind, w.desired.For = k, v
	return f.updateConfigs([]string{node}, true)
}

// SetPeers sets the source of PeerConfigurations. It is used from the next computation of a node on.
func (f *DesiredConfigs) SetPeers(p Peers) { f.peers = p }

// Recompute computes nodes again because their PeerConfigurations may have changed. Unknown names are ignored.
func (f *DesiredConfigs) Recompute(nodes ...string) ([]Touched, error) {
	return f.changedConfigs(slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return f.nodes[name] == nil }))
}

// Remove forgets a node.
func (f *DesiredConfigs) Remove(node string) {
	f.layers.Remove(node)
	delete(f.nodes, node)
}

// Counted returns how far a node's generations are counted here. The store may be behind or ahead.
func (f *DesiredConfigs) Counted(node string) (Counted, bool) {
	if w := f.nodes[node]; w != nil {
		return w.counted, true
	}
	return Counted{}, false
}

// SetTrial begins or ends (nil) the trial of a config on a node. It lasts until then, also if the node is removed and
// put again.
func (f *DesiredConfigs) SetTrial(node string, t *Trial) ([]Touched, error) {
	if t == nil {
		delete(f.trials, node)
	} else {
		f.trials[node] = *t
	}
	return f.Recompute(node)
}

// trialOf returns the trial of a node. It has none while an operator does not want the node to be managed.
func (f *DesiredConfigs) trialOf(node string) (t Trial, tried bool) {
	if t, tried = f.trials[node]; !tried {
		return t, false
	}
	own, _ := f.layers.Layers(node)
	_, clashes := f.layers.MD5(node)
	return t, clashes != nil || isManaged(own)
}

// Layers returns the layers of a node's desired config.
func (f *DesiredConfigs) Layers(node string) (layers.Set, bool) {
	set, known := f.layers.Layers(node)
	if t, tried := f.trialOf(node); tried {
		set[layers.Network], set[layers.Auto], set[layers.Node] = t.Network, t.Auto, t.Own
	}
	return set, known
}

// effective returns the digest of a node's desired config, or its clashes, and how long it is tried: 0 for a config
// that the node should have anyway.
func (f *DesiredConfigs) effective(node string) (md5 string, clashes layers.Clashes, trial time.Duration) {
	md5, clashes = f.layers.MD5(node)
	t, tried := f.trialOf(node)
	if !tried {
		return md5, clashes, 0
	}
	set, _ := f.Layers(node)
	o, clashes := set.Effective()
	if clashes != nil {
		return "", clashes, 0
	}
	if own := config.MD5(o); own != md5 {
		return own, nil, t.Undo
	}
	return md5, nil, 0
}

func (f *DesiredConfigs) changedConfigs(names []string) ([]Touched, error) {
	return f.updateConfigs(names, false)
}

// updateConfigs computes the desired configs of some nodes and returns those that changed; with tell, it returns all of
// them.
func (f *DesiredConfigs) updateConfigs(names []string, tell bool) (out []Touched, err error) {
	for _, name := range names {
		w := f.nodes[name]
		next := Desired{Generation: w.counted.Generation, For: w.desired.For, Unknown: w.kind.Unknown}
		md5, clashes, trial := f.effective(name)
		if clashes != nil {
			next.Fault = clashes.Error()
		} else {
			set, _ := f.Layers(name)
			next.Digest, next.Trial = Digest{Config: md5}, trial
			if f.peers != nil {
				next.With, next.Digest.Peer = f.peers(name, set, md5)
			}
			counted, _, err := w.counted.Allocate(f.authority, next.Digest)
			if err != nil {
				return out, fmt.Errorf("node %s: %w", name, err)
			}
			counted.Trial = trial > 0
			w.counted, next.Generation = counted, counted.Generation
			next.Managed = isManaged(set)
		}
		if next == w.desired && !tell {
			continue
		}
		w.desired = next
		out = append(out, Touched{Node: name, Desired: next, Counted: w.counted})
	}
	return out, nil
}

// isManaged reads sysParams.managedConfig of the effective config: if it is missing or not a boolean, the node is not
// managed.
func isManaged(s layers.Set) bool {
	for l := layers.Node; l >= layers.Base; l-- {
		if v, found := config.Lookup(s[l], []string{"sysParams", "managedConfig"}); found {
			ok, _ := v.(bool)
			return ok
		}
	}
	return false
}
