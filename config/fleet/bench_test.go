package fleet

import (
	"fmt"
	"testing"
	"time"

	"edgespan/config"
)

// BenchmarkReport measures one report of a node in sync; 10,000 nodes that report every 5 s make 2,000 of them a
// second.
func BenchmarkReport(b *testing.B) {
	n := New("n", adopted, Defaults("me"))
	for _, s := range joined(step{event: has(a, 1)}) {
		n.Step(noon, s.event)
	}
	r, now := has(a, 1), noon
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(5 * time.Second)
		if effects := n.Step(now, r); effects != nil {
			b.Fatal(tell(effects, now))
		}
	}
}

// BenchmarkPushCycle measures a change, its push, two reports, the round trip and the confirmation.
func BenchmarkPushCycle(b *testing.B) {
	n := New("n", adopted, Defaults("me"))
	for _, s := range joined(step{event: has(a, 1)}) {
		n.Step(noon, s.event)
	}
	now := noon
	b.ReportAllocs()
	for i := uint64(2); b.Loop(); i++ {
		d := [...]Digest{{Config: "A"}, {Config: "B"}}[i%2]
		now = now.Add(5 * time.Second)
		n.Step(now, want(d, i))
		n.Step(now, Acked{n.mem.Push.Number})
		n.Step(now, runs(d, i, PendingConfig{}))
		n.Step(now, runs(d, i, PendingConfig{Settled: true}))
		n.Step(now, Answered{Stream: "1", Probe: n.probe, Generation: gen(i), Digest: d})
		n.Step(now, has(d, i))
		if n.State(now) != InSync {
			b.Fatal(n.Explain(now))
		}
	}
}

// fleetOf is a fleet of count nodes, one in ten of which has the value of network layer 1.
func fleetOf(b *testing.B, count int) *DesiredConfigs {
	f := tiny(b, `{"sysParams": {"managedConfig": true}, "a": {"b": 0, "c": {"d": "e"}}}`)
	for i := range count {
		own := config.Object{"name": fmt.Sprint(i)}
		if i%10 > 0 {
			own["a"] = config.Object{"b": int64(2)}
		}
		if _, err := f.Put(fmt.Sprintf("n%05d", i), v1, nil, own, Counted{}); err != nil {
			b.Fatal(err)
		}
	}
	return f
}

// BenchmarkNetworkChange measures a change of the network layer over 10,000 nodes, of which it affects 1,000: the
// others get no event.
func BenchmarkNetworkChange(b *testing.B) {
	f := fleetOf(b, 10000)
	b.ReportAllocs()
	for i := int64(1); b.Loop(); i++ {
		touched, err := f.SetNetwork(config.Object{"a": config.Object{"b": i}})
		if err != nil || len(touched) != 1000 {
			b.Fatal(len(touched), err)
		}
	}
}

// BenchmarkNodeChange measures a change of one node of 10,000.
func BenchmarkNodeChange(b *testing.B) {
	f := fleetOf(b, 10000)
	b.ReportAllocs()
	for i := int64(1); b.Loop(); i++ {
		touched, err := f.Put("n00007", v1, nil, config.Object{"x": i}, Counted{})
		if err != nil || len(touched) != 1 {
			b.Fatal(len(touched), err)
		}
	}
}
