package layers

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
)

const real = "../testdata/terragraph/base_versions"

func parse(t testing.TB, text string) config.Object {
	t.Helper()
	o, faults := config.ParseObject([]byte(text))
	if faults != nil {
		t.Fatalf("%s: %v", text, faults)
	}
	return o
}

func readReal(t testing.TB, name string) config.Object {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(real, name))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

// realSet is the example of the reference (§1.3).
func realSet(t testing.TB) Set {
	return Set{
		Base:     readReal(t, "RELEASE_M81.json"),
		Firmware: readReal(t, "fw_versions/10.11.0.json"),
		Hardware: readReal(t, "hw_versions/NXP/RELEASE_M81.json"),
		Network:  parse(t, `{"sysParams":{"managedConfig":true}}`),
		Node:     parse(t, `{"popParams":{"POP_IFACE":"nic2"}}`),
	}
}

// set parses six layers; "" is none.
func set(t testing.TB, texts ...string) Set {
	t.Helper()
	var s Set
	for i, text := range texts {
		if text != "" {
			s[i] = parse(t, text)
		}
	}
	return s
}

func show(v any) string {
	return strings.NewReplacer("\n", "", "  ", "", "\": ", "\":").Replace(string(config.AppendCanonical(nil, v)))
}

// "Terragraph follows a layered configuration model, with a node's "full" configuration
// computed as the union of all layers in the following order".
func TestSeed_TheEffectiveConfigIsTheUnionOfAllLayersInTheirOrder(t *testing.T) {
	var s Set
	for l := Base; l <= Node; l++ {
		s[l] = parse(t, fmt.Sprintf(`{"all":%q,"own":{%q:1},"from%d":1}`, l, l, l))
		for above := l; above <= Node; above++ {
			s[above] = config.Set(s[above], []string{fmt.Sprintf("upto%d", above)}, l.String())
		}
	}
	got, clashes := s.Effective()
	want := `{"all":"node","from0":1,"from1":1,"from2":1,"from3":1,"from4":1,"from5":1,` +
		`"own":{"auto":1,"base":1,"firmware":1,"hardware":1,"network":1,"node":1},`
	if clashes != nil || !strings.HasPrefix(show(got), want) {
		t.Errorf("%s, %v\nwant %s", show(got), clashes, want)
	}
	for i, want := range []string{
		"53ade77c24fde5ab5d0e8ab8d3da41ac", "94a4d113400b69e5053aad278dd00718", "650aed045e5fa80ba144a1395ad66275",
		"650aed045e5fa80ba144a1395ad66275", "09e10f0900a66f5b3e6d13caf2667336", "c10047ec3efac862ad025c0a5649e5db",
	} {
		var some Set
		whole := realSet(t)
		copy(some[:], whole[:i+1])
		if o, clashes := some.Effective(); clashes != nil || config.MD5(o) != want {
			t.Errorf("up to %s: MD5 %s, %v, want %s", Layer(i), config.MD5(o), clashes, want)
		}
	}
	if o, clashes := (Set{}).Effective(); clashes != nil || show(o) != "{}" || o == nil {
		t.Errorf("no layers are %s, %v", show(o), clashes)
	}
}

// An object never silently swallows a scalar: the error names both layers.
func TestAClashNamesBothLayers(t *testing.T) {
	const tail = ": must be an object"
	for _, c := range []struct {
		layers []string
		want   string
	}{
		{[]string{`{"a":{"b":1}}`, "", "", "", `{"a":5}`},
			"a: invalid type int64 in the network layer over an object in the base layer" + tail},
		{[]string{`{"a":{"b":1}}`, `{"a":{}}`, "", "", `{"a":null}`},
			"a: invalid type null in the network layer over an object in the firmware layer" + tail},
		{[]string{`{"a":{"b":{}}}`, "", `{"a":{"c":1}}`, "", "", `{"a":{"b":[]}}`},
			"a.b: invalid type array in the node layer over an object in the base layer" + tail},
		{[]string{`{"a":5}`, `{"a":{"b":1}}`}, ""}, // a scalar gives way
		{
			[]string{`{"b":{},"a":{}}`, `{"b":1,"a":""}`, "", `{"a":true,"c.d":{}}`, `{"c.d":1.5}`},
			"\"c.d\": invalid type double in the network layer over an object in the auto layer" + tail + "\n" +
				"a: invalid type string in the firmware layer over an object in the base layer" + tail + "\n" +
				"a: invalid type boolean in the auto layer over an object in the base layer" + tail + "\n" +
				"b: invalid type int64 in the firmware layer over an object in the base layer" + tail,
		},
	} {
		_, clashes := set(t, c.layers...).Effective()
		lines := strings.Split(clashes.Error(), "\n")
		want := strings.Split(c.want, "\n")
		slices.Sort(want)
		slices.Sort(lines)
		if !slices.Equal(lines, want) {
			t.Errorf("%q:\n%s\nwant\n%s", c.layers, clashes, c.want)
		}
	}
}

func TestOrigins(t *testing.T) {
	for _, c := range []struct {
		layers []string
		want   string
	}{
		{[]string{`{"a":1,"b":{"c":1,"d":{}},"e":[],"f":null}`}, "a:base b.c:base b.d:base e:base f:base"},
		{
			[]string{`{"a":1,"b":1}`, `{"b":2}`, `{"c":{"d":1}}`, `{"c":{"d":2,"e":2}}`, `{"c":{"f":{}}}`, `{"x.y":1}`},
			`"x.y":node a:base b:firmware c.d:auto c.e:auto c.f:network`,
		},
		{[]string{`{"a":1}`, "", "", "", `{"a":1}`}, "a:network"},
		{[]string{`{"a":5}`, `{"a":{}}`}, "a:firmware"},
		{[]string{`{"a":{}}`, "", "", `{"a":{}}`}, "a:auto"},
		{[]string{`{"a":{}}`, "", "", `{"a":{"b":[{"c":1}]}}`}, "a.b:auto"},
		{[]string{}, ""},
	} {
		var got []string
		for path, layer := range set(t, c.layers...).Origins() {
			got = append(got, path+":"+layer.String())
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q: %v, want %s", c.layers, got, c.want)
		}
	}
}

func TestExplain(t *testing.T) {
	s := set(t, `{"a":{"b":1,"z":0},"s":7}`, `{"a":{"b":2}}`, "", `{"s":{"x":{}}}`, `{"a":{"b":3}}`, `{"s":{"y":{"z":1}}}`)
	for _, c := range []struct{ path, want string }{
		{"a.b", "a.b=3 from network over firmware a.b=2 over base a.b=1; "},
		{"a.z", "a.z=0 from base; "},
		{"a", "a.b=3 from network over firmware a.b=2 over base a.b=1; a.z=0 from base; "},
		{"s", "s.x={} from auto over base s=7; s.y.z=1 from node over base s=7; "},
		{"s.x", "s.x={} from auto over base s=7; "},
		{"a.c", ""},
		{"a.b.c", ""},
	} {
		path, err := config.ParsePath(c.path)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, e := range s.Explain(path) {
			got += fmt.Sprintf("%s=%s from %s", config.FormatPath(e.Path), show(e.Value), e.Origin)
			for _, x := range e.Shadowed {
				got += fmt.Sprintf(" over %s %s=%s", x.Layer, config.FormatPath(x.Path), show(x.Value))
			}
			got += "; "
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
	if all := s.Explain(nil); len(all) != 4 {
		t.Errorf("without a path: %v", all)
	}
}

func TestFilesOfAllNodes(t *testing.T) {
	nodes, faults := NodeLayers(parse(t, `{"x":{"a":1},"y":{}}`))
	if faults != nil || len(nodes) != 2 || nodes["y"] == nil || nodes["z"] != nil {
		t.Errorf("%v, %v", nodes, faults)
	}
	// In the original an empty object goes when the file is loaded again, and the MD5 with it (§1.22).
	if nodes, _ = NodeLayers(parse(t, `{"x":{"a":{"b":{}}}}`)); show(nodes["x"]) != `{"a":{"b":{}}}` {
		t.Errorf("%v", nodes)
	}
	_, faults = NodeLayers(parse(t, `{"x":5,"y":{},"a.b":null}`))
	if want := "\"a.b\": invalid type null: must be {node: {…}}\nx: invalid type int64: must be {node: {…}}"; faults.Error() != want {
		t.Errorf("%s, want %s", faults, want)
	}
}

// "mapping between board IDs and subdirectory names … One hardware type can represent
// multiple board IDs"; a board id in two types is a fault of ours.
func TestSeed_ATypeHasManyBoards(t *testing.T) {
	types, boards, faults := ParseTypes(readReal(t, "hw_versions/hw_types.json"))
	if faults != nil || !slices.Equal(types, []string{"NXP"}) ||
		!maps.Equal(boards, map[string]string{"NXP_LS1048A_PUMA": "NXP", "NXP_LS1088A_RDB": "NXP",
			"NXP_LS1048A_MBH": "NXP"}) {
		t.Errorf("%v, %v, %v", types, boards, faults)
	}
	_, _, faults = ParseTypes(parse(t, `{"A":["x","x","y",1,""],"B":["y"],"..":[],"a/b":[],"C":"x"}`))
	want := `"..": invalid name of a folder: must be a hardware type
A.3: invalid board id: must be a string
A.4: invalid board id: must be a string
B.0: duplicate board id "y", also of type A: must be unique
C: invalid type string: must be an array of board ids
a/b: invalid name of a folder: must be a hardware type`
	if faults.Error() != want {
		t.Errorf("%s\nwant\n%s", faults, want)
	}
}

// sets are ones that meet, and clash.
func sets() *rapid.Generator[Set] {
	var value func(depth int) *rapid.Generator[any]
	object := func(depth int) *rapid.Generator[config.Object] {
		return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c.d"}), value(depth), 0, 3)
	}
	value = func(depth int) *rapid.Generator[any] {
		simple := rapid.SampledFrom([]any{nil, true, int64(1), 1.0, "x", []any{int64(1)}, []any{}})
		if depth == 0 {
			return simple
		}
		below := rapid.Map(object(depth-1), func(o config.Object) any { return o })
		return rapid.OneOf(below, below, simple)
	}
	return rapid.Custom(func(t *rapid.T) Set {
		var s Set
		for l := range s {
			if rapid.Bool().Draw(t, "there") {
				s[l] = object(3).Draw(t, "layer")
			}
		}
		return s
	})
}

func TestLayersMayBeGroupedInAnyWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sets().Draw(t, "set")
		whole, clashes := s.Effective()
		one, several := config.Object{}, 0
		for _, o := range s {
			merged, found := config.Merge(one, o)
			one, several = merged, several+len(found)
		}
		if show(one) != show(whole) || several != len(clashes) {
			t.Fatalf("one by one: %s with %d clashes, want %s, %s", show(one), several, show(whole), clashes)
		}
		cut := rapid.IntRange(0, count).Draw(t, "cut")
		var below, above Set
		copy(below[:], s[:cut])
		copy(above[cut:], s[cut:])
		b, _ := below.Effective()
		a, _ := above.Effective()
		if grouped, _ := config.Merge(b, a); show(grouped) != show(whole) {
			t.Fatalf("grouped at %d: %s, want %s", cut, show(grouped), show(whole))
		}
	})
}

// What the origin's layer has at a path is the effective value, no layer above it has
// anything there, and nothing that was given has changed.
func TestOriginsAgreeWithTheEffectiveConfig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sets().Draw(t, "set")
		before := fmt.Sprint(s)
		effective, clashes := s.Effective()
		origins := s.Origins()
		if fmt.Sprint(s) != before {
			t.Fatalf("%s became %v", before, s)
		}
		if clashes != nil {
			return
		}
		rebuilt := config.Object{}
		for dotted, layer := range origins {
			path, err := config.ParsePath(dotted)
			if err != nil {
				t.Fatal(err)
			}
			v, found := config.Lookup(s[layer], path)
			if want, _ := config.Lookup(effective, path); !found || show(v) != show(want) {
				t.Fatalf("%s is %s in the %s layer and %s in %s", dotted, show(v), layer, show(want), show(effective))
			}
			for above := layer + 1; above <= Node; above++ {
				if _, more := config.Lookup(s[above], path); more {
					t.Fatalf("%s is of the %s layer and in the %s layer too", dotted, layer, above)
				}
			}
			rebuilt = config.Set(rebuilt, path, v)
		}
		if show(rebuilt) != show(effective) {
			t.Fatalf("the origins make %s of %s", show(rebuilt), show(effective))
		}
	})
}

func TestAnUpdateIsTheWholeComputation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sets().Draw(t, "set")
		old, _ := s.Effective()
		before := show(old)
		l := rapid.IntRange(0, count-1).Draw(t, "layer")
		path := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c.d"}), 1, 3).Draw(t, "path")
		for i := 1; i < len(path); i++ { // what stands in the way is replaced, and so is the change
			if v, found := config.Lookup(s[l], path[:i]); found {
				if _, ok := v.(config.Object); !ok {
					path = path[:i]
				}
			}
		}
		if rapid.Bool().Draw(t, "unset") {
			s[l] = config.Unset(s[l], path)
		} else {
			s[l] = config.Set(s[l], path,
				rapid.SampledFrom([]any{nil, int64(7), config.Object{}, config.Object{"a": int64(8)}}).Draw(t, "value"))
		}
		want, clashes := s.Effective()
		got, found := s.Update(old, path)
		if show(got) != show(want) {
			t.Fatalf("%s of layer %d in %v: %s, want %s", config.FormatPath(path), l, s, show(got), show(want))
		}
		if show(old) != before {
			t.Fatalf("what was given has changed: %s was %s", show(old), before)
		}
		for _, c := range clashes {
			if n := min(len(c.Path), len(path)); slices.Equal(c.Path[:n], path[:n]) &&
				!strings.Contains(found.Error(), c.Error()) {
				t.Fatalf("%s is not among %s", c, found)
			}
		}
		for _, c := range found {
			if !strings.Contains(clashes.Error(), c.Error()) {
				t.Fatalf("%s is no clash: %s", c, clashes)
			}
		}
	})
}
