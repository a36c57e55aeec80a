package history

import "testing"

// BenchmarkPlanOneOfManyLayers measures a write of one node's layer among twenty thousand, without the MD5 and merge of
// the fleet.
func BenchmarkPlanOneOfManyLayers(b *testing.B) {
	s := newStore()
	s.write(b, Change{Layers: many(20000, "x")})
	state := s.head(b)
	c := signed(Change{Layers: layersFrom(b, `node/node-00007={"a":{"b":1}}`)})
	b.ReportAllocs()
	for b.Loop() {
		ok(state.Plan(c))(b)
	}
}

// BenchmarkPlanManyLayers measures a write that replaces ten thousand layers, as an optimization does.
func BenchmarkPlanManyLayers(b *testing.B) {
	s := newStore()
	s.write(b, Change{Layers: many(10000, "x")})
	state := s.head(b)
	c := signed(Change{Layers: many(10000, "y")})
	b.ReportAllocs()
	for b.Loop() {
		ok(state.Plan(c))(b)
	}
}

// BenchmarkReadAllLayers measures the start of a controller of ten thousand nodes.
func BenchmarkReadAllLayers(b *testing.B) {
	s := newStore()
	s.write(b, Change{Layers: many(20000, "x")})
	b.ReportAllocs()
	for b.Loop() {
		ok(s.head(b).AllLayers())(b)
	}
}
