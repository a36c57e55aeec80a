package history

import (
	"fmt"
	"strings"
	"testing"

	"edgespan/config/layers"
)

// told writes one revision for each line, "author: layers", and returns the store.
func told(t tester, lines ...string) *store {
	t.Helper()
	s := newStore()
	for i, line := range lines {
		author, text, _ := strings.Cut(line, ": ")
		if from, to, isRename := strings.Cut(text, " -> "); isRename {
			c := ok(s.head(t).Rename(from, to))(t)
			c.Author = author
			s.write(t, c)
		} else {
			s.write(t, Change{Author: author, Message: fmt.Sprintf("m%d", i+1), Layers: layersFrom(t, text)})
		}
	}
	return s
}

func TestBlame(t *testing.T) {
	s := told(t,
		`ann: network={"a":{"x":1,"y":1}}; node/n1={"a":1}`,
		`bob: network={"a":{"x":2,"y":1}}`,
		`cat: network={"a":{"x":2,"y":1},"b":{}}`,
		`dan: network={"a":{"x":2,"y":1}}`,
		`eve: node/n1=`,
		`fay: node/n2={"a":1}`,
		`gus: n2 -> n3`,
		`hal: node/n3={"a":1,"b":2}`,
		`ida: node/n1={"a":1}`,
	)
	for _, c := range []struct{ layer, path, want string }{
		{"network", "a.x", "2 bob network: 1 to 2, 1 ann network: nothing to 1"},
		{"network", "a.y", "1 ann network: nothing to 1"},
		{"network", "a", `2 bob network: {"x":1,"y":1} to {"x":2,"y":1}, 1 ann network: nothing to {"x":1,"y":1}`},
		{"network", "b", "4 dan network: {} to nothing, 3 cat network: nothing to {}"},
		{"network", "c", ""},
		{"network", "a.x.z", ""},
		{"node/n1", "a", "9 ida node/n1: nothing to 1, 5 eve node/n1: 1 to nothing, 1 ann node/n1: nothing to 1"},
		{"node/n3", "a", "6 fay node/n2: nothing to 1"},
		{"node/n3", "b", "8 hal node/n3: nothing to 2"},
		{"node/n9", "a", ""},
	} {
		state := s.head(t)
		path := strings.Split(c.path, ".")
		var got []string
		for _, p := range ok(state.PathHistory(layer(t, c.layer), path, 0))(t) {
			side := func(v any, has bool) string {
				if !has {
					return "nothing"
				}
				return short(v)
			}
			got = append(got, fmt.Sprintf("%d %s %s: %s to %s", p.By.Number, p.By.Author, p.Layer, side(p.Old, p.HadOld),
				side(p.New, p.HasNew)))
		}
		equal(t, c.layer+" "+c.path, strings.Join(got, ", "), c.want)
		change, found, err := state.LastChange(layer(t, c.layer), path)
		if err != nil || found != (c.want != "") || found &&
			!strings.HasPrefix(c.want, fmt.Sprintf("%d %s", change.By.Number, change.By.Author)) {
			t.Errorf("blame of %s %s: %v %v %v", c.layer, c.path, change.By, found, err)
		}
	}
	whole := ok(s.head(t).PathHistory(Layer{Node, "n3"}, nil, 1))(t)
	equal(t, "a whole layer", whole[0].By.Number, 8)
	for limit, want := range map[int]string{0: "[9 5 1]", 1: "[9]", 2: "[9 5]", 3: "[9 5 1]", 4: "[9 5 1]"} {
		var numbers []uint64
		for _, c := range ok(s.head(t).PathHistory(Layer{Node, "n1"}, []string{"a"}, limit))(t) {
			numbers = append(numbers, c.By.Number)
		}
		equal(t, fmt.Sprint("the newest ", limit), fmt.Sprint(numbers), want)
	}
	var sides []bool
	for _, c := range ok(s.head(t).PathHistory(Layer{Node, "n1"}, nil, 0))(t) {
		sides = append(sides, c.HadOld, c.HasNew)
	}
	equal(t, "a layer that goes and comes", fmt.Sprint(sides), "[false true true false false true]")
}

func TestAnObjectInThePlaceOfAnotherValueIsOneDifference(t *testing.T) {
	s := told(t, `ann: network={"a":{"x":1,"y":1},"b":1,"c":{"x":1}}`,
		`bob: network={"a":1,"b":{"x":1,"y":2},"c":{"x":2}}`)
	var got []string
	for _, v := range ok(changesOf(s, 2))(t)[0].Values {
		got = append(got, fmt.Sprintf("%s: %s to %s", strings.Join(v.Path, "."), short(v.Old), short(v.New)))
	}
	equal(t, "differences", strings.Join(got, ", "), `a: {"x":1,"y":1} to 1, b: 1 to {"x":1,"y":2}, c.x: 1 to 2`)
}

func TestHistoryOfALayerIsCompleteAndInOrder(t *testing.T) {
	s := told(t,
		`ann: node/n1={"a":1}; network={}`,
		`bob: network={"x":1}`,
		`cat: node/n1={"a":2}`,
		`dan: n1 -> n2`,
		`eve: node/n2={"a":3}`,
		`fay: node/n2=`,
	)
	tellHistory := func(l string, limit int) string {
		var got []string
		for _, e := range ok(s.head(t).History(layer(t, l), limit))(t) {
			text := "nothing"
			if e.Document != nil {
				text = short(e.Document)
			}
			got = append(got, fmt.Sprintf("%d %s %s %s", e.Revision, e.By.Author, e.Layer, text))
		}
		return strings.Join(got, ", ")
	}
	equal(t, "n2", tellHistory("node/n2", 0),
		`6 fay node/n2 nothing, 5 eve node/n2 {"a":3}, 4 dan node/n2 {"a":2}, 3 cat node/n1 {"a":2}, 1 ann node/n1 {"a":1}`)
	equal(t, "n1", tellHistory("node/n1", 0), `4 dan node/n1 nothing, 3 cat node/n1 {"a":2}, 1 ann node/n1 {"a":1}`)
	equal(t, "network", tellHistory("network", 1), `2 bob network {"x":1}`)
	equal(t, "auto", tellHistory("auto/n1", 0), "")
}

func TestDiffOfRevisions(t *testing.T) {
	s := told(t,
		`ann: network={"a":{"x":1},"b":1,"e":{}}; node/n1={"a":1}; node/n2={}`,
		`bob: network={"a":{"x":2},"c":1,"e":{"n":null}}; node/n1=`,
		`cat: auto/n1={}`,
		`dan: auto/n1=`,
	)
	tellDiff := func(from, to uint64) string {
		var got []string
		for _, d := range ok(Diff(ok(At(s, from))(t), ok(At(s, to))(t)))(t) {
			var values []string
			for _, v := range d.Values {
				values = append(values, fmt.Sprintf("%s %v>%v", strings.Join(v.Path, "."), v.Old, v.New))
			}
			got = append(got, fmt.Sprintf("%s %d>%d [%s]", d.Layer, d.Before.Revision, d.After.Revision,
				strings.Join(values, ", ")))
		}
		return strings.Join(got, "; ")
	}
	equal(t, "1 to 2", tellDiff(1, 2),
		"network 1>2 [a.x 1>2, b 1><nil>, c <nil>>1, e.n <nil>><nil>]; node/n1 1>2 [a 1><nil>]")
	equal(t, "2 to 1", tellDiff(2, 1),
		"network 2>1 [a.x 2>1, b <nil>>1, c 1><nil>, e.n <nil>><nil>]; node/n1 2>1 [a <nil>>1]")
	equal(t, "2 to 3", tellDiff(2, 3), "auto/n1 0>3 []")
	equal(t, "the same", tellDiff(3, 3), "")
	equal(t, "there and back", tellDiff(2, 4), "")
	changes := ok(changesOf(s, 1))(t)
	equal(t, "changes of the first", len(changes), 3)
}

func TestADiffReadsOnlyWhatDiffers(t *testing.T) {
	s := newStore()
	s.write(t, Change{Layers: many(5000, "x")})
	s.write(t, Change{Layers: layersFrom(t, `node/node-00042={"a":1}`)})
	s.gets = 0
	equal(t, "layers", len(ok(changesOf(s, 2))(t)), 1)
	if s.gets > 16 {
		t.Errorf("%d reads", s.gets)
	}
}

func TestExplainSaysWhichLayerSetAValueWhenAndByWhom(t *testing.T) {
	s := told(t,
		`ann: network={"a":{"x":2}}; auto/n1={"a":{"x":1}}`,
		`bob: node/n1={"a":{"x":3}}`,
		`cat: node/n1={"a":{"x":3,"z":1}}; network={"a":{"x":2,"w":1}}`,
	)
	versions := layers.Set{layers.Base: doc(t, `{"a":{"x":0,"y":0}}`)}
	var got []string
	for _, e := range ok(s.head(t).Explain("n1", versions, []string{"a"}))(t) {
		by := func(r *RevisionRecord) string {
			if r == nil {
				return "-"
			}
			return fmt.Sprintf("%d %s", r.Number, r.Author)
		}
		line := fmt.Sprintf("%s=%v %s %s", strings.Join(e.Path, "."), e.Value, e.Origin, by(e.By))
		for _, hidden := range e.Shadowed {
			line += fmt.Sprintf(" over %v %s %s", hidden.Value, hidden.Layer, by(hidden.By))
		}
		got = append(got, line)
	}
	equal(t, "explained", strings.Join(got, "\n"), strings.Join([]string{
		"a.w=1 network 3 cat",
		"a.x=3 node 2 bob over 2 network 1 ann over 1 auto 1 ann over 0 base -",
		"a.y=0 base -",
		"a.z=1 node 3 cat",
	}, "\n"))
}

// changesOf returns a revision's changes of the layers that it wrote or deleted.
func changesOf(r Reader, number uint64) ([]LayerDiff, error) {
	before, after, err := statesAround(r, number)
	if err != nil {
		return nil, err
	}
	return Diff(before, after)
}
