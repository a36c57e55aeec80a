package override

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/schema"
)

// said is a result in lines.
func said(r Result) string {
	var b strings.Builder
	for _, x := range r.Effects {
		b.WriteString(strings.Join(x.Nodes, ",") + " " + show(x.Diff))
		for _, v := range x.Values {
			b.WriteString(" " + config.FormatPath(v.Path))
			if v.HadOld {
				b.WriteString(" from " + show(v.Old))
			}
			if v.HasNew {
				b.WriteString(" to " + show(v.New) + " of " + v.Origin.String())
			}
		}
		for _, a := range x.Actions {
			b.WriteString(" " + a.Name)
		}
		b.WriteString("\n")
	}
	for _, f := range r.Warnings {
		b.WriteString("warning: " + f.Error() + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestWhatAWriteChangesOnEachNode(t *testing.T) {
	for _, tt := range []struct{ name, network, own, write, want string }{
		{"equal nodes are one line", `{}`, `{}`, `network set {"n":2}`, `n1,n2 {"n": 1} n from 1 to 2 of network`},
		{"a node that hides it is in none", `{}`, `{"n":3}`, `network set {"n":2}`, `n2 {"n": 1} n from 1 to 2 of network`},
		{"the base's value again", `{}`, `{}`, `network set {"n":1}`, ""},
		{"actions of entry and property", `{}`, `{}`, `node set {"n1":{"s":"y","o":{"may":"z"}}}`,
			`n1 {"o": {"may": "z"},"s": "x"} o.may to "z" of node s from "x" to "y" of node RESTART_ROUTING REBOOT`},
		{"what shows again", `{"n":2}`, `{"n":3}`, `node unset n1.n`, `n1 {"n": 3} n from 3 to 2 of network`},
		{"one key of two", `{}`, `{"n":3,"s":"y"}`, `node unset n1.n`, `n1 {"n": 3} n from 3 to 1 of base`},
		{"a whole node", `{}`, `{"n":3,"m":{"a":{"v":1}}}`, `node unset n1`,
			`n1 {"m": {"a": {"v": 1}},"n": 3} m.a.v from 1 n from 3 to 1 of base`},
		{"an object in place of a scalar", `{"q":1}`, `{}`, `network set {"q":{"x":2}}`,
			`n1,n2 {"q": {"x": 2}} q from 1 q.x to 2 of network
warning: n1, n2: q: unknown field: kept, but not validated (unknown, network layer)`},
		{"an empty object", `{}`, `{}`, `network set {"m":{"a":{}}}`, `n1,n2 {"m": {"a": {}}} m.a to {} of network`},
		{"null is a value", `{}`, `{}`, `network set {"zz":null}`, `n1,n2 {"zz": null} zz to null of network
warning: n1, n2: zz: unknown field: kept, but not validated (unknown, network layer)`},
		{"filled", `{"m":{"a":{}}}`, `{}`, `network set {"m":{"a":{"v":1}}}`,
			`n1,n2 {"m": {"a": {"v": 1}}} m.a.v to 1 of network`},
		{"a secret", `{"pw":"old"}`, `{}`, `network modify {"pw":"new"}`,
			`n1,n2 {"pw": "old"} pw from {"$masked": true} to {"$masked": true} of network`},
		{"unknown fields warn, the shallowest only", `{}`, `{}`, `node set {"n1":{"zz":{"y":1}}}`,
			`n1 {"zz": {"y": 1}} zz.y to 1 of node
warning: n1: zz: unknown field: kept, but not validated (unknown, node layer)`},
		{"but not those that the write leaves alone", `{}`, `{"zz":1}`, `node modify {"n1":{"n":2}}`,
			`n1 {"n": 1} n from 1 to 2 of node`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, faults := Apply(world(t, `{"n":1,"s":"x","o":{"must":1},"m":{}}`, tt.network, tt.own), one(t, tt.write))
			if got := said(r); faults != nil || got != tt.want {
				t.Errorf("%v\n%s\nwanted:\n%s", faults, got, tt.want)
			}
		})
	}
}

// TestNewLayers: set replaces the layer of the nodes it names, modify merges (RFC 7396 but
// for null, which is a value, and for an object, which nothing else replaces), unset
// removes single keys.
func TestNewLayers(t *testing.T) {
	for _, tt := range []struct{ old, write, want string }{
		{`{"a":"b"}`, `modify {"a":"c"}`, `{"a":"c"}`}, // the vectors of RFC 7396, appendix A
		{`{"a":"b"}`, `modify {"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `modify {"a":null}`, `{"a":null}`},
		{`{"a":["b"]}`, `modify {"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `modify {"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `modify {"a":{"b":"d","c":null}}`, `{"a":{"b":"d","c":null}}`},
		{`{"a":{"b":"c"}}`, `modify {"a":[1]}`,
			`a: invalid type array in the write over an object in the network layer`},
		{`{"e":null}`, `modify {"a":1}`, `{"a":1,"e":null}`},
		{`{}`, `modify {"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{"ccc":null}}}`},
		{`{"a":"x"}`, `modify {"a":{"b":1}}`, `{"a":{"b":1}}`},
		{`{"a":1}`, `modify {}`, `{"a":1}`},
		{`{"a":1,"b":2}`, `set {"a":3}`, `{"a":3}`},
		{`{"a":1}`, `set {}`, `{}`},
		{`{"a":{"b":1}}`, `set {"a":5}`, `{"a":5}`}, // the layer has no object any more
		{`{"a":1,"b":2}`, `unset a`, `{"b":2}`},
		{`{"a":{"b":1,"c":2}}`, `unset a.b`, `{"a":{"c":2}}`},
		{`{"a":{"b":{"c":1}},"d":{}}`, `unset a.b.c`, `{"d":{}}`}, // {} would be of the config
		{`{"a":{"b":1,"c":2}}`, `unset a.b a.c`, `{}`},
		{`{"a":{"b":1,"c":2}}`, `unset a a.b`, `{}`},
		{`{"a.b":1,"a":{"b":2}}`, `unset "a.b"`, `{"a":{"b":2}}`},
		{`{"a":{"b":1}}`, `unset a.b.c`, `a.b.c: not in the network layer`},
	} {
		r, faults := Apply(Inputs{Sections: sections, Network: parse(t, tt.old)}, one(t, "network "+tt.write))
		if faults != nil {
			compareLines(t, faults.Error(), tt.want)
			continue
		}
		if want := parse(t, tt.want); show(r.Network) != show(want) ||
			r.Changed == config.Equal(r.Network, parse(t, tt.old)) {
			t.Errorf("%s, %s: %s (changed: %v)", tt.old, tt.write, show(r.Network), r.Changed)
		}
	}
}

// TestOtherNodesAndLayersStay: in the original a modify that did not mention tunnelConfig
// removed that of the auto layer; here the result has nothing but the layer written.
func TestOtherNodesAndLayersStay(t *testing.T) {
	w := world(t, `{}`, `{"n":1}`, `{"n":2}`)
	w.Nodes["n2"] = Node{Auto: parse(t, `{"tunnelConfig":{"t":{}}}`), Own: parse(t, `{"s":"x"}`)}
	r, faults := Apply(w, one(t, `node modify {"n2":{"n":3},"n3":{}}`))
	if faults != nil || len(r.Nodes) != 2 || show(r.Nodes["n2"]) != `{"n": 3,"s": "x"}` || r.Nodes["n3"] == nil ||
		show(r.Network) != `{"n": 1}` {
		t.Errorf("%v: %v", faults, r)
	}
	if diff := show(r.Effects[0].Diff); len(r.Effects) != 1 || diff != `{"n": 1}` {
		t.Errorf("tunnelConfig of the auto layer has changed: %s", diff)
	}
}

func TestUnsetOfTheLastKeyRemovesTheNode(t *testing.T) {
	w := world(t, `{}`, `{}`, `{"n":2}`)
	w.Nodes["n2"] = Node{Own: config.Object{}}
	r, faults := Apply(w, one(t, `node unset n1.n n2`))
	if own, named := r.Nodes["n1"]; faults != nil || !named || own != nil {
		t.Errorf("%v: %v", faults, r.Nodes)
	}
	if own, named := r.Nodes["n2"]; !named || own != nil {
		t.Errorf("an empty layer stays: %v", r.Nodes)
	}
}

// TestNodesAreInOrder though they are judged kind by kind.
func TestNodesAreInOrder(t *testing.T) {
	w := world(t, `{"n":1}`, `{}`, `{}`)
	w.Kinds["k"] = w.Kinds[""]
	w.Nodes = map[string]Node{"n1": {}, "n2": {Kind: "k"}, "n3": {}}
	r, faults := Apply(w, one(t, `network set {"n":2}`))
	if got := said(r); faults != nil || got != `n1,n2,n3 {"n": 1} n from 1 to 2 of network` {
		t.Errorf("%v: %s", faults, got)
	}
	_, faults = Apply(w, one(t, `network set {"n":22}`))
	compareLines(t, faults.Error(), "n1, n2, n3: n: invalid value 22")
	if got := strings.Join(faults.Nodes(), " "); got != "n1 n2 n3" {
		t.Errorf("the nodes are %s", got)
	}
}

func TestAMaskKeepsTheSecret(t *testing.T) {
	w := world(t, `{}`, `{"pw":"hidden","n":1}`, `{}`)
	r, faults := Apply(w, one(t, `network set {"pw":{"$masked":true},"n":2}`))
	if faults != nil || show(r.Network) != `{"n": 2,"pw": "hidden"}` {
		t.Errorf("%v: %v", faults, show(r.Network))
	}
	_, faults = Apply(w, one(t, `node set {"n1":{"pw":{"$masked":true}}}`))
	if !strings.HasPrefix(faults.Error(), "n1: pw: is masked, and the node layer has no value to keep") {
		t.Error(faults)
	}
	for write, want := range map[string]string{
		`network set {"pw":{"x":1}}`:                    `pw: invalid secret of type object`,
		`network set {"pw":{"$masked":true,"x":1}}`:     `pw: invalid secret of type object`,
		`network set {"pw":"new","s":{"$masked":true}}`: `s: invalid type object`, // no secret: it is what was written
	} {
		_, faults = Apply(w, one(t, write))
		if !strings.Contains(faults.Error(), want) {
			t.Errorf("%s: %v, want %s", write, faults, want)
		}
	}
	_, faults = Apply(w, one(t, `network set {"pw":5}`))
	if strings.Contains(faults.Error(), "5") || len(faults) == 0 {
		t.Errorf("the secret shows: %v", faults)
	}
}

// TestCrossFieldChecks: what config/nodeconf finds between fields, with layers of ours and
// of another vendor beside them.
func TestCrossFieldChecks(t *testing.T) {
	const ni = `"10000000-0000-4000-8000-000000000001"`
	w := Inputs{
		Sections: sections,
		Kinds:    map[string]layers.Set{"": {layers.Base: config.Object{"envParams": config.Object{}}}},
		Network:  parse(t, `{"networkInstances":{`+ni+`:{"port":"wan","ipv4":{"subnet":"10.1.0.0/24"}}}}`),
		Metadata: compile(t, schema.NodeMetadata()),
		Nodes: map[string]Node{
			"n1": {Own: parse(t, `{"ports":{"wan":{"ifName":"eth0"}}}`)},
			"n2": {Own: parse(t, `{"ports":{"wan":{"ifName":"eth1"},"lan":{"ifName":"eth2"}}}`)},
			"n3": {Own: parse(t,
				`{"ports":{"wan":{"ifName":"eth1"},"a":{"ifName":"eth9"},"b":{"ifName":"eth8"},"lan":{"ifName":"eth9"}}}`)},
		},
	}
	for _, tt := range []struct{ name, write, want string }{
		{"a port that only the node has", `network modify {"networkInstances":{` + ni + `:{"displayName":"x"}}}`, ""},
		{"a port that one node has not", `network modify {"networkInstances":{` + ni + `:{"port":"lan"}}}`,
			`n1: networkInstances.10000000-0000-4000-8000-000000000001.port: invalid value "lan", which no port has`},
		{"a port made absent", `node modify {"n2":{"ports":{"lan":{"$absent":true}}}}`, ""},
		{"a port that is used, made absent", `node modify {"n2":{"ports":{"wan":{"$absent":true}}}}`,
			`n2: networkInstances.10000000-0000-4000-8000-000000000001.port: invalid value "wan", which no port has`},
		{"an interface twice", `node modify {"n2":{"ports":{"lan":{"ifName":"eth1"}}}}`,
			`n2: ports.wan.ifName: duplicate value eth1, also at ports.lan.ifName`},
		{"a fault that both know is told once", `node modify {"n2":{"ports":{"lan":{"mtu":5}}}}`,
			`n2: ports.lan.mtu: invalid value 5`},
		{"an interface twice, with another port than before",
			`node modify {"n3":{"ports":{"a":{"ifName":"eth8"},"b":{"ifName":"eth9"}}}}`,
			`n3: ports.lan.ifName: duplicate value eth9, also at ports.b.ifName`},
		{"another vendor's keys", `node modify {"n2":{"envParams":{"X":1}}}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, faults := Apply(w, one(t, tt.write))
			compareLines(t, faults.Error(), tt.want)
		})
	}
}

// TestTheRealFiles writes to the samples under the real base, firmware and hardware.
func TestTheRealFiles(t *testing.T) {
	w := Inputs{
		Sections: sections,
		Kinds: map[string]layers.Set{"": {
			realFile(t, "base_versions/RELEASE_M81.json"),
			realFile(t, "base_versions/fw_versions/10.11.0.json"),
		}},
		Network:  realFile(t, "network_config_overrides_sample.json"),
		Metadata: realMetadata(t),
		Nodes:    map[string]Node{},
	}
	own, _ := layers.NodeLayers(realFile(t, "node_config_overrides_sample.json"))
	for name, o := range own {
		w.Nodes[name] = Node{Own: o}
	}
	for _, tt := range []struct{ write, want string }{
		{`network modify {"sysParams":{"managedConfig":true}}`, ""},
		{`network modify {"sysParams":{"managedConfig":"yes"}}`,
			"terra111.f5.td.a404-if: sysParams.managedConfig: invalid type string"},
		{`network modify {"envParams":{"FW_IF2IF":"0"}}`, "envParams.FW_IF2IF: is deprecated"},
		{`network set {"envParams":{"FW_IF2IF":"1"}}`, ""},
		{`network unset envParams.FW_IF2IF`, ""},
		{`node modify {"n":{"topologyInfo":{"nodeName":"x"}}}`, "n: topologyInfo.nodeName: is read-only"},
		{`node modify {"n":{"topologyInfo":{"radioInfo":{"02:00:00:00:00:01":{}}}}}`,
			"n: topologyInfo.radioInfo: is read-only"},
		{`node modify {"n":{"envParams":null}}`,
			"n: envParams: invalid type null in the node layer over an object in the network layer"},
	} {
		_, faults := Apply(w, one(t, tt.write))
		compareLines(t, faults.Error(), tt.want)
	}
}

// layer draws an overrides document over the keys of small, right and wrong.
func layer(t *rapid.T, label string) config.Object {
	value := rapid.SampledFrom([]any{int64(1), int64(99), "x", nil, config.Object{}, config.Object{"must": int64(1)},
		config.Object{"may": "x"}, config.Object{"k": config.Object{"v": int64(1)}}})
	keys := rapid.SampledFrom([]string{"n", "s", "o", "m", "ro", "dep", "closed", "zz"})
	return rapid.MapOfN(keys, value, 0, 4).Draw(t, label)
}

func drawn(t *rapid.T, w Inputs) (Inputs, Change) {
	w.Network = layer(t, "network")
	w.Kinds = map[string]layers.Set{"": {layers.Base: layer(t, "base")}, "k": {layers.Base: layer(t, "base of k")}}
	w.Nodes = map[string]Node{}
	for _, name := range []string{"n1", "n2", "n3"} {
		w.Nodes[name] = Node{rapid.SampledFrom([]string{"", "k"}).Draw(t, "kind"), layer(t, "auto"), layer(t, "own")}
	}
	c := Change{Layer: layers.Network, Op: Op(rapid.IntRange(0, 2).Draw(t, "op")), Overrides: layer(t, "overrides")}
	for key := range layer(t, "keys") {
		c.Keys = append(c.Keys, []string{key})
	}
	if rapid.Bool().Draw(t, "node") {
		c.Layer, c.Overrides = layers.Node, config.Object{"n1": c.Overrides, "n4": layer(t, "more")}
		for i := range c.Keys {
			c.Keys[i] = append([]string{"n1"}, c.Keys[i]...)
		}
	}
	return w, c
}

// written is the world after an accepted write.
func written(w Inputs, r Result) Inputs {
	w.Network = r.Network
	nodes := map[string]Node{}
	for name, n := range w.Nodes {
		nodes[name] = n
	}
	for name, own := range r.Nodes {
		n := nodes[name]
		n.Own = own
		nodes[name] = n
	}
	w.Nodes = nodes
	return w
}

// faultsOf is all that is wrong with a node, with its values, by a way of its own.
func faultsOf(w Inputs, name string) map[string]bool {
	e := &editor{inputs: w}
	set := e.layersOf(name)
	o, clashes := set.Effective()
	out := map[string]bool{}
	for _, c := range clashes {
		v, _ := config.Lookup(set[c.Above], c.Path)
		out["clash "+config.FormatPath(c.Path)+show(v)+c.Above.String()] = true
	}
	for _, f := range w.Metadata.Validate(o).Faults {
		out[f.Rule+" "+config.FormatPath(f.Path)+show(f.Value)] = true
	}
	return out
}

// TestWritesProperty: a refused write changes nothing, an accepted one leaves no node with
// a fault that it did not have, and what it says has changed is what has.
func TestWritesProperty(t *testing.T) {
	base := world(t, `{}`, `{}`, `{}`)
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		w, c := drawn(t, base)
		before := show(w.Network)
		r, faults := Apply(w, c)
		again, sameFaults := Apply(w, c)
		if said(r) != said(again) || faults.Error() != sameFaults.Error() {
			t.Fatal("two runs differ")
		}
		if show(w.Network) != before {
			t.Fatal("the world was changed")
		}
		if faults != nil {
			if r.Changed || r.Nodes != nil {
				t.Fatal("a refused write has a result")
			}
			return
		}
		accepted++
		after := written(w, r)
		effects := map[string]string{}
		for _, x := range r.Effects {
			for _, name := range x.Nodes {
				effects[name] = show(x.Diff)
			}
		}
		for name := range after.Nodes {
			had := faultsOf(w, name)
			for f := range faultsOf(after, name) {
				if !had[f] {
					t.Fatalf("%s has %s", name, f)
				}
			}
			was, _ := (&editor{inputs: w}).layersOf(name).Effective()
			now, _ := (&editor{inputs: after}).layersOf(name).Effective()
			if diff := show(config.FullDiff(was, now)); diff != "{}" && diff != effects[name] || diff == "{}" &&
				effects[name] != "" {
				t.Fatalf("%s: %s, told %s", name, diff, effects[name])
			}
		}
	})
	if accepted == 0 && !testing.Short() { // of the twenty draws of -short all are refused in 2 runs of 300
		t.Error("no write was accepted")
	}
}

// TestSetThenUnsetGivesBack: what modify adds, unset of the same keys takes away again.
func TestSetThenUnsetGivesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := layer(t, "old")
		path := rapid.SliceOfN(rapid.SampledFrom([]string{"p", "q.r", ""}), 1, 3).Draw(t, "path")
		path = append([]string{"new"}, path...)
		w := Inputs{Sections: sections, Network: old}
		r, faults := Apply(w, Change{Layer: layers.Network, Op: Modify, Overrides: config.Set(nil, path, int64(1))})
		if faults != nil {
			t.Fatal(faults)
		}
		w.Network = r.Network
		r, faults = Apply(w, Change{Layer: layers.Network, Op: Unset, Keys: [][]string{path}})
		if faults != nil || show(r.Network) != show(old) {
			t.Fatalf("%v: %s", faults, show(r.Network))
		}
	})
}
