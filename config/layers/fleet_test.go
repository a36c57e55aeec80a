package layers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
)

func TestAFleetKnowsWhoseConfigHasChanged(t *testing.T) {
	f := NewFleet(parse(t, `{"n":1}`))
	if changed := f.SetKind("k", parse(t, `{"a":{"b":1},"x":0}`), nil, parse(t, `{"h":1}`)); changed != nil {
		t.Errorf("a kind without nodes changed %v", changed)
	}
	put := func(node, auto, own string, want bool) {
		t.Helper()
		if changed, err := f.Put(node, "k", parse(t, auto), parse(t, own)); err != nil || changed != want {
			t.Errorf("%s: changed %v, %v", node, changed, err)
		}
	}
	put("one", `{}`, `{}`, true)
	put("two", `{"x":1}`, `{"n":5}`, true)
	put("two", `{"x":1}`, `{"n":5}`, false)
	put("three", `{"a":7}`, `{}`, true)
	if _, err := f.Put("four", "unknown", nil, nil); err == nil {
		t.Error("a node of no kind was taken")
	}
	check := func(node, config, clash string) {
		t.Helper()
		s, _ := f.Layers(node)
		o, _ := s.Effective()
		sum, clashes := f.MD5(node)
		if config != "" && (show(o) != config || sum != md5(o) || clashes != nil) {
			t.Errorf("%s: %s with %s, %v", node, show(o), sum, clashes)
		}
		if clash != "" && (sum != "" || !strings.Contains(clashes.Error(), clash)) {
			t.Errorf("%s: %s, %v", node, sum, clashes)
		}
	}
	check("one", `{"a":{"b":1},"h":1,"n":1,"x":0}`, "")
	check("two", `{"a":{"b":1},"h":1,"n":5,"x":1}`, "")
	check("three", "", "a: invalid type int64 in the auto layer over an object in the base layer")
	for _, c := range []struct {
		network string
		want    string
	}{
		{`{"n":2}`, "[one]"}, // two shadows it, three has no config
		{`{"n":2}`, "[]"},
		{`{"n":2,"a":{"b":1}}`, "[]"},
		{`{"h":{}}`, "[one two]"},
		{`{"a":9}`, "[one three two]"}, // three: another clash is another answer
		{`{"n":1}`, "[one three two]"},
	} {
		if got := fmt.Sprint(f.SetNetwork(parse(t, c.network))); got != c.want {
			t.Errorf("network %s changed %s, want %s", c.network, got, c.want)
		}
	}
	if got := f.SetKind("k", parse(t, `{"a":6}`), nil, nil); !slices.Equal(got, []string{"one", "three", "two"}) {
		t.Errorf("the kind changed %v", got)
	}
	check("three", `{"a":7,"n":1}`, "")
	if f.Remove("two"); !slices.Equal(f.Nodes(), []string{"one", "three"}) {
		t.Errorf("nodes %v", f.Nodes())
	}
	if sum, clashes := f.MD5("two"); sum != "" || clashes != nil {
		t.Errorf("a node that was removed has %s, %v", sum, clashes)
	}
}

func md5(o config.Object) string { return config.MD5(o) }

// A fleet answers as if each node were computed alone, in whatever order things come.
func TestAFleetAgreesWithEachNodeAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := NewFleet(nil)
		desired := map[string]Set{}
		for _, k := range []string{"k1", "k2"} {
			f.SetKind(k, nil, nil, nil)
		}
		kinds, kindOf := map[string]Set{}, map[string]string{}
		var network config.Object
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			s := sets().Draw(t, "set")
			k := rapid.SampledFrom([]string{"k1", "k2"}).Draw(t, "kind")
			node := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "node")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				kinds[k] = s
				f.SetKind(k, s[Base], s[Firmware], s[Hardware])
			case 1:
				network = s[Network]
				f.SetNetwork(network)
			case 2:
				kindOf[node], desired[node] = k, s
				if _, err := f.Put(node, k, s[Auto], s[Node]); err != nil {
					t.Fatal(err)
				}
			}
		}
		for node, own := range desired {
			s := kinds[kindOf[node]]
			s[Auto], s[Network], s[Node] = own[Auto], network, own[Node]
			o, clashes := s.Effective()
			sum, got := f.MD5(node)
			if got.Error() != clashes.Error() || clashes == nil && sum != md5(o) || clashes != nil && sum != "" {
				t.Fatalf("%s: %s, %v; want %s, %v", node, sum, got, md5(o), clashes)
			}
		}
	})
}
