package fleet

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/ops"
)

// nodes is small enough for every machine; `make bench-fleet` asks for 10,000.
var (
	nodes = flag.Int("nodes", 500, "simulated nodes of a benchmark")
	idle  = flag.Duration("idle", time.Minute, "how long the nodes of a benchmark are left alone")
)

const data = "../../config/testdata/terragraph"

// document is what a node of the seed's hardware runs: base and hardware layer of its
// version, and a network override.
func document(t testing.TB, override config.Object) config.Object {
	t.Helper()
	full := config.Object{}
	for _, file := range []string{"base_versions/RELEASE_M81.json", "base_versions/hw_versions/NXP/RELEASE_M81.json"} {
		text, err := os.ReadFile(filepath.Join(data, file))
		if err != nil {
			t.Fatal(err)
		}
		layer, faults := config.ParseObject(text)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		full, _ = config.Merge(full, layer)
	}
	full, _ = config.Merge(full, override)
	return full
}

// override is a write of the network layer: another one for each number.
func override(number int) config.Object {
	return config.Object{"sysParams": config.Object{"managedConfig": true},
		"simulated": config.Object{"write": fmt.Sprint("network ", number)}}
}

// BenchmarkFloor is the bare program alone.
func BenchmarkFloor(b *testing.B) {
	f := newFloor(b, *nodes)
	var a floorAnswer
	number := 0
	server, clients := f.server.cmd.Process.Pid, f.clients.cmd.Process.Pid
	before := used(b, server) + used(b, clients)
	for b.Loop() {
		number++
		a = f.push(document(b, override(number)), 0)
	}
	b.ReportMetric(a.P99.Seconds()*1e3, "ms/p99")
	b.ReportMetric((used(b, server)+used(b, clients)-before).Seconds()*1e3/float64(number), "ms-cpu/push")
	w := f.weigh()
	b.ReportMetric(float64(w.Heap)/float64(*nodes), "B/heap")
	b.ReportMetric(float64(w.RSS)/float64(*nodes), "B/resident")
}

// turns is how often the floor and the fleet are written to: their medians count.
const turns = 3

// BenchmarkFleet is the controller with its nodes, beside the floor: the bars of a fleet.
//
//   - x/floor: a network override until 99 % of the nodes have it on their disk and have said so, beside the floor's
//     push (ms/acked, ms/floor)
//   - ms/node, others: an override of one node until that, the 99th of a hundred; other nodes that it reached
//   - s/rollout: a network override in batches
//   - %core, B/written, B/above: what the controller takes of a core and writes while all nodes are idle, and its
//     resident memory per node, above the bare server's
//   - s/back, s/ended, s/unwritable: from SIGTERM until all nodes are back after a restart, until the controller has
//     ended, and the longest time without an acknowledged write meanwhile
func BenchmarkFleet(b *testing.B) {
	for range b.N {
		floors, bare := pushFloor(b)
		f := newFleet(b, *nodes)
		var acked []float64
		number := 0
		for range turns {
			number++
			p99, _ := f.pushed(ops.SetNetwork{Modify: true, Overrides: override(number)}, *nodes)
			acked = append(acked, float64(p99)/float64(time.Millisecond))
		}
		one, others := overrideNodes(f)
		rolled := f.rollOut(number + 1)
		f.inSync()
		time.Sleep(15 * time.Second) // their last reports are processed, and memory is given back
		before, begun := f.usage(), time.Now()
		time.Sleep(*idle)
		after, lasted := f.usage(), time.Since(begun)
		again := f.restart()
		f.inSync()
		f.end()
		more, _ := pushFloor(b) // the machine may have other work by now
		floors = append(floors, more...)
		b.Logf("floor %.0f ms; network override %.0f ms; restart %+v; controller %d MB, bare server %d MB", floors, acked,
			again, after.Resident>>20, bare>>20)
		b.ReportMetric(median(floors), "ms/floor")
		b.ReportMetric(median(acked), "ms/acked")
		b.ReportMetric(median(acked)/median(floors), "x/floor")
		b.ReportMetric(float64(one)/float64(time.Millisecond), "ms/node")
		b.ReportMetric(float64(others), "others")
		b.ReportMetric(rolled.Seconds(), "s/rollout")
		b.ReportMetric(100*(after.CPU-before.CPU).Seconds()/lasted.Seconds(), "%core")
		b.ReportMetric(float64(after.Written-before.Written), "B/written")
		b.ReportMetric(float64(after.Resident-bare)/float64(*nodes), "B/above")
		b.ReportMetric(again.back.Seconds(), "s/back")
		b.ReportMetric(again.ended.Seconds(), "s/ended")
		b.ReportMetric(again.unwritable.Seconds(), "s/unwritable")
	}
}

// pushFloor runs the bare program and returns how long its pushes took in ms, and the resident memory of its server.
func pushFloor(b *testing.B) (took []float64, resident int64) {
	b.Helper()
	f := newFloor(b, *nodes)
	for n := range turns {
		took = append(took, float64(f.push(document(b, override(n)), 0).P99)/float64(time.Millisecond))
	}
	resident = f.weigh().RSS
	f.clients.end()
	f.server.end()
	return took, resident
}

// overrideNodes writes to a hundred nodes, one after the other, and returns the 99th of the times until each said that
// it has stored it, and how many other nodes were reached.
func overrideNodes(f *fleet) (p99 time.Duration, others int) {
	f.Helper()
	var took []time.Duration
	for n := range 100 {
		i := n * f.nodes / 100
		name := fmt.Sprintf("sim%d-%05d", i/ofSimulator, i%ofSimulator+1)
		one, reached := f.pushed(ops.SetNodes{Modify: true,
			Overrides: config.Object{name: config.Object{"simulated": config.Object{"write": fmt.Sprint("node ", n)}}}}, 1)
		took, others = append(took, one), others+reached-1
	}
	slices.Sort(took)
	return quantile(took, 99), others
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}
