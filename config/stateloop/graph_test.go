package stateloop

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// desiredAll reads "a:b,c -d:a": d is to be absent, and what stands behind the colon are dependencies.
func desiredAll(text string) (out []DesiredParameter) {
	for _, word := range strings.Fields(text) {
		id, on, _ := strings.Cut(word, ":")
		w := DesiredParameter{ID: id, Target: ToBePresent}
		if absent, ok := strings.CutPrefix(id, "-"); ok {
			w.ID, w.Target = absent, ToBeAbsent
		}
		if on != "" {
			w.Dependencies = strings.Split(on, ",")
		}
		out = append(out, w)
	}
	return out
}

func TestNewGraph(t *testing.T) {
	for _, c := range []struct{ set, wantMake, wantRemove, faults string }{
		{"", "", "", ""},
		{"b a", "a b", "", ""},
		{"a:b b:c c", "c b a", "", ""},
		{"top:left,right left:base right:base base", "base left right top", "", ""},
		{"-a:b -b:c -c", "", "a b c", ""},
		{"x -join:tunnel,bridge -tunnel:bridge -bridge y:x", "x y", "join tunnel bridge", ""},
		// What is to be absent may need what stays, and what stays the other way round.
		{"-adapter:network network", "network", "adapter", ""},
		{"a:gone -gone", "a", "gone", ""},
		{"a:a", "a", "", `a: "a" depends on itself: must be without a cycle`},
		{"a:b b:a", "a b", "",
			`a: parameters wait for each other: "a" -> "b" -> "a": must be without a cycle`},
		{"c:a b:c a:b", "a b c", "",
			`a: parameters wait for each other: "a" -> "b" -> "c" -> "a": must be without a cycle`},
		{"a:b -b:a", "a", "b",
			`a: parameters wait for each other: "a" -> "b" -> "a": must be without a cycle`},
		// An eight: the way round from a does not meet c.
		{"a:b b:a,c c:b", "a b c", "",
			`a: parameters wait for each other: "a" -> "b" -> "a", all in "a", "b", "c": must be without a cycle`},
		{
			"d:e e:d,a a:b b:a x:x", "a b d e x", "",
			`a: parameters wait for each other: "a" -> "b" -> "a": must be without a cycle; ` +
				`d: parameters wait for each other: "d" -> "e" -> "d": must be without a cycle; ` +
				`x: "x" depends on itself: must be without a cycle`,
		},
		{
			"a:z,y,z b:z", "a b", "", `a: "a" depends on "y", which is not a parameter: must be the id of a parameter; ` +
				`a: "a" depends on "z", which is not a parameter: must be the id of a parameter; b: "b" depends on "z", which ` +
				`is not a parameter: must be the id of a parameter`,
		},
		{"a:b,c b:d c:d d:a", "a b c d", "",
			`a: parameters wait for each other: "a" -> "b" -> "d" -> "a", all in "a", "b", "c", "d": must be without a cycle`},
		{"a:b a:c b c", "b c a", "", ""}, // of one id twice both dependencies count
	} {
		g := NewGraph(desiredAll(c.set))
		faults := strings.ReplaceAll(g.Faults(func(id string) []string { return []string{id} }).Error(), "\n", "; ")
		if got := strings.Join(g.CreationOrder(), " "); got != c.wantMake {
			t.Errorf("%s: make %s, want %s", c.set, got, c.wantMake)
		}
		if got := strings.Join(g.RemovalOrder(), " "); got != c.wantRemove {
			t.Errorf("%s: remove %s, want %s", c.set, got, c.wantRemove)
		}
		if faults != c.faults {
			t.Errorf("%s:\n%s\nwant\n%s", c.set, faults, c.faults)
		}
	}
}

func TestIDsAreNamedInFull(t *testing.T) {
	id := "joined/10000000-0000-4000-8000-00000000000a/tunnel/10000000-0000-4000-8000-00000000000a/20000000-0000-4000-8000-00000000000b"
	faults := NewGraph([]DesiredParameter{{ID: id, Dependencies: []string{id}},
		{ID: strings.Repeat("x", 1000), Dependencies: []string{"y\n"}}}).Faults(func(string) []string { return nil })
	if got := faults.Error(); !strings.Contains(got, id) || len(got) > 600 || strings.Count(got, "\n") != 1 {
		t.Error(got)
	}
	if got, want := quote(strings.Repeat("x", 200))+quote(strings.Repeat("y", 201)),
		strconv.Quote(strings.Repeat("x", 200))+strconv.Quote(strings.Repeat("y", 200)+"…"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A long chain is no deep trouble.
func TestALongChain(t *testing.T) {
	var ws []DesiredParameter
	for i := range 20_000 {
		ws = append(ws, DesiredParameter{ID: fmt.Sprintf("%05d", i), Dependencies: []string{fmt.Sprintf("%05d", i+1)}})
	}
	ws = append(ws, DesiredParameter{ID: "20000"})
	if g := NewGraph(ws); g.Order[0] != "20000" || g.Cycles != nil || g.Unknown != nil {
		t.Error(g.Order[0], g.Cycles, g.Unknown)
	}
}

// Whatever depends on whatever: order does not count, each id comes once, behind what it
// depends on but for cycles; two parameters are in one cycle if and only if each reaches the other.
func TestPropertyGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 7).Draw(t, "n")
		var ws []DesiredParameter
		for i := range n {
			w := DesiredParameter{ID: strconv.Itoa(i),
				Target: rapid.SampledFrom([]Target{ToBePresent, ToBeAbsent}).Draw(t, "target")}
			for _, to := range rapid.SliceOfN(rapid.IntRange(0, 7), 0, 3).Draw(t, "on") {
				w.Dependencies = append(w.Dependencies, strconv.Itoa(to))
			}
			ws = append(ws, w)
		}
		g := NewGraph(ws)
		if other := NewGraph(rapid.Permutation(ws).Draw(t, "order")); fmt.Sprint(other) != fmt.Sprint(g) {
			t.Fatalf("another order: %+v and %+v", g, other)
		}
		reach := reachable(ws)
		in := map[string]int{}
		for i, c := range g.Cycles {
			for _, m := range c.Members {
				in[m] = i + 1
			}
			for j := range len(c.Path) - 1 {
				if !slices.Contains(ws[slices.IndexFunc(ws,
					func(w DesiredParameter) bool { return w.ID == c.Path[j] })].Dependencies,
					c.Path[j+1]) {
					t.Fatalf("%v is no way", c.Path)
				}
			}
			if c.Path[0] != c.Path[len(c.Path)-1] || c.Path[0] != c.Members[0] {
				t.Fatalf("%v does not lead back", c.Path)
			}
		}
		for a := range n {
			for b := range n {
				x, y := strconv.Itoa(a), strconv.Itoa(b)
				both := reach[x][y] && reach[y][x]
				if both != (in[x] != 0 && in[x] == in[y]) {
					t.Fatalf("%s and %s: %v", x, y, g.Cycles)
				}
				if reach[x][y] && !both && slices.Index(g.Order, x) < slices.Index(g.Order, y) {
					t.Fatalf("%s before %s: %v", x, y, g.Order)
				}
			}
		}
		if len(g.Order) != n || len(g.CreationOrder())+len(g.RemovalOrder()) != n {
			t.Fatalf("%d of %d: %v", len(g.Order), n, g.Order)
		}
	})
}

// reachable says which id leads to which, by at least one dependency (Warshall).
func reachable(ws []DesiredParameter) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, w := range ws {
		out[w.ID] = map[string]bool{}
		for _, to := range w.Dependencies {
			out[w.ID][to] = true
		}
	}
	for k := range out {
		for i := range out {
			for j := range out {
				out[i][j] = out[i][j] || out[i][k] && out[k][j]
			}
		}
	}
	return out
}
