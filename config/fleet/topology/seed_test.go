package topology

import "testing"

// The seed, "Operations": each sub-test is a row of docs/seeds.md.
func TestSeed_EditNode(t *testing.T) {
	t.Run("TCM-X1", func(t *testing.T) { // "migrate a node's configuration upon a node name change"
		s := street(t)
		b, _ := s.Topology.Node("b")
		b.Name = "z"
		got, faults := s.EditNode("b", b)
		if faults != nil {
			t.Fatal(faults)
		}
		for layer, moved := range map[string][2]any{"auto": {s.Auto["b"], got.Auto["z"]},
			"node": {s.Node["b"], got.Node["z"]}} {
			if was, now := canonical(moved[0]), canonical(moved[1]); moved[0] == nil || was != now {
				t.Errorf("the %s layer was %s and is %s", layer, was, now)
			}
		}
		if got.Auto["b"] != nil || got.Node["b"] != nil {
			t.Errorf("the old name has layers still: %s", brief(got))
		}
	})
}
