package rollout

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"edgespan/config/fleet/topology"
)

// fleets are networks of about ten thousand nodes.
func fleets() map[string]*topology.Topology {
	out := map[string]*topology.Topology{"ring": {}, "mesh": {}, "grid": {}, "town": {}, "pops": {}}
	node := func(name string, i int, pop bool) string {
		n := fmt.Sprintf("n%05d", i)
		out[name].Nodes = append(out[name].Nodes, topology.Node{Name: n, Site: "s" + n, Pop: pop, Status: topology.Online})
		return n
	}
	link := func(name string, a, z int) {
		l := topology.Link{A: fmt.Sprintf("n%05d", a), Z: fmt.Sprintf("n%05d", z), Alive: true}
		out[name].Links = append(out[name].Links, l)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 10000 {
		node("ring", i, i%5000 == 0)
		link("ring", i, (i+1)%10000)
		node("mesh", i, i%100 == 0)
		for range 3 {
			link("mesh", i, r.IntN(10000))
		}
		node("grid", i, i%500 == 0)
		if i%100 != 99 {
			link("grid", i, i+1)
		}
		if i < 9900 {
			link("grid", i, i+100)
		}
		// A town: rings of distribution nodes by streets, with clients on them.
		node("town", i, i%1000 == 0)
		if i%4 == 0 && i > 0 {
			link("town", i, i-4)
			link("town", i, r.IntN(i/4)*4)
		} else if i > 0 {
			link("town", i, i/4*4)
		}
		node("pops", i, i%2 == 0)
		link("pops", i, (i+1)%10000)
	}
	return out
}

// BenchmarkPlan: ten thousand nodes are planned within a second.
func BenchmarkPlan(b *testing.B) {
	for name, top := range fleets() {
		b.Run(name, func(b *testing.B) {
			batches := 0
			for b.Loop() {
				got, _ := Plan(top, all(top), Options{})
				batches = len(got.Batches)
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/plan")
			b.ReportMetric(float64(batches), "batches")
		})
	}
}

// star is one point of presence with n other sites around it.
func star(n int) (t *topology.Topology, pending []string) {
	t = &topology.Topology{Nodes: []topology.Node{{Name: "pop", Site: "pop", Pop: true, Status: topology.Online}}}
	for i := range n {
		name := fmt.Sprintf("n%05d", i)
		pending = append(pending, name)
		t.Nodes = append(t.Nodes, topology.Node{Name: name, Site: name, Status: topology.Online})
		t.Links = append(t.Links, topology.Link{A: "pop", Z: name, Alive: true})
	}
	return t, pending
}

// BenchmarkARolloutInBatchesOfOne is a whole rollout to 2,000 nodes, one after the other.
func BenchmarkARolloutInBatchesOfOne(b *testing.B) {
	const n = 2000
	t, pending := star(n)
	for b.Loop() {
		r, batches := New(t, pending, Settings{Options: Options{Limit: 1}}), 0
		for todo := r.Step(Start{}); ; batches++ {
			push, ok := todo[0].(Push)
			if !ok {
				break
			}
			todo = r.Step(NodeConfirmed{push.Nodes[0]})
		}
		if batches != n {
			b.Fatalf("%d batches", batches)
		}
	}
}
