package ops

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/optimize"
	"edgespan/config/layers"
)

var (
	drawnNodes = []string{"a", "b", "n1", "n9"} // n9 is not known
	drawnKeys  = []string{"envParams", "sysParams", "managedConfig", "tunnelConfig", "t", "dstNodeName", "dstIp", "wifi",
		"password", "topologyInfo", "radioParamsOverride", "02:00:00:00:00:0a", "vendor"}
)

// drawObject is a document of keys that mean something, and values that may not fit.
func drawObject(t *rapid.T, depth int) config.Object {
	out := config.Object{}
	for range rapid.IntRange(0, 3).Draw(t, "keys") {
		key := rapid.SampledFrom(drawnKeys).Draw(t, "key")
		if depth > 0 && rapid.Bool().Draw(t, "below") {
			out[key] = drawObject(t, depth-1)
			continue
		}
		out[key] = rapid.SampledFrom([]any{nil, true, false, int64(1), 1.5, "a", "1", "fd00::1", []any{}, config.Object{},
			config.Object{"$masked": true}}).Draw(t, "value")
	}
	return out
}

func drawNodes(t *rapid.T) config.Object {
	out := config.Object{}
	for range rapid.IntRange(0, 2).Draw(t, "nodes") {
		out[rapid.SampledFrom(drawnNodes).Draw(t, "node")] = drawObject(t, 3)
	}
	return out
}

func drawPaths(t *rapid.T) [][]string {
	return rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(append([]string{star}, drawnKeys...)), 0, 3), 0, 3).Draw(t,
		"paths")
}

func drawWrite(t *rapid.T) Write {
	modify := rapid.Bool().Draw(t, "modify")
	name := rapid.SampledFrom(drawnNodes)
	switch rapid.IntRange(0, 9).Draw(t, "write") {
	case 0:
		return SetNetwork{drawObject(t, 3), modify}
	case 1, 2:
		return SetNodes{drawNodes(t), modify}
	case 3:
		return Unset{rapid.SampledFrom([]layers.Layer{layers.Network, layers.Node, layers.Auto}).Draw(t, "layer"),
			drawPaths(t)}
	case 4:
		return ClearAuto{rapid.SliceOfN(name, 0, 2).Draw(t, "nodes"), drawPaths(t)}
	case 5:
		return SetAuto{drawNodes(t)}
	case 6:
		return SetE2E{"controller", config.Object{"flags": drawObject(t, 0)}, modify,
			rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(t, "replica")}
	case 7:
		return Optimize{rapid.SliceOfN(rapid.SampledFrom(optimize.All), 0, 2).Draw(t, "kinds"), modify}
	case 8:
		return EditTopology{"node", rapid.SampledFrom([]string{"add", "edit", "delete", "rename"}).Draw(t, "op"),
			name.Draw(t, "name"), name.Draw(t, "to"), config.Object{"pop_node": modify}}
	}
	return Revert{rapid.Uint64Range(0, 3).Draw(t, "revision")}
}

// townOf is a controller with two nodes in a topology, one that has joined, and overrides.
func townOf(t *rapid.T) *bench {
	b := newBench(t, "a", "b", "n1")
	b.Hardware.Base = []string{"RELEASE_M80", "RELEASE_M81"}
	b.Nodes["a"] = NodeFact{Versions: layers.Versions{Software: "RELEASE_M80"}, Reported: true, Address: "fd00::a"}
	b.do(SetTopology{doc(t, town)})
	b.do(SetNetwork{Overrides: doc(t, `{"envParams":{"A":"1"},"wifi":{"password":"x"}}`)})
	b.do(SetNodes{Overrides: doc(t, `{"n1":{"tunnelConfig":{"t":{"dstNodeName":"a"}}}}`)})
	return b
}

// Whatever is written: a refused write leaves the state, Restore of the revision before brings
// its digest back, and the same write once more, where it passes, changes nothing that the
// first time did not.
func TestPropertyWrites(t *testing.T) {
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		b := townOf(t)
		for range rapid.IntRange(1, 4).Draw(t, "writes") {
			w := drawWrite(t)
			before, digest := b.State.Number, b.digest()
			o, err := b.Validate(w)
			if got := b.digest(); got != digest {
				t.Fatalf("%T %+v: judging it changes the state", w, w)
			}
			if err != nil {
				continue
			}
			passed++
			b.commit(o)
			after := b.digest()
			if (after == digest) != (len(o.Change.Layers) == 0 && len(o.Change.Renamed) == 0) {
				t.Fatalf("%T %+v: %s, %v", w, w, o.Message, o.Change.Layers)
			}
			back, err := b.Validate(Restore{Revision: before})
			if err != nil {
				t.Fatalf("%T %+v: restore %d: %v", w, w, before, err)
			}
			b.commit(back)
			if got := b.digest(); got != digest {
				t.Fatalf("%T %+v: restored is something else", w, w)
			}
			if again, err := b.Validate(w); err == nil && repeats(w) {
				b.commit(again)
				if got := b.digest(); got != after {
					t.Fatalf("%T %+v: gives something else the second time", w, w)
				}
				if more, err := b.Validate(w); err != nil || len(more.Change.Layers) != 0 {
					t.Fatalf("%T %+v: twice is not once: %v, %v", w, w, more.Change.Layers, err)
				}
			}
		}
	})
	if passed == 0 {
		t.Error("no write was ever taken")
	}
}

// repeats says of a write that it may be said twice.
func repeats(w Write) bool {
	switch w.(type) {
	case SetNetwork, SetNodes, SetE2E, SetAuto, Optimize:
		return true
	}
	return false
}

// What is told of a write is what it does: the effective config of each node before and
// after it differs where, and only where, an effect says so.
func TestPropertyEffectsAreWhatChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := townOf(t)
		w := drawWrite(t)
		if e, ok := w.(EditTopology); ok && e.Op == "rename" {
			return // the node has another name afterwards
		}
		configs := func() map[string]string {
			out := map[string]string{}
			for name := range b.Nodes {
				full, _, err := b.Snapshot.newCheck().effective(name, b.Nodes[name].Versions, nil)
				if err != nil {
					t.Fatal(err)
				}
				out[name] = config.MD5(full)
			}
			return out
		}
		before := configs()
		o, err := b.Validate(w)
		if err != nil {
			return
		}
		reported := map[string]bool{}
		for _, e := range o.Effects {
			for _, n := range e.Nodes {
				reported[n] = true
			}
		}
		foretold := map[string]string{}
		for name := range b.Nodes {
			full, err := b.EffectiveAfter(o.Change, name)
			if err != nil {
				t.Fatal(err)
			}
			foretold[name] = config.MD5(full)
		}
		b.commit(o)
		after := configs()
		for name := range b.Nodes {
			if reported[name] != (before[name] != after[name]) || foretold[name] != after[name] {
				t.Fatalf("%T %+v: %s: told %v, %s", w, w, name, reported[name], changes(o))
			}
		}
	})
}

// A secret is in no answer that does not reveal it, and writing an answer back changes
// nothing.
func TestPropertyAnswersCanBeWrittenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := townOf(t)
		if o, err := b.Validate(drawWrite(t)); err == nil {
			b.commit(o)
		}
		written := func() string { // the auto layer may be mended by a set: of tunnels
			out := ""
			for _, l := range []layers.Layer{layers.Network, layers.Node} {
				d, err := b.Layer(LayerQuery{Layer: l, Reveal: true})
				out += b.read(d, err)
			}
			return out
		}
		before := written()
		network, err := b.Layer(LayerQuery{Layer: layers.Network})
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := b.Layer(LayerQuery{Layer: layers.Node})
		if err != nil {
			t.Fatal(err)
		}
		if len(network.Object) > 0 { // {} in the place of no layer is another state
			b.do(SetNetwork{Overrides: network.Object})
		}
		if len(nodes.Object) > 0 {
			o, err := b.Validate(SetNodes{Overrides: nodes.Object})
			if err != nil {
				return // of a node that is not known any more
			}
			b.commit(o)
		}
		if got := written(); got != before {
			t.Fatalf("written back it is something else: %s, %s", before, got)
		}
	})
}

// Whatever a document holds: no panic, and what passes can be stored.
func FuzzValidate(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"n1":5}`, `{"n1":{"tunnelConfig":5}}`, `{"n1":{"tunnelConfig":{"t":{"dstNodeName":[]}}}}`,
		`{"topologyInfo":null}`, `{"":{"":{}}}`,
		`{"nodes":[{"name":"a","site_name":"A"}],"links":5}`, `{"nodes":[null],"sites":[{"name":{}}]}`,
		`{"flags":{"a.b":{}}}`, `{"name":"a","location":[]}`,
		`{"envParams":{"A":null},"sysParams":{"managedConfig":{"$masked":true}}}`, `{"wifi":{"password":{"$masked":true}}}`,
		`{"mac_addr":"x","wlan_mac_addrs":[5]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, faults := config.ParseObject(text)
		if faults != nil {
			return
		}
		b := newBench(t, "a", "b", "n1")
		b.do(SetTopology{doc(t, town)})
		paths := [][]string{config.Keys(o), {star, star}}
		for _, w := range []Write{
			SetNetwork{Overrides: o},
			SetNetwork{Overrides: o, Modify: true},
			SetNodes{Overrides: o},
			SetNodes{Overrides: config.Object{"n1": o}, Modify: true},
			SetAuto{o},
			SetAuto{config.Object{"a": o}},
			SetE2E{File: "controller", Config: o, Replica: "r"},
			SetTopology{o},
			EditTopology{Object: "node", Op: "add", Document: o},
			EditTopology{Object: "node", Op: "edit", Name: "a", Document: o},
			EditTopology{Object: "link", Op: "edit", Name: "link-a-b", Document: o},
			EditTopology{Object: "site", Op: "edit", Name: "A", Document: o},
			Import{history.Files{Network: o, Nodes: o, Auto: o}},
			Import{history.Files{Topology: o}},
			Import{history.Files{Metadata: o}},
			Import{history.Files{E2E: map[string]config.Object{"controller": o}}},
			ClearAuto{Paths: paths},
			Unset{layers.Node, paths},
			EditTopology{Object: "node", Op: "rename", Name: "a", To: string(text)},
			Optimize{Kinds: optimize.All},
		} {
			outcome, err := b.Validate(w)
			if err != nil {
				_ = err.Error()
				continue
			}
			c := outcome.Change
			c.Author = "a"
			if _, err := b.State.Plan(c); err != nil {
				t.Errorf("%T: passes, and can't be stored: %v", w, err)
			}
		}
		for _, read := range []func() (DocumentAnswer, error){
			func() (DocumentAnswer, error) { return b.Paths(PathsQuery{Paths: paths}) },
			func() (DocumentAnswer, error) { return b.Layer(LayerQuery{Layer: layers.Node, Nodes: config.Keys(o)}) },
			func() (DocumentAnswer, error) {
				return b.Layer(LayerQuery{Layer: layers.Hardware, Boards: config.Keys(o)})
			},
		} {
			if _, err := read(); err != nil {
				_ = fmt.Sprint(err)
			}
		}
	})
}
