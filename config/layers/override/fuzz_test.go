package override

import (
	"testing"

	"edgespan/config"
	"edgespan/config/layers"
)

// FuzzApply writes whatever parses: nothing panics, a refused write has no result, and the
// world stays as it is.
func FuzzApply(f *testing.F) {
	for _, seed := range [][3]string{
		{`{}`, `{"n":1}`, `{"n":2}`},
		{`{"o":{"must":1}}`, `{"o":5}`, `{"n1":{"o":{"may":"x"}},"n9":{}}`},
		{`{"pw":"x"}`, `{"m":{"a":{}}}`, `{"pw":{"$masked":true},"a.b":{"":null}}`},
		{`{"ports":{"wan":{"ifName":"eth0"}}}`, `{"ports":{"wan":{"$absent":true}}}`,
			`{"ports":{"wan":{"$absent":false},"x":5},"networkInstances":[]}`},
		{`{"":{"":[]}}`, `{"":{}}`, `{"":{"":{}}}`},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	m := world(f, `{}`, `{}`, `{}`).Metadata
	f.Fuzz(func(t *testing.T, network, own, request string) {
		var docs [3]config.Object
		for i, text := range []string{network, own, request} {
			o, faults := config.ParseObject([]byte(text))
			if faults != nil {
				t.Skip()
			}
			docs[i] = o
		}
		w := Inputs{Sections: sections, Network: docs[0], Nodes: map[string]Node{"n1": {Own: docs[1]}, "n2": {Auto: docs[1]}},
			Metadata: m}
		before := show(w.Network) + show(docs[1]) + show(docs[2])
		for _, c := range []Change{
			{Layer: layers.Network, Op: Set, Overrides: docs[2]},
			{Layer: layers.Network, Op: Modify, Overrides: docs[2]},
			{Layer: layers.Node, Op: Set, Overrides: docs[2]},
			{Layer: layers.Node, Op: Modify, Overrides: config.Object{"n1": docs[2]}},
			{Layer: layers.Network, Op: Unset, Keys: keysIn(docs[2])},
			{Layer: layers.Node, Op: Unset, Keys: keysIn(docs[2])},
		} {
			r, faults := Apply(w, c)
			if again, same := Apply(w, c); said(r) != said(again) || faults.Error() != same.Error() {
				t.Fatal("two runs differ")
			}
			if faults != nil && (r.Changed || r.Effects != nil || r.Nodes != nil) {
				t.Fatal("a refused write has a result")
			}
		}
		if show(w.Network)+show(docs[1])+show(docs[2]) != before {
			t.Fatal("the world was changed")
		}
	})
}

func keysIn(o config.Object) [][]string {
	var out [][]string
	for path := range walkChanges(nil, o) {
		out = append(out, path)
	}
	return out
}
