package override

import (
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
)

// Op is what a write does.
type Op int

// What a write does. Set replaces the whole network layer, or the whole layer of each node
// that is named; the others stay.
const (
	Set Op = iota
	Modify
	Unset
)

var opNames = [...]string{"set", "modify", "unset"}

func (o Op) String() string { return opNames[o] }

// Change is one write. To the node layer it is written as {node: {…}}: a node's name comes
// first in the overrides and in each key.
type Change struct {
	Layer     layers.Layer  // Network or Node; every other one is refused
	Op        Op            //
	Overrides config.Object // Set and Modify
	// Keys are removed by Unset, all of them or none. A node's name alone removes its whole
	// layer. An object that becomes empty by it goes too, as it would add {} to the config.
	Keys [][]string
	// Auto is what the auto layer of a node becomes by what its node layer becomes, for what
	// the controller derives from that; nil: it stays. Nil of it is a layer that is gone.
	Auto func(node string, own config.Object) config.Object
}

// World is what a write is checked in. Nobody changes it.
type World struct {
	Kinds    map[string]layers.Set // base, firmware and hardware of a kind of nodes
	Network  config.Object
	Nodes    map[string]Node    // every node that is known, with or without overrides
	Metadata *metadata.Metadata // nil: no rules, nothing is read-only or deprecated
	// Rules are those of kinds whose board has rules of its own, and Base those of all others;
	// without it they go by Metadata, which says what is secret in any case.
	Rules      map[string]*metadata.Metadata
	Base       *metadata.Metadata
	InTopology map[string]bool // the nodes that may be named; nil: every node
	Sections   Sections
}

// Sections is what is known of the top-level keys whose entries refer to each other: a node's
// ports, networks and apps, as config/nodeconf has them. The zero value knows none.
type Sections struct {
	Keys    []string                                                       // sorted
	Present func(effective config.Object) config.Object                    // without the entries that a layer made absent
	Check   func(effective config.Object) (warnings, faults config.Faults) // between fields; in the order of the paths
}

func (s Sections) present(effective config.Object) config.Object {
	if s.Present == nil {
		return effective
	}
	return s.Present(effective)
}

func (s Sections) check(effective config.Object) (warnings, faults config.Faults) {
	if s.Check == nil {
		return nil, nil
	}
	return s.Check(effective)
}

// Node is one node of a world.
type Node struct {
	Kind      string // of World.Kinds; "" as well
	Auto, Own config.Object
}

// Result is what an accepted write does.
type Result struct {
	Changed bool // whether the layer says anything else than before
	Network config.Object
	// Nodes are the new node layers of those nodes whose layer changes; nil: it is gone.
	Nodes map[string]config.Object
	// Autos are the same of the auto layer, by Change.Auto.
	Autos map[string]config.Object
	// Effects is what changes on the nodes, those with equal changes together, in the order
	// of their first node. A node whose config stays the same is in none.
	Effects  []Effect
	Warnings Faults // keys that nobody described, and those of the sections
}

// Effect is what a write changes in the effective config of some nodes.
type Effect struct {
	Nodes   []string      // sorted; none: what any node of a kind without known nodes would see
	Diff    config.Object // config.FullDiff of the first node's configs, secrets as they are
	Values  []Value
	Actions []metadata.Action // in the order of execution
}

// Value is one value of the effective config that changes; a secret is masked.
type Value struct {
	Path           []string
	Old, New       any
	HadOld, HasNew bool
	Origin         layers.Layer // of the new value
}

// Apply checks a write and makes it. With faults there is no result.
func Apply(w World, c Change) (Result, Faults) {
	e := editor{world: w, change: c, verdicts: map[string]*verdict{}}
	if c.Layer != layers.Network && c.Layer != layers.Node {
		e.add(Fault{Rule: RuleRequest, Problem: "the " + c.Layer.String() + " layer can't be written",
			Expectation: "must be network or node"})
		return Result{}, e.faults
	}
	writes := e.writes()
	for _, p := range writes {
		e.marks(p)
	}
	if c.Layer == layers.Network {
		e.validateNetwork(writes)
	} else {
		e.validateNodes(writes)
	}
	if len(e.faults) > 0 {
		return Result{}, e.faults.Together()
	}
	return e.result(writes), nil
}

// rules are those that count for the nodes of a kind.
func (w World) rules(kind string) *metadata.Metadata {
	switch {
	case w.Rules[kind] != nil:
		return w.Rules[kind]
	case w.Base != nil:
		return w.Base
	}
	return w.Metadata
}

type editor struct {
	world    World
	change   Change
	faults   Faults
	warnings Faults
	verdicts map[string]*verdict // of nodes whose layers are equal where it matters
	judged   []judged
	hasher   config.Hasher
	autos    map[string]config.Object
	file     bool // the write is to a file without layers
}

// judged are the nodes of one verdict.
type judged struct {
	nodes []string
	*verdict
}

func (e *editor) add(f Fault) { e.faults = append(e.faults, f) }

// write is one layer before and after; with broken nobody knows what comes after.
type write struct {
	node     string // "" for the network layer
	old, new config.Object
	broken   bool
}

func (w write) nodes() []string {
	if w.node == "" {
		return nil
	}
	return []string{w.node}
}

func (e *editor) result(writes []write) Result {
	r := Result{Network: e.world.Network, Warnings: e.warnings.Together(), Autos: e.autos, Changed: len(e.autos) > 0}
	for _, w := range writes {
		if same(w.old, w.new) {
			continue
		}
		r.Changed = true
		if e.change.Layer == layers.Network {
			r.Network = w.new
			continue
		}
		if r.Nodes == nil {
			r.Nodes = map[string]config.Object{}
		}
		r.Nodes[w.node] = w.new
	}
	r.Effects = e.effects()
	return r
}

// same says whether a layer stays as it is. An empty one is not the same as none.
func same(old, after config.Object) bool {
	return (old == nil) == (after == nil) && config.Equal(old, after)
}

// effects brings nodes with equal changes together.
func (e *editor) effects() []Effect {
	var out []Effect
	at := map[string]int{}
	for _, j := range e.judged {
		if len(j.values) == 0 {
			continue
		}
		i, known := at[j.name]
		if !known {
			i = len(out)
			at[j.name] = i
			out = append(out, Effect{Diff: j.diff, Values: j.values, Actions: j.actions})
		}
		out[i].Nodes = append(out[i].Nodes, j.nodes...)
	}
	for _, x := range out {
		slices.Sort(x.Nodes)
	}
	slices.SortStableFunc(out, func(a, b Effect) int { return slices.Compare(a.Nodes, b.Nodes) })
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
