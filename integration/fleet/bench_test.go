package fleet

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

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

// simulated is what `edgespan-controller simulate -o json` says, as far as it is wanted here.
type simulated struct {
	Nodes, Converged, Undone int
	NetworkWrites            []struct{ Acked, Applied, Confirmed quantiles }
	NodeWrites               struct {
		Writes, OthersTouched int
		Acked, Confirmed      quantiles
	}
	MemoryBytes struct{ Controller int64 }
	Idle        struct {
		OfACore      float64
		BytesWritten int64
	}
}

type quantiles struct {
	Nodes  int
	P99    float64 `json:"p99Ms"`
	MostMs float64
}

// turns is how often the floor and the fleet are written to: their medians count.
const turns = 5

// simulate builds the controller and runs a fleet on it.
func simulate(b *testing.B) (s simulated) {
	b.Helper()
	dir := b.TempDir()
	program := filepath.Join(dir, "edgespan-controller")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program,
		"edgespan/cmd/edgespan-controller").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(b.Context(), program, "simulate", "--nodes", fmt.Sprint(*nodes), "--dir",
		filepath.Join(dir, "nodes"),
		"--base-dir", filepath.Join(data, "base_versions"), "--metadata", filepath.Join(data, "config_metadata.json"),
		"--software", "RELEASE_M81", "--board", "NXP_LS1048A_PUMA", "--until", "converged", "--duration", "30m",
		"--network-writes", fmt.Sprint(turns), "--node-writes", "100", "--idle", "75s", "-o", "json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &s)
	}
	if err != nil || s.Converged != *nodes || s.Undone != 0 || len(s.NetworkWrites) != turns {
		b.Fatalf("simulate: %v: %s", err, out)
	}
	return s
}

// BenchmarkFleet is the controller with its nodes, beside the floor: the bars of a fleet.
//
//   - x/floor: a network override until 99 % of the nodes have it on their disk and have
//     said so, beside the floor's push
//   - ms/node: an override of one node until that, the 99th of a hundred
//   - %core, B/written: what the controller takes while all nodes report each 5 s
//   - B/above: its resident memory a node, above the bare server's
func BenchmarkFleet(b *testing.B) {
	for range b.N {
		f := newFloor(b, *nodes)
		var floors, fleets, confirmed []float64
		push := func(n int) {
			for range n {
				floors = append(floors, float64(f.push(document(b, override(len(floors))), 0).P99)/float64(time.Millisecond))
			}
		}
		push(turns)
		s := simulate(b)
		push(turns) // the machine may have other work by now
		for _, w := range s.NetworkWrites {
			fleets, confirmed = append(fleets, w.Acked.P99), append(confirmed, w.Confirmed.P99)
		}
		b.ReportMetric(median(floors), "ms/floor")
		b.ReportMetric(median(fleets), "ms/acked")
		b.ReportMetric(median(confirmed), "ms/confirmed")
		b.ReportMetric(median(fleets)/median(floors), "x/floor")
		b.ReportMetric(s.NodeWrites.Acked.P99, "ms/node")
		b.ReportMetric(float64(s.NodeWrites.OthersTouched), "others")
		b.ReportMetric(100*s.Idle.OfACore, "%core")
		b.ReportMetric(float64(s.Idle.BytesWritten), "B/written")
		w := f.weigh()
		b.ReportMetric(float64(s.MemoryBytes.Controller-w.RSS)/float64(*nodes), "B/above")
	}
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}
