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
			scope = scope.and(e.follows(w.node, before[layers.Auto], after[layers.Auto]))
		}
		e.assign([]string{w.node}, e.validate(e.world.Nodes[w.node].Kind, scope.of(before), scope.of(after)))
	}
}

// follows records an auto layer that changes with the write.
func (e *editor) follows(node string, old, after config.Object) scope {
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
		is := e.world
		is.Network = w.new
		e.validateDifferences(e.world, is)
	}
}

// validateDifferences validates every node whose layers differ between two worlds. Changes are limited to the
// top-level keys that differ, so nodes of one kind with equal overrides at these keys share one validation.
func (e *editor) validateDifferences(was, is Inputs) {
	network := e.changedKeys(was.Network, is.Network)
	used, by := map[string]bool{}, map[*verdict]int{}
	cutWas, cutIs := network.cut(was.Network), network.cut(is.Network)
	for _, name := range sortedKeys(is.Nodes) {
		old, now := was.Nodes[name], is.Nodes[name]
		used[now.Kind] = true
		scope := network.and(e.changedKeys(old.Auto, now.Auto)).and(e.changedKeys(old.Own, now.Own))
		if len(scope) == 0 {
			continue
		}
		before, after := scope.of(is.Kinds[now.Kind]), scope.of(is.Kinds[now.Kind])
		before[layers.Auto], before[layers.Network], before[layers.Node] = scope.cut(old.Auto), cutWas, scope.cut(old.Own)
		after[layers.Auto], after[layers.Network], after[layers.Node] = scope.cut(now.Auto), cutIs, scope.cut(now.Own)
		key := strconv.Quote(now.Kind) + "="
		if len(scope) != len(network) { // the node's own changes affect more keys than the network's
			before[layers.Network], after[layers.Network] = scope.cut(was.Network), scope.cut(is.Network)
			key = strconv.Quote(now.Kind) + strings.Join(scope, "\x00")
		}
		for _, o := range []config.Object{before[layers.Auto], before[layers.Node], after[layers.Auto], after[layers.Node]} {
			key += e.digest(o)
		}
		v := e.verdicts[key]
		if v == nil {
			v = e.validate(now.Kind, before, after)
			e.verdicts[key], by[v] = v, len(e.judged)
			e.judged = append(e.judged, judged{nil, v})
		}
		i := by[v]
		e.judged[i].nodes = append(e.judged[i].nodes, name)
	}
	for _, j := range e.judged {
		e.note(j.nodes, j.verdict)
	}
	if network != nil {
		e.validateKinds(network, write{old: was.Network, new: is.Network}, used)
	}
}

// validateKinds validates a write to the network layer by itself, on nodes without overrides.
func (e *editor) validateKinds(scope scope, w write, used map[string]bool) {
	kinds := sortedKeys(e.world.Kinds)
	if len(kinds) == 0 {
		kinds = []string{""}
	}
	for _, kind := range kinds {
		before := e.world.Kinds[kind]
		before[layers.Network] = w.old
		after := before
		after[layers.Network] = w.new
		v := e.validate(kind, scope.of(before), scope.of(after))
		if used[kind] {
			notByItself := func(f WriteFault) bool { return !byItself(f) }
			v.faults = slices.DeleteFunc(v.faults, notByItself)
			v.warnings = slices.DeleteFunc(v.warnings, notByItself)
			e.note(nil, v)
			continue
		}
		e.assign(nil, v)
	}
}

// byItself reports whether a fault of the network layer does not depend on a node's layers.
func byItself(f WriteFault) bool {
	return f.Layer == layers.Network.String() && f.Rule != metadata.RuleRequired && f.Rule != RuleTogether
}

func (e *editor) assign(nodes []string, v *verdict) {
	e.judged = append(e.judged, judged{nodes, v})
	e.note(nodes, v)
}

func (e *editor) note(nodes []string, v *verdict) {
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
	n := e.world.Nodes[node]
	s := e.world.Kinds[n.Kind]
	s[layers.Auto], s[layers.Network], s[layers.Node] = n.Auto, e.world.Network, n.Own
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
	sections := e.world.Sections.Keys
	if slices.ContainsFunc(out, func(key string) bool { return slices.Contains(sections, key) }) {
		out = append(out, sections...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// and returns the union of two scopes.
func (s scope) and(other scope) scope {
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

func (s scope) of(set layers.Set) layers.Set {
	for i, o := range set {
		set[i] = s.cut(o)
	}
	return set
}

// validate compares the effective configs of two sets of layers by the rules of a kind.
func (e *editor) validate(kind string, before, after layers.Set) *verdict {
	rules := e.world.rules(kind)
	was, oldClashes := before.Effective()
	is, clashes := after.Effective()
	v := &verdict{diff: config.FullDiff(was, is)}
	for _, c := range clashes {
		known := slices.ContainsFunc(oldClashes, func(o layers.Clash) bool { return slices.Equal(o.Path, c.Path) })
		then, had := config.Lookup(before[c.Above], c.Path)
		now, has := config.Lookup(after[c.Above], c.Path)
		if !known || had != has || !config.Equal(then, now) {
			v.faults = append(v.faults, clashFault(after, c, e))
		}
	}
	old := e.report(rules, before, was)
	for key, f := range e.report(rules, after, is) {
		then, had := config.Lookup(was, f.Path)
		now, has := config.Lookup(is, f.Path)
		switch _, known := old[key]; {
		case known && had == has && config.Equal(then, now):
		case f.warning:
			v.warnings = append(v.warnings, f.WriteFault)
		default:
			v.faults = append(v.faults, f.WriteFault)
		}
	}
	e.values(v, after, was, is, nil)
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
	present := e.world.Sections.present(effective)
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
	warnings, faults := e.world.Sections.check(effective)
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
