package override

import (
	"os"
	"slices"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/nodeconf"
)

const real = "../../testdata/terragraph/"

func parse(t testing.TB, text string) config.Object {
	t.Helper()
	o, faults := config.ParseObject([]byte(text))
	if faults != nil {
		t.Fatal(faults)
	}
	return o
}

func realFile(t testing.TB, name string) config.Object {
	t.Helper()
	text, err := os.ReadFile(real + name)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

func realMetadata(t testing.TB) *metadata.Metadata {
	t.Helper()
	return compile(t, realFile(t, "config_metadata.json"))
}

func compile(t testing.TB, o config.Object) *metadata.Metadata {
	t.Helper()
	m, faults := metadata.Parse(o, metadata.Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	return m
}

// small is metadata with one entry for each mark and type.
const small = `{
	"n": {"desc":"d","action":"NO_ACTION","type":"INTEGER","intVal":{"allowedRanges":[[1,10]]}},
	"s": {"desc":"d","action":"RESTART_ROUTING","type":"STRING"},
	"ro": {"desc":"d","action":"NO_ACTION","type":"OBJECT","readOnly":true},
	"dep": {"desc":"d","action":"NO_ACTION","type":"STRING","deprecated":true},
	"o": {"desc":"d","action":"NO_ACTION","type":"OBJECT","objVal":{"properties":{
		"must": {"desc":"d","type":"INTEGER","required":true},
		"may": {"desc":"d","type":"STRING","action":"REBOOT"},
		"old": {"desc":"d","type":"INTEGER","deprecated":true},
		"fixed": {"desc":"d","type":"OBJECT","readOnly":true,"objVal":{"properties":{"x":{"desc":"d","type":"INTEGER"}}}}}}},
	"m": {"desc":"d","action":"NO_ACTION","type":"MAP","mapVal":{"type":"OBJECT","objVal":{"properties":{
		"k":{"desc":"d","type":"STRING","readOnly":true},"v":{"desc":"d","type":"INTEGER"}}}}},
	"closed": {"desc":"d","action":"NO_ACTION","type":"OBJECT","strict":true,"objVal":{"properties":{"a":{"desc":"d","type":"INTEGER"}}}},
	"pw": {"desc":"d","action":"NO_ACTION","type":"STRING","secret":true},
	"a.b": {"desc":"d","action":"NO_ACTION","type":"STRING","readOnly":true}
}`

// sections are those of a node's config, as every caller gives them.
var sections = Sections{Keys: nodeconf.Sections(), Present: nodeconf.DropAbsent, Check: nodeconf.Check}

// world is one kind with a base, and nodes n1 and n2.
func world(t testing.TB, base, network, own1 string) Inputs {
	t.Helper()
	w := Inputs{
		Kinds:    map[string]layers.Set{"": {layers.Base: parse(t, base)}},
		Network:  parse(t, network),
		Nodes:    map[string]Node{"n1": {Own: parse(t, own1)}, "n2": {}},
		Metadata: compile(t, parse(t, small)),
		Sections: sections,
	}
	return w
}

func show(v any) string { return config.OneLine(v) }

// one is a write in one line: "network set {…}", "node unset n1.a n1.b".
func one(t testing.TB, text string) Change {
	t.Helper()
	layer, rest, _ := strings.Cut(text, " ")
	op, rest, _ := strings.Cut(rest, " ")
	c := Change{Layer: layers.Node, Op: Op(slices.Index(opNames[:], op))}
	if layer == "network" {
		c.Layer = layers.Network
	}
	if c.Op != Unset {
		c.Overrides = parse(t, rest)
		return c
	}
	for _, key := range strings.Fields(rest) {
		path, err := config.ParsePath(key)
		if err != nil {
			t.Fatal(err)
		}
		c.Keys = append(c.Keys, path)
	}
	return c
}

// TestWhatAWriteChecks is reference §1.11, rule by rule.
func TestWhatAWriteChecks(t *testing.T) {
	const base = `{"n":1,"s":"x","o":{"must":1},"m":{}}`
	for _, tt := range []struct{ name, network, own, write, want string }{
		{"a good value", `{}`, `{}`, `node set {"n1":{"n":2}}`, ""},
		{"the metadata's rules", `{}`, `{}`, `node set {"n1":{"n":11}}`,
			"n1: n: invalid value 11: must be an integer from 1 to 10 (range, node layer)"},
		{
			"all faults at once, of all nodes", `{}`, `{}`, `node set {"n1":{"n":11,"s":1},"n2":{"n":11}}`,
			"n1, n2: n: invalid value 11: must be an integer from 1 to 10 (range, node layer)\nn1: s: invalid type int64: " +
				"must be a string " +
				"(type, node layer)",
		},
		{"modify is checked with what exists already", `{}`, `{"m":{"a":{"v":1}}}`,
			`node modify {"n1":{"m":{"a":{"v":2}}}}`, ""},
		{"a read-only entry, added", `{}`, `{}`, `node set {"n1":{"ro":{"a":1}}}`,
			"n1: ro: is read-only, and would be {\"a\": 1}: it can't be set (readOnly, node layer)"},
		{"a change below a read-only parent", `{}`, `{"ro":{"a":{"b":1}}}`, `node set {"n1":{"ro":{"a":{"b":2}}}}`,
			"n1: ro: is read-only"},
		{"a read-only property", `{}`, `{}`, `node set {"n1":{"o":{"fixed":{"x":1}}}}`, "n1: o.fixed: is read-only"},
		{"a read-only property below free keys", `{}`, `{}`, `node set {"n1":{"m":{"a":{"k":"x"}}}}`,
			"n1: m.a.k: is read-only"},
		{"an object in the place of a read-only scalar", `{}`, `{"m":{"a":{"k":"x"}}}`,
			`node set {"n1":{"m":{"a":{"k":{}}}}}`, "n1: m.a.k: is read-only\nn1: m.a.k: invalid type object"},
		{"a read-only value once more", `{}`, `{"ro":{"a":1}}`, `node set {"n1":{"ro":{"a":1},"n":2}}`, ""},
		{"a read-only value removed", `{}`, `{"ro":{"a":1,"b":2}}`, `node set {"n1":{"ro":{"a":1}}}`, ""},
		{"a read-only object emptied", `{}`, `{"ro":{"a":1}}`, `node set {"n1":{"ro":{}}}`, ""},
		{"a deprecated value once more", `{}`, `{"dep":"x"}`, `node set {"n1":{"dep":"x","n":2}}`, ""},
		{"a deprecated value removed by set", `{}`, `{"dep":"x"}`, `node set {"n1":{}}`, ""},
		{"a deprecated value removed by unset", `{}`, `{"dep":"x"}`, `node unset n1.dep`, ""},
		{"a deprecated value added", `{}`, `{}`, `node modify {"n1":{"dep":"x"}}`,
			"n1: dep: is deprecated, and would be \"x\": it can't be set (deprecated, node layer)"},
		{"a deprecated value changed", `{}`, `{"dep":"x"}`, `node modify {"n1":{"dep":"y"}}`,
			"n1: dep: is deprecated, and would be \"y\": must be the stored value or none: \"x\" (deprecated, node layer)"},
		{"a deprecated property", `{}`, `{}`, `node set {"n1":{"o":{"old":1}}}`, "n1: o.old: is deprecated"},
		{"in the network layer too", `{}`, `{}`, `network modify {"dep":"x"}`,
			"dep: is deprecated, and would be \"x\": it can't be set (deprecated, network layer)"},
		{
			"the order of groups", `{}`, `{}`, `node set {"n1":{"dep":"x","ro":{"a":1},"n":"x","m":5},"n9":5}`,
			"n1: ro: is read-only\nn1: dep: is deprecated\nn9: not in the topology\nn9: invalid type int64\nn1: m: invalid " +
				"type int64 in the " +
				"node layer over an object in the base layer\nn1: n: invalid type string",
		},
		{"a node that not in the topology", `{}`, `{}`, `node set {"n9":{"n":2}}`,
			"n9: not in the topology: must be a node of the topology (topology)"},
		{"an empty request", `{}`, `{}`, `node set {}`, "the write names no node: must be {node: {…}} (request)"},
		{"a node without a name", `{}`, `{}`, `node set {"":{"n":2}}`,
			"\"\": not in the topology\nthe name of a node is empty"},
		{"an unset without keys", `{}`, `{}`, `network unset`, "the write names no key: must be one or more (request)"},
		{"an unset of what is not there", `{"a":1}`, `{"s":"y"}`, `node unset n1.s n1.q n2.s`,
			"n1: q: not in the node layer\nn2: s: not in the node layer: must be a key of that layer (request)"},
		{"an unset of a node without a layer", `{}`, `{}`, `node unset n2`, "n2: not in the node layer"},
		{"a required property that goes", `{"o":{"must":1}}`, `{"o":{"may":"x"}}`, `network unset o`, ""},
		{"an unknown field below strict", `{}`, `{}`, `node set {"n1":{"closed":{"b":1}}}`,
			"n1: closed.b: unknown field: must be a (unknown, node layer)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := world(t, base, tt.network, tt.own)
			w.InTopology = map[string]bool{"n1": true, "n2": true}
			before := show(w.Network) + show(w.Nodes["n1"].Own)
			r, faults := Apply(w, one(t, tt.write))
			compareLines(t, faults.Error(), tt.want)
			if len(faults) > 0 && (r.Changed || r.Nodes != nil || r.Network != nil) {
				t.Errorf("a refused write has a result: %v", r)
			}
			if show(w.Network)+show(w.Nodes["n1"].Own) != before {
				t.Error("the world was changed")
			}
		})
	}
}

// compareLines wants each line to begin as told.
func compareLines(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	ok := len(g) == len(w) && (want != "" || got == "")
	for i := range min(len(g), len(w)) {
		ok = ok && strings.HasPrefix(g[i], w[i])
	}
	if !ok {
		t.Errorf("got:\n%s\nwanted:\n%s", got, want)
	}
}

// TestDefectsOfTheOriginal is each [BUG] of reference §1.11, done right.
func TestDefectsOfTheOriginal(t *testing.T) {
	const base = `{"n":1,"s":"x","o":{"must":1},"m":{}}`
	for _, tt := range []struct{ name, network, own, write, want string }{
		{"null over an object is swallowed, and stored", `{}`, `{}`, `node set {"n1":{"o":null}}`,
			"n1: o: invalid type null in the node layer over an object in the base layer: must be an " +
				"object (clash, node layer)"},
		{"a scalar over an object is swallowed, and stored", `{}`, `{}`, `network set {"o":5}`,
			"n1, n2: o: invalid type int64 in the network layer over an object in the base layer"},
		{"modify swallows too", `{}`, `{"m":{"a":{"v":1}}}`, `node modify {"n1":{"m":{"a":5}}}`,
			"n1: m.a: invalid type int64 in the write over an object in the node layer"},
		{"a key with a dot hides from readOnly", `{}`, `{}`, `node set {"n1":{"a.b":"x"}}`, `n1: "a.b": is read-only`},
		{"a key with a dot above a read-only one", `{}`, `{}`, `node set {"n1":{"m":{"x.y":{"k":"z"}}}}`,
			`n1: m."x.y".k: is read-only`},
		{"a node's layer that is no object ends the process", `{}`, `{}`, `node set {"n1":5}`,
			"n1: invalid type int64: must be an object: {node: {…}} (request)"},
		{"a node's layer that is null", `{}`, `{}`, `node modify {"n1":null}`, "n1: invalid type null"},
		{"a network change is not checked against node overrides", `{"o":{"must":2}}`, `{"o":5}`,
			`network modify {"m":{"a":{"v":1}}}`, ""},
		{"a network change under a node's scalar", `{}`, `{"q":5}`, `network set {"q":{"x":1}}`,
			"n1: q: invalid type int64 in the node layer over an object in the network layer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, faults := Apply(world(t, base, tt.network, tt.own), one(t, tt.write))
			compareLines(t, faults.Error(), tt.want)
		})
	}
}

// TestARequiredPropertyOfAnotherLayerStays: in the original what another layer supplied
// could vanish later, unseen.
func TestARequiredPropertyOfAnotherLayerStays(t *testing.T) {
	w := world(t, `{}`, `{"o":{"must":1}}`, `{"o":{"may":"x"}}`)
	_, faults := Apply(w, one(t, `network unset o.must`))
	compareLines(t, faults.Error(), "n1: o.must: required: must be an integer (required, node layer)")
	_, faults = Apply(world(t, `{}`, `{"o":{"may":"x"}}`, `{"o":{"must":1}}`), one(t, `node set {"n1":5}`))
	compareLines(t, faults.Error(), "n1: invalid type int64") // nobody knows what it would have lacked
	_, faults = Apply(w, one(t, `node set {"n2":{"o":{"may":"y"}}}`))
	compareLines(t, faults.Error(), "")
}

// TestTheNodesOwnVersionsCount: the original checked against the latest base only.
func TestTheNodesOwnVersionsCount(t *testing.T) {
	w := world(t, `{}`, `{}`, `{}`)
	w.Kinds = map[string]layers.Set{
		"old": {layers.Base: parse(t, `{"o":{"may":"x"}}`)},
		"new": {layers.Base: parse(t, `{"o":{"must":1}}`), layers.Hardware: parse(t, `{"q":{}}`)},
	}
	w.Nodes = map[string]Node{"a": {Kind: "old"}, "b": {Kind: "new"}}
	_, faults := Apply(w, one(t, `node set {"a":{"q":1},"b":{"q":1}}`))
	compareLines(t, faults.Error(), "b: q: invalid type int64 in the node layer over an object in the hardware layer")
	_, faults = Apply(w, one(t, `network set {"n":1,"q":1}`))
	compareLines(t, faults.Error(), "b: q: invalid type int64 in the network layer over an object in the hardware layer")
	r, faults := Apply(w, one(t, `network set {"o":{"must":7}}`))
	if faults != nil || len(r.Effects) != 2 {
		t.Errorf("%v; %v", faults, r.Effects)
	}
}

// TestFaultsThatWereThereBefore do not block a write, as long as it leaves them alone.
func TestFaultsThatWereThereBefore(t *testing.T) {
	for _, tt := range []struct{ name, own, write, want string }{
		{"another key", `{"n":99}`, `network set {"s":"y"}`, ""},
		{"the same key below", `{"n":99}`, `network set {"n":5}`, ""},
		{"the same value once more", `{"n":99}`, `node set {"n1":{"n":99,"s":"y"}}`, ""},
		{"another wrong value", `{"n":99}`, `node set {"n1":{"n":98}}`, "n1: n: invalid value 98"},
		{"a right value", `{"n":99}`, `node set {"n1":{"n":9}}`, ""},
		{"an old clash", `{"m":5}`, `node modify {"n1":{"s":"y"}}`, ""},
		{"another wrong value over an object", `{"m":5}`, `node set {"n1":{"m":6}}`,
			"n1: m: invalid type int64 in the node layer over an object in the base layer"},
		{"an old clash, and one of another layer", `{"m":5}`, `network set {"m":6}`,
			"n1, n2: m: invalid type int64 in the network layer over an object in the base layer"},
		{"an old clash, and null of another layer", `{"m":5}`, `network set {"m":null}`,
			"n1, n2: m: invalid type null in the network layer over an object in the base layer"},
		{"an old clash, and a write below it", `{"m":5}`, `network set {"m":{"a":{"v":1}}}`, ""},
		{"an old clash, and a fault below it", `{"m":5}`, `network set {"m":{"a":{"v":"x"}}}`,
			"n1, n2: m.a.v: invalid type string"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, faults := Apply(world(t, `{"m":{}}`, `{}`, tt.own), one(t, tt.write))
			compareLines(t, faults.Error(), tt.want)
		})
	}
}

// TestTheNetworkLayerIsRightByItself though every node that is known hides its value.
func TestTheNetworkLayerIsRightByItself(t *testing.T) {
	w := world(t, `{}`, `{}`, `{"n":1}`)
	delete(w.Nodes, "n2")
	_, faults := Apply(w, one(t, `network set {"n":99}`))
	compareLines(t, faults.Error(), "n: invalid value 99: must be an integer from 1 to 10 (range, network layer)")
	_, faults = Apply(w, one(t, `network set {"o":{"may":"x"}}`))
	compareLines(t, faults.Error(), "n1: o.must: required")
	w.Nodes["n1"] = Node{Own: parse(t, `{"o":{"must":1}}`)}
	if _, faults = Apply(w, one(t, `network set {"o":{"may":"x"}}`)); faults != nil {
		t.Errorf("what the only node has is missing: %v", faults)
	}
	w.Nodes = nil
	_, faults = Apply(w, one(t, `network set {"o":{"may":"x"}}`))
	compareLines(t, faults.Error(), "o.must: required: must be an integer (required, network layer)")
	w.Kinds = map[string]layers.Set{"a": {layers.Base: parse(t, `{"o":{"must":1}}`)}}
	if _, faults = Apply(w, one(t, `network set {"o":{"may":"x"}}`)); faults != nil {
		t.Errorf("what the only kind has is missing: %v", faults)
	}
	w.Kinds = nil
	_, faults = Apply(w, one(t, `network set {"n":99}`))
	compareLines(t, faults.Error(), "n: invalid value 99: must be an integer from 1 to 10 (range, network layer)")
}

// TestALineNamesItsNodes: a hundred at most, and a name that would read as two, or as none, in quotes.
func TestALineNamesItsNodes(t *testing.T) {
	many := func(n int) []string { return slices.Repeat([]string{"n"}, n) }
	for _, tt := range []struct {
		nodes []string
		want  string
	}{
		{[]string{"b", "a"}, "b, a"},
		{[]string{"a,b", "c\n", "", "d"}, `"a,b", "c\u000a", "", d`},
		{many(100), strings.Join(many(100), ", ")},
		{many(102), strings.Join(many(100), ", ") + " and 2 more"},
	} {
		if got := nodeList(tt.nodes); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.nodes, got, tt.want)
		}
	}
}

// TestALineNamesItsLayer: the highest that has the value, or has what is above it.
func TestALineNamesItsLayer(t *testing.T) {
	s := layers.Set{layers.Base: parse(t, `{"a":{"b":1},"c":1}`), layers.Node: parse(t, `{"a":{"x":1}}`)}
	for path, want := range map[string]string{"a.b": "base", "a.x": "node", "a.y": "node", "c": "base", "d": "",
		"d.e": ""} {
		if got := layerOf(s, strings.Split(path, ".")); got != want {
			t.Errorf("%s is of %q, want %q", path, got, want)
		}
	}
}

// A key without a node removes nothing of any.
func TestAnUnsetOfAnEmptyKeyChangesNothing(t *testing.T) {
	r, faults := Apply(world(t, `{}`, `{}`, `{"n":1}`), Change{Layer: layers.Node, Op: Unset, Keys: [][]string{{}}})
	if faults != nil || r.Changed {
		t.Errorf("%v: %+v", faults, r)
	}
}

func TestOtherLayersCantBeWritten(t *testing.T) {
	_, faults := Apply(Inputs{}, Change{Layer: layers.Auto})
	compareLines(t, faults.Error(),
		"the auto layer can't be written: must be network or node (request)")
}
