package ops

import (
	"fmt"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/layers"
	"edgespan/config/layers/override"
)

// crowd is a controller with so many nodes, each with overrides of its own and of the
// controller's, and the original's base.
func crowd(b testing.TB, nodes int) *bench {
	b.Helper()
	out := newBench(b)
	out.Hardware.Base = []string{"RELEASE_M80", "RELEASE_M81"}
	own, auto := config.Object{}, config.Object{}
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		out.Nodes[name] = NodeFact{Versions: layers.Versions{Software: "RELEASE_M81"}, Reported: true}
		own[name] = config.Object{"kvstoreParams": config.Object{"a": fmt.Sprint(i)}}
		auto[name] = config.Object{"linkParamsOverride": config.Object{fmt.Sprintf("02:00:00:00:%02x:%02x", i/256,
			i%256): config.Object{"fwParams": config.Object{"txGolayIdx": int64(1)}}}}
	}
	out.do(Import{history.Files{Network: config.Object{"sysParams": config.Object{"managedConfig": true}}, Nodes: own,
		Auto: auto}})
	return out
}

// beside runs ours and theirs in turns and reports the ratio of their times.
func beside(b *testing.B, own, theirs func()) {
	b.Helper()
	var our, their time.Duration
	for b.Loop() {
		began := time.Now()
		own()
		middle := time.Now()
		theirs()
		our, their = our+middle.Sub(began), their+time.Since(middle)
	}
	b.ReportMetric(float64(our)/float64(their), "ratio")
	b.ReportMetric(float64(our.Nanoseconds())/float64(b.N)/1e6, "ms-ours")
	b.ReportMetric(float64(their.Nanoseconds())/float64(b.N)/1e6, "ms-theirs")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkOneNodeAmongMany is one node write among 10,000 nodes, the state read through
// history each time, beside the same among two nodes.
func BenchmarkOneNodeAmongMany(b *testing.B) {
	many, few := crowd(b, 10_000), crowd(b, 2)
	write := SetNodes{Overrides: config.Object{"node-00001": config.Object{"envParams": config.Object{"A": "1"}}},
		Modify: true}
	validate := func(c *bench) func() {
		return func() {
			c.head()
			if _, err := c.Validate(write); err != nil {
				b.Fatal(err)
			}
		}
	}
	beside(b, validate(many), validate(few))
}

// BenchmarkNetworkAmongMany is a network write on 10,000 nodes, the state read through
// history, beside config/layers/override with all layers in memory.
func BenchmarkNetworkAmongMany(b *testing.B) {
	c := crowd(b, 10_000)
	overrides := config.Object{"envParams": config.Object{"A": "1"}}
	world, err := c.Snapshot.newCheck().readInputs(c.nodeNames())
	if err != nil {
		b.Fatal(err)
	}
	beside(b, func() {
		c.head()
		if _, err := c.Validate(SetNetwork{Overrides: overrides, Modify: true}); err != nil {
			b.Fatal(err)
		}
	}, func() {
		if _, faults := override.Apply(world,
			override.Change{Layer: layers.Network, Op: override.Modify, Overrides: overrides}); faults != nil {
			b.Fatal(faults)
		}
	})
}
