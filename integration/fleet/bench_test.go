package fleet

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"edgespan/config"
)

// nodes is small enough for every machine; `make bench-fleet` asks for 10,000.
var nodes = flag.Int("nodes", 500, "simulated nodes of a benchmark")

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
	return config.Object{"sysParams": config.Object{"fleetBenchmark": float64(number)}}
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
