package override

import (
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
)

// Op is the kind of a write.
type Op int

// The kinds of writes. Set replaces the complete network layer, or the complete layer of each named node; other nodes
// keep theirs.
const (
	Set Op = iota
	Modify
	Unset
)

var opNames = [...]string{"set", "modify", "unset"}

func (o Op) String() string { return opNames[o] }

// Change is one write. A write to the node layer has the form {node: {…}}: the overrides and each key begin with a
// node's name.
type Change struct {
	Layer     layers.Layer  // Network or Node; any other is refused
	Op        Op            //
	Overrides config.Object // for Set and Modify
	// Keys are removed by Unset, all or none. A node's name alone removes its layer. An object that becomes empty is
	// removed too, since it would add {} to the config.
	Keys [][]string
	// Auto returns the auto layer of a node, which the controller derives from its new node layer; nil: auto layers do not
	// change. A nil result removes the layer.
	Auto func(node string, own config.Object) config.Object
}

// Inputs is the state of a fleet in which a write is checked. It is immutable.
type Inputs struct {
	Kinds    map[string]layers.Set // base, firmware and hardware layer of each kind of nodes
	Network  config.Object
	Nodes    map[string]Node    // all known nodes, with or without overrides
	Metadata *metadata.Metadata // nil: no rules, and nothing is read-only or deprecated
	// Rules are the rules of kinds whose board has its own, and Base applies to all other kinds. Without Base those use
	// Metadata, which always defines the secrets.
	Rules      map[string]*metadata.Metadata
	Base       *metadata.Metadata
	InTopology map[string]bool // the nodes that a write may name; nil: all
	Sections   Sections
}

// Sections describes the top-level keys whose entries refer to each other: a node's ports, networks and apps, as in
// config/nodeconf. The zero value describes none.
type Sections struct {
	Keys    []string                                                       // sorted
	Present func(effective config.Object) config.Object                    // removes the entries marked absent
	Check   func(effective config.Object) (warnings, faults config.Faults) // checks between fields; sorted by path
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

// Node is one node of Inputs.
type Node struct {
	Kind      string // of Inputs.Kinds, "" included
	Auto, Own config.Object
}

// Result is the effect of an accepted write.
type Result struct {
	Changed bool // whether the layer differs from before
	Network config.Object
	// Nodes are the node layers that change; nil: removed.
	Nodes map[string]config.Object
	// Autos are the auto layers that change by Change.Auto; nil: removed.
	Autos map[string]config.Object
	// Effects are the changes on the nodes, grouped by equal changes and sorted by their first node. Nodes without changes
	// are in none.
	Effects  []Effect
	Warnings WriteFaults // undescribed keys, and warnings of the sections
}

// Effect is the change of a write to the effective config of some nodes.
type Effect struct {
	Nodes   []string      // sorted; none: any node of a kind without known nodes
	Diff    config.Object // config.FullDiff of the first node's configs, secrets not masked
	Values  []Value
	Actions []metadata.Action // in the order of execution
}

// Value is one changed value of the effective config; secrets are masked.
type Value struct {
	Path           []string
	Old, New       any
	HadOld, HasNew bool
	Origin         layers.Layer // of the new value
}

// Apply checks a write and returns its result. With faults there is no result.
func Apply(w Inputs, c Change) (Result, WriteFaults) {
	e := editor{inputs: w, change: c, verdicts: map[string]*verdict{}}
	if c.Layer != layers.Network && c.Layer != layers.Node {
		e.add(WriteFault{Rule: RuleRequest, Problem: "the " + c.Layer.String() + " layer can't be written",
			Expectation: "must be network or node"})
		return Result{}, e.faults
	}
	writes := e.planWrites()
	for _, p := range writes {
		e.checkMarks(p)
	}
	if c.Layer == layers.Network {
		e.validateNetwork(writes)
	} else {
		e.validateNodes(writes)
	}
	if len(e.faults) > 0 {
		return Result{}, e.faults.Merged()
	}
	return e.result(writes), nil
}

// rules returns the rules for the nodes of a kind.
func (w Inputs) rules(kind string) *metadata.Metadata {
	switch {
	case w.Rules[kind] != nil:
		return w.Rules[kind]
	case w.Base != nil:
		return w.Base
	}
	return w.Metadata
}

type editor struct {
	inputs   Inputs
	change   Change
	faults   WriteFaults
	warnings WriteFaults
	verdicts map[string]*verdict // by the digests of nodes' layers within the scope, so that equal nodes share one
	shared   []shared
	hasher   config.Hasher
	autos    map[string]config.Object
	file     bool // the write is to a file without layers
}

// shared are the nodes that share one verdict.
type shared struct {
	nodes []string
	*verdict
}

func (e *editor) add(f WriteFault) { e.faults = append(e.faults, f) }

// write is one layer before and after; with broken set, the new layer is unknown.
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
	r := Result{Network: e.inputs.Network, Warnings: e.warnings.Merged(), Autos: e.autos, Changed: len(e.autos) > 0}
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

// same reports whether a layer is unchanged. An empty layer differs from a missing one.
func same(old, after config.Object) bool {
	return (old == nil) == (after == nil) && config.Equal(old, after)
}

// effects groups nodes with equal changes.
func (e *editor) effects() []Effect {
	var out []Effect
	at := map[string]int{}
	for _, j := range e.shared {
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
