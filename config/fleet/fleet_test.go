package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/stateloop/peer"
)

// parse returns a document; a bad one is an error of the test.
func parse(text string) config.Object {
	o, faults := config.ParseObject([]byte(text))
	if faults != nil {
		panic(faults)
	}
	return o
}

// tiny is a fleet of one kind for v1 with a base, and no nodes.
func tiny(t interface{ Fatal(...any) }, base string) *DesiredConfigs {
	f, err := NewFleet("s", Hardware{Library: layers.Library{
		Base: []string{"EDGESPAN_1"}, Hardware: map[string][]string{"t": {"EDGESPAN_1"}},
		Boards: map[string]string{"b1": "t"},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, set := f.Kind(v1)
	if set || k.Base != "EDGESPAN_1" || k.Unknown {
		t.Fatal(k, set)
	}
	if _, err := f.SetKind(k, parse(base), nil, nil); err != nil {
		t.Fatal(err)
	}
	return f
}

// touchedText formats touched nodes as one sentence.
func touchedText(touched []Touched, err error) string {
	var out []string
	for _, n := range touched {
		s := n.Node + " " + n.Desired.Generation.String()
		if n.Desired.Managed {
			s += " managed"
		}
		if n.Desired.Unknown {
			s += " unknown"
		}
		if n.Desired.Peer != "" {
			s += " peer=" + n.Desired.Peer
		}
		if n.Desired.Fault != "" {
			s += " faulty"
		}
		if n.Counted.Generation != n.Desired.Generation || n.Desired.Fault == "" && n.Counted.Digest != n.Desired.Digest {
			s += " miscounted"
		}
		out = append(out, s)
	}
	if err != nil {
		out = append(out, err.Error())
	}
	return strings.Join(out, ", ")
}

func TestOnlyNodesWhoseEffectiveConfigChangedAreTouched(t *testing.T) {
	f := tiny(t, `{"sysParams": {"managedConfig": false, "logLevel": "info"}, "envParams": {"A": "0"}}`)
	network := func(text string) string { return touchedText(f.SetNetwork(parse(text))) }
	put := func(node, own string) string {
		return touchedText(f.Put(node, v1, nil, parse(own), Counted{}))
	}
	goes := map[string]string{}
	f.SetPeers(func(node string, _ layers.Set, _ string) (*peer.Configuration, string) { return nil, goes[node] })
	setPeer := func(node, digest string) string {
		goes[node] = digest
		return touchedText(f.Recompute(node))
	}
	for _, c := range []struct{ name, got, want string }{
		{"a node", put("n1", `{"envParams": {"A": "1"}}`), "n1 s:1"},
		{"another", put("n2", `{}`), "n2 s:1"},
		{"and one that the store counted before",
			touchedText(f.Put("n3", v1, nil, parse(`{"envParams": {"B": "1"}}`), Counted{Generation: gen(7), Digest: a})), "n3 s:8"},
		{"the network layer touches those that it does not leave as they are", network(`{"envParams": {"A": "1"}}`),
			"n2 s:2, n3 s:9"},
		{"and no one where it says the same", network(`{"envParams": {"A": "1"}}`), ""},
		{"who is managed is read from the effective config",
			network(`{"envParams": {"A": "1"}, "sysParams": {"managedConfig": true}}`),
			"n1 s:2 managed, n2 s:3 managed, n3 s:10 managed"},
		{"of a node too", put("n1", `{"sysParams": {"managedConfig": false}}`), "n1 s:3"},
		{"what is no boolean is no yes", put("n1", `{"sysParams": {"managedConfig": "true"}}`), "n1 s:4"},
		{"a PeerConfiguration touches its node", setPeer("n2", "P"), "n2 s:4 managed peer=P"},
		{"once", setPeer("n2", "P"), ""},
		{"a clash is a fault of its node, and takes no number", put("n2", `{"envParams": 1}`), "n2 s:4 faulty"},
		{"which ends", put("n2", `{}`), "n2 s:4 managed peer=P"},
		{"a node that is put again is sent its config even if that is the same", put("n2", `{}`), "n2 s:4 managed peer=P"},
		{"a version of the same kind has the same config", touchedText(f.Put("n3", v2, nil, nil, Counted{})),
			"n3 s:11 managed"},
		{
			"without the layers of its kind there is no config",
			touchedText(f.Put("n9", layers.Versions{Board: "b9"}, nil, nil, Counted{})),
			`put node n9: its kind (base "EDGESPAN_1", firmware "", hardware "") has no layers yet`,
		},
		{"nor does a PeerConfiguration touch a node that is not here", setPeer("n9", "P"), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, c.got, c.want)
		}
	}
	if c, ok := f.Counted("n3"); !ok || c.Generation.Counter != 11 {
		t.Errorf("n3 was counted to %v, %v", c, ok)
	}
	if c, ok := f.Counted("n9"); ok {
		t.Errorf("n9 is not in the fleet and was counted to %v", c)
	}
}

func TestSeed_AllNodesOfABoardResumeOnceItIsKnown(t *testing.T) {
	f := tiny(t, `{}`)
	vendor := layers.Versions{Software: "VENDOR-3", Board: "x1"}
	k, set := f.Kind(vendor)
	if !k.Unknown || set {
		t.Fatal(k, set)
	}
	if _, err := f.SetKind(k, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n1", "n2"} {
		if got := touchedText(f.Put(name, vendor, nil, nil, Counted{})); got != name+" s:1 unknown" {
			t.Error(got)
		}
	}
	touchedText(f.Put("n3", v1, nil, nil, Counted{}))
	h := f.hardware
	h.Learnt = map[string]layers.Library{"x1": {Base: []string{"VENDOR-3"}}}
	if others := f.SetHardware(h); !slices.Equal(others, []string{"n1", "n2"}) {
		t.Fatalf("of another kind are %q", others)
	}
	k, _ = f.Kind(vendor)
	if _, err := f.SetKind(k, parse(`{"vendor": {"a": 1}, "sysParams": {"managedConfig": true}}`), nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n1", "n2"} {
		if got := touchedText(f.Put(name, vendor, nil, nil, Counted{})); got != name+" s:2 managed" {
			t.Error(got)
		}
	}
	if w := f.nodes["n3"].desired; w.Generation != gen(1) {
		t.Errorf("a node of another board wants %+v", w)
	}
}

func TestFleetFaults(t *testing.T) {
	if _, err := NewFleet("a b", Hardware{}, nil); err == nil ||
		!strings.HasPrefix(err.Error(), "make fleet: the authority has ' '") {
		t.Error(err)
	}
	f := tiny(t, `{}`)
	const end = "n1 s:18446744073709551615"
	last := Counted{Generation: Generation{Authority: "s", Counter: 1<<64 - 1}, Digest: Digest{Config: config.MD5(nil)}}
	if got := touchedText(f.Put("n1", v1, nil, nil, last)); got != end {
		t.Error(got)
	}
	if got := touchedText(f.SetNetwork(parse(`{"a": 1}`))); got != "node n1: allocate generation: the counter is at its "+
		"end: a store with another id begins anew" {
		t.Error(got)
	}
}

// After any changes a fleet's desired configs equal those computed afresh from each node's layers, and exactly those
// nodes were touched whose desired config changed.
func TestPropertyTheFleetTellsWhoIsTouched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := tiny(t, `{"sysParams": {"managedConfig": false}}`)
		object := rapid.SampledFrom([]string{`{}`, `{"a": {"b": 1}}`, `{"a": {"b": 2}}`, `{"a": 5}`,
			`{"sysParams": {"managedConfig": true}}`, `{"sysParams": {"managedConfig": false}}`})
		reported := map[string]Desired{}
		for range 15 {
			node := fmt.Sprintf("n%d", rapid.IntRange(1, 4).Draw(t, "node"))
			before := map[string]Desired{}
			for name, n := range f.nodes {
				before[name] = n.desired
			}
			var touched []Touched
			var err error
			put := rapid.Bool().Draw(t, "put")
			if put {
				touched, err = f.Put(node, v1, parse(object.Draw(t, "auto")), parse(object.Draw(t, "own")), Counted{})
			} else {
				touched, err = f.SetNetwork(parse(object.Draw(t, "network")))
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range touched {
				if n.Desired == before[n.Node] && !put {
					t.Fatalf("%s is touched and wants the same", n.Node)
				}
				reported[n.Node] = n.Desired
			}
			for name := range f.nodes {
				set, _ := f.Layers(name)
				o, clashes := set.Effective()
				w := reported[name]
				if now := f.nodes[name].desired; now != w {
					t.Fatalf("%s wants %+v and was told %+v", name, now, w)
				}
				if (clashes != nil) != (w.Fault != "") {
					t.Fatalf("%s: %v, told %q", name, clashes, w.Fault)
				}
				if clashes != nil {
					continue
				}
				now, _ := config.Lookup(o, []string{"sysParams", "managedConfig"})
				if w.Digest.Config != config.MD5(o) || w.Managed != now {
					t.Fatalf("%s was told %+v of %v", name, w, o)
				}
			}
		}
	})
}
