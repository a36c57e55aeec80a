package layers

import (
	"slices"
	"testing"

	"edgespan/config"
)

// FuzzTypes: what is taken from hw_types.json can be used as it is, or there is a fault.
func FuzzTypes(f *testing.F) {
	for _, s := range []string{`{"NXP":["a","b"]}`, `{"A":["x"],"B":["x"]}`, `{"../x":[]}`, `{"":1}`, `{"A":[null,{}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, faults := config.ParseObject(text)
		if faults != nil {
			return
		}
		types, boards, faults := ParseTypes(o)
		if len(types) != len(o) && faults == nil {
			t.Errorf("%q of %v", types, o)
		}
		for board, of := range boards {
			if board == "" || !slices.Contains(types, of) {
				t.Errorf("board %q is of %q, of %q", board, of, types)
			}
		}
		nodes, faults := NodeLayers(o)
		if len(nodes)+len(faults) != len(o) {
			t.Errorf("%d nodes and %d faults of %d", len(nodes), len(faults), len(o))
		}
	})
}
