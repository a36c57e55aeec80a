package override

import (
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
)

// verdict is the effect of a write on one effective config.
type verdict struct {
	faults, warnings []WriteFault // without nodes
	diff             config.Object
	values           []Value
	actions          []metadata.Action
	name             string // equal for equal values
}

// validateNodes validates writes to the node layer, each on its node.
func (e *editor) validateNodes(writes []write) {
	for _, w := range writes {
		if w.broken {
			continue
		}
		before := e.layersOf(w.node)
		after := before
		after[layers.Node] = w.new
		scope := e.changedKeys(w.old, w.new)
		if e.change.Auto != nil {
			after[layers.Auto] = e.change.Auto(w.node, w.new)
			scope = scope.union(e.recordAuto(w.node, before[layers.Auto], after[layers.Auto]))
		}
		e.assignFaults([]string{w.node}, e.validate(e.inputs.Nodes[w.node].Kind, scope.cutSet(before), scope.cutSet(after)))
	}
}

// recordAuto records an auto layer that changes with the write.
func (e *editor) recordAuto(node string, old, after config.Object) scope {
	if same(old, after) {
		return nil
	}
	if e.autos == nil {
		e.autos = map[string]config.Object{}
	}
	e.autos[node] = after
	return e.changedKeys(old, after)
}

// validateNetwork validates a write to the network layer on every node.
func (e *editor) validateNetwork(writes []write) {
	if w := writes[0]; !w.broken {
		now := e.inputs
		now.Network = w.new
		e.validateDifferences(e.inputs, now)
	}
}

// validateDifferences validates every node whose layers differ between two states. Changes are limited to the
// top-level keys that differ, so nodes of one kind with equal overrides at these keys share one validation.
func (e *editor) validateDifferences(was, now Inputs) {
	network := e.changedKeys(was.Network, now.Network)
	used, by := map[string]bool{}, map[*verdict]int{}
	cutOld, cutNew := network.cut(was.Network), network.cut(now.Network)
	for _, name := range sortedKeys(now.Nodes) {
		oldNode, newNode := was.Nodes[name], now.Nodes[name]
		used[newNode.Kind] = true
		scope := network.union(e.changedKeys(oldNode.Auto, newNode.Auto)).union(e.changedKeys(oldNode.Own, newNode.Own))
		if len(scope) == 0 {
			continue
		}
		before, after := scope.cutSet(now.Kinds[newNode.Kind]), scope.cutSet(now.Kinds[newNode.Kind])
		before[layers.Auto], before[layers.Network], before[layers.Node] = scope.cut(oldNode.Auto), cutOld,
			scope.cut(oldNode.Own)
		after[layers.Auto], after[layers.Network], after[layers.Node] = scope.cut(newNode.Auto), cutNew,
			scope.cut(newNode.Own)
		key := strconv.Quote(newNode.Kind) + "="
		if len(scope) != len(network) { // the node's own changes affect more keys than the network's
			before[layers.Network], after[layers.Network] = scope.cut(was.Network), scope.cut(now.Network)
			key = strconv.Quote(newNode.Kind) + strings.Join(scope, "\x00")
		}
		for _, o := range []config.Object{before[layers.Auto], before[layers.Node], after[layers.Auto], after[layers.Node]} {
			key += e.digest(o)
		}
		v := e.verdicts[key]
		if v == nil {
			v = e.validate(newNode.Kind, before, after)
			e.verdicts[key], by[v] = v, len(e.shared)
			e.shared = append(e.shared, shared{nil, v})
		}
		i := by[v]
		e.shared[i].nodes = append(e.shared[i].nodes, name)
	}
	for _, j := range e.shared {
		e.collectFaults(j.nodes, j.verdict)
	}
	if network != nil {
		e.validateKinds(network, write{old: was.Network, new: now.Network}, used)
	}
}

// validateKinds validates a write to the network layer by itself, on nodes without overrides.
func (e *editor) validateKinds(scope scope, w write, used map[string]bool) {
	kinds := sortedKeys(e.inputs.Kinds)
	if len(kinds) == 0 {
		kinds = []string{""}
	}
	for _, kind := range kinds {
		before := e.inputs.Kinds[kind]
		before[layers.Network] = w.old
		after := before
		after[layers.Network] = w.new
		v := e.validate(kind, scope.cutSet(before), scope.cutSet(after))
		if used[kind] {
			notByItself := func(f WriteFault) bool { return !isIndependent(f) }
			v.faults = slices.DeleteFunc(v.faults, notByItself)
			v.warnings = slices.DeleteFunc(v.warnings, notByItself)
			e.collectFaults(nil, v)
			continue
		}
		e.assignFaults(nil, v)
	}
}

// isIndependent reports whether a fault of the network layer does not depend on a node's layers.
func isIndependent(f WriteFault) bool {
	return f.Layer == layers.Network.String() && f.Rule != metadata.RuleRequired && f.Rule != RuleTogether
}

func (e *editor) assignFaults(nodes []string, v *verdict) {
	e.shared = append(e.shared, shared{nodes, v})
	e.collectFaults(nodes, v)
}

func (e *editor) collectFaults(nodes []string, v *verdict) {
	for _, f := range v.faults {
		f.Nodes = nodes
		e.faults = append(e.faults, f)
	}
	for _, f := range v.warnings {
		f.Nodes = nodes
		e.warnings = append(e.warnings, f)
	}
}

func (e *editor) layersOf(node string) layers.Set {
	n := e.inputs.Nodes[node]
	s := e.inputs.Kinds[n.Kind]
	s[layers.Auto], s[layers.Network], s[layers.Node] = n.Auto, e.inputs.Network, n.Own
	return s
}

// digest identifies the content of one layer of a node; most are empty.
func (e *editor) digest(o config.Object) string {
	if o == nil {
		return "-"
	}
	return e.hasher.MD5(o)
}

// scope lists the top-level keys that a write can affect, sorted.
type scope []string

// changedKeys returns the keys that differ. If one of the sections differs, all are included, since they refer to each
// other.
func (e *editor) changedKeys(old, after config.Object) scope {
	var out scope
	for key, v := range after {
		if was, had := old[key]; !had || !config.Equal(was, v) {
			out = append(out, key)
		}
	}
	for key := range old {
		if _, has := after[key]; !has {
			out = append(out, key)
		}
	}
	sections := e.inputs.Sections.Keys
	if slices.ContainsFunc(out, func(key string) bool { return slices.Contains(sections, key) }) {
		out = append(out, sections...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// union returns the union of two scopes.
func (s scope) union(other scope) scope {
	if len(other) == 0 {
		return s
	}
	out := append(slices.Clone(s), other...)
	slices.Sort(out)
	return slices.Compact(out)
}

// cut returns the part of a layer in the scope; nil if it is empty.
func (s scope) cut(o config.Object) config.Object {
	var out config.Object
	if len(o) < len(s) { // most nodes have few overrides
		for key, v := range o {
			if _, in := slices.BinarySearch(s, key); in {
				if out == nil {
					out = make(config.Object, len(o))
				}
				out[key] = v
			}
		}
		return out
	}
	for _, key := range s {
		if v, has := o[key]; has {
			if out == nil {
				out = make(config.Object, len(s))
			}
			out[key] = v
		}
	}
	return out
}

func (s scope) cutSet(set layers.Set) layers.Set {
	for i, o := range set {
		set[i] = s.cut(o)
	}
	return set
}

// validate compares the effective configs of two sets of layers by the rules of a kind.
func (e *editor) validate(kind string, before, after layers.Set) *verdict {
	rules := e.inputs.rules(kind)
	was, oldClashes := before.Effective()
	now, clashes := after.Effective()
	v := &verdict{diff: config.FullDiff(was, now)}
	for _, c := range clashes {
		known := slices.ContainsFunc(oldClashes, func(o layers.Clash) bool { return slices.Equal(o.Path, c.Path) })
		then, had := config.Lookup(before[c.Above], c.Path)
		now, has := config.Lookup(after[c.Above], c.Path)
		if !known || had != has || !config.Equal(then, now) {
			v.faults = append(v.faults, clashFault(after, c, e))
		}
	}
	old := e.report(rules, before, was)
	for key, f := range e.report(rules, after, now) {
		then, had := config.Lookup(was, f.Path)
		now, has := config.Lookup(now, f.Path)
		switch _, known := old[key]; {
		case known && had == has && config.Equal(then, now):
		case f.warning:
			v.warnings = append(v.warnings, f.WriteFault)
		default:
			v.faults = append(v.faults, f.WriteFault)
		}
	}
	e.collectValues(v, after, was, now, nil)
	if rules != nil {
		v.actions = rules.Actions(v.diff)
	}
	v.name = name(v.values)
	return v
}

func clashFault(s layers.Set, c layers.Clash, e *editor) WriteFault {
	v, _ := config.Lookup(s[c.Above], c.Path)
	return WriteFault{
		Path: c.Path, Value: e.show(c.Path, v), Rule: RuleClash, Layer: c.Above.String(),
		Problem: c.Problem(), Expectation: layers.MustBeObject,
	}
}

// reported is a fault or a warning of a complete config.
type reported struct {
	WriteFault
	warning bool
}

// report returns all faults and warnings of one effective config, by a key that identifies equal ones. It omits faults
// of the sections at a path that the metadata refuses.
func (e *editor) report(rules *metadata.Metadata, s layers.Set, effective config.Object) map[string]reported {
	out := map[string]reported{}
	add := func(f WriteFault, warning bool) {
		f.Layer = layerOf(s, f.Path)
		key := f.Rule + " " + config.FormatPath(f.Path)
		if f.Rule == RuleTogether {
			key += " " + f.Problem
		}
		out[key] = reported{f, warning}
	}
	refused := map[string]bool{}
	present := e.inputs.Sections.present(effective)
	if rules != nil {
		r := rules.Validate(present)
		for _, f := range r.Faults {
			refused[config.FormatPath(f.Path)] = true
			add(WriteFault{Path: f.Path, Value: f.Value, Rule: f.Rule, Problem: f.Problem, Expectation: f.Expectation}, false)
		}
		for _, path := range r.Unknown {
			v, _ := config.Lookup(present, path)
			add(WriteFault{Path: path, Value: v, Rule: metadata.RuleUnknown, Problem: config.UnknownField,
				Expectation: "kept, but not validated"}, true)
		}
	}
	warnings, faults := e.inputs.Sections.check(effective)
	for _, f := range warnings {
		add(WriteFault{Path: f.Path, Rule: RuleTogether, Problem: f.Problem, Expectation: f.Expectation}, true)
	}
	for _, f := range faults {
		if refused[config.FormatPath(f.Path)] {
			continue
		}
		v, _ := config.Lookup(effective, f.Path)
		add(WriteFault{Path: f.Path, Value: v, Rule: RuleTogether, Problem: f.Problem, Expectation: f.Expectation}, false)
	}
	return out
}

// layerOf returns the highest layer with a value at a path, or else at its nearest parent.
func layerOf(s layers.Set, path []string) string {
	for n := len(path); n > 0; n-- {
		for l := layers.Node; l >= layers.Base; l-- {
			if _, found := config.Lookup(s[l], path[:n]); found {
				return l.String()
			}
		}
	}
	return ""
}
