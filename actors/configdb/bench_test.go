package configdb

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
)

// astute is a document of about so many bytes that has the shape of an astute.yaml: some dozen top-level keys, nested
// settings, lists of nodes and networks.
func astute(rng *rand.Rand, bytes int) configdb.JSON {
	doc := map[string]any{"deployment_id": rng.IntN(100), "fqdn": fmt.Sprintf("node-%d.domain.tld", rng.IntN(1000)),
		"debug": rng.IntN(2) == 0}
	size := 0
	for i := 0; size < bytes; i++ {
		group := map[string]any{}
		for j := range 8 {
			group[fmt.Sprintf("setting_%d", j)] = map[string]any{
				"label": fmt.Sprintf("The setting number %d of the group %d", j, i), "type": "checkbox", "weight": rng.IntN(100),
				"value":       rng.IntN(2) == 0,
				"description": "If selected, this component will be installed", "password": fmt.Sprintf("%016x", rng.Uint64()),
				"network": map[string]any{"cidr": fmt.Sprintf("10.%d.%d.0/24", rng.IntN(256), rng.IntN(256)), "gateway": nil,
					"vlan_start": rng.IntN(4096)},
			}
		}
		text, err := json.Marshal(group)
		if err != nil {
			panic(err)
		}
		doc[fmt.Sprintf("group_%d", i)] = group
		size += len(text)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return configdb.JSON(text)
}

// fiveLevels are those of the bar.
var fiveLevels = []string{"release", "role", "group", "zone", "nodes"}

func fivePlaces(n int) []model.LevelValue {
	out := make([]model.LevelValue, len(fiveLevels))
	for i, l := range fiveLevels {
		out[i] = model.LevelValue{Level: l, Value: fmt.Sprint(l, n)}
	}
	return out
}

// fiveDeep has a document of 50 KB spread over five levels, values and overrides, for nodes 0 to n-1.
func fiveDeep(b *testing.B, k *Keeper, n int) (layers []configdb.JSON) {
	b.Helper()
	found(b, k, fiveLevels, "astute")
	rng := rand.New(rand.NewPCG(1, 2))
	for node := range n {
		places := fivePlaces(node)
		for depth := range len(places) + 1 {
			for _, kind := range []model.Kind{model.Values, model.Overrides} {
				size := 10_000
				if kind == model.Overrides {
					size = 1_000
				}
				doc := astute(rng, size)
				if depth == len(places) && kind == model.Values {
					doc = astute(rng, 46_000) // what a node uploads is most of it
				}
				w := model.Put{Target: at("astute", places[:depth]...), Kind: kind, Value: doc, Register: true}
				if _, err := k.Write(b.Context(), configdbapi.WriteRequest{Author: "bench", Write: w}); err != nil {
					b.Fatal(err)
				}
				if node == 0 {
					layers = append(layers, doc)
				}
			}
		}
	}
	return layers
}

// BenchmarkLookup is an effective value of 50 KB through five levels, on the embedded store: warm, cold (nothing is
// kept of answers and documents), cold with documents in memory, and what an unchanged one costs; beside a merge of
// decoded maps and json.Marshal of the same bytes.
func BenchmarkLookup(b *testing.B) {
	k := start(b, onBolt(b, filepath.Join(b.TempDir(), "store"), false))
	layers := fiveDeep(b, k, 1)
	q := effective("astute", fivePlaces(0)...)
	ask := func(b *testing.B, known []string, before func()) {
		for b.Loop() {
			before()
			if _, err := k.Answer(b.Context(), q, known); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("merge and marshal", func(b *testing.B) {
		decoded := make([]map[string]any, len(layers))
		for i, l := range layers {
			if err := json.Unmarshal(l, &decoded[i]); err != nil {
				b.Fatal(err)
			}
		}
		for b.Loop() {
			merged := map[string]any{}
			for _, l := range decoded {
				for key, v := range l {
					merged[key] = v
				}
			}
			if _, err := json.Marshal(merged); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cold", func(b *testing.B) { ask(b, nil, func() { k.d.answers.clear(); k.d.blobs.clear() }) })
	b.Run("cold, documents kept", func(b *testing.B) { ask(b, nil, func() { k.d.answers.clear() }) })
	b.Run("warm", func(b *testing.B) {
		ask(b, nil, func() {})
		b.ReportMetric(float64(len(get(b, k, q).Body)), "bytes")
	})
	b.Run("unchanged", func(b *testing.B) { ask(b, []string{get(b, k, q).ETag}, func() {}) })
	b.Run("unchanged, many ask", func(b *testing.B) {
		known := []string{get(b, k, q).ETag}
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := k.Answer(b.Context(), q, known); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("after a write elsewhere", func(b *testing.B) {
		n := 0
		for b.Loop() {
			b.StopTimer()
			n++
			write(b, k, put("astute", fmt.Sprintf(`{"n":%d}`, n), model.LevelValue{Level: "release", Value: "other"}))
			b.StartTimer()
			if _, err := k.Answer(b.Context(), q, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkOldVersion reads a version that 10,000 uploads have followed, beside the newest.
func BenchmarkOldVersion(b *testing.B) {
	k := start(b, onBolt(b, filepath.Join(b.TempDir(), "store"), false))
	found(b, k, []string{"nodes"}, "astute")
	rng := rand.New(rand.NewPCG(1, 2))
	base := astute(rng, 50_000)
	upload := func(n int) {
		doc := configdb.JSON(fmt.Sprintf(`{"a":%d,%s`, n, base[1:]))
		if _, err := k.Write(context.Background(),
			configdbapi.WriteRequest{Author: "bench", Write: model.Put{Target: at("astute", node("n1")),
				Kind: model.Values, Value: doc, Register: true}}); err != nil {
			b.Error(err)
		}
	}
	const uploads = 10_001
	for n := range uploads {
		upload(n)
	}
	for _, c := range []struct {
		name      string
		version   uint64
		effective bool
	}{{"newest", 0, false}, {"oldest", 1, false}, {"newest, effective", 0, true}, {"oldest, effective", 1, true}} {
		b.Run(c.name, func(b *testing.B) {
			q := model.Query{Target: at("astute", node("n1")), Kind: model.Values, Version: c.version, Effective: c.effective}
			for b.Loop() {
				k.d.answers.clear()
				k.d.blobs.clear()
				if _, err := k.Answer(b.Context(), q, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var storedNodes = flag.Int("nodes", 50, "nodes of BenchmarkStored")

// BenchmarkStored is what the uploads of some nodes, 14 sources of 69 KB each, take in the store, beside the same
// compressed. The file of the store has room that is not used; what counts is the values.
func BenchmarkStored(b *testing.B) {
	const sources = 14
	nodes := *storedNodes
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "store")
		s := onBolt(b, path, false)
		k := start(b, s)
		var names []string
		for i := range sources {
			names = append(names, fmt.Sprintf("source%d", i))
		}
		found(b, k, []string{"nodes"}, names...)
		pack, err := zstd.NewWriter(nil)
		if err != nil {
			b.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		compressed, raw := 0, 0
		began := time.Now()
		for n := range nodes {
			for _, name := range names {
				doc := astute(rng, 69_000)
				raw, compressed = raw+len(doc), compressed+len(pack.EncodeAll(doc, nil))
				write(b, k, put(name, string(doc), node(fmt.Sprint(n))))
			}
		}
		b.ReportMetric(time.Since(began).Seconds()/float64(nodes*sources)*1e3, "ms/upload")
		values, keys := 0, 0
		listAll(b, s, func(key string, value int) { values, keys = values+value, keys+len(key) })
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(values)/float64(compressed), "values/compressed")
		b.ReportMetric(float64(values+keys)/float64(compressed), "values+keys/compressed")
		b.ReportMetric(float64(info.Size())/float64(compressed), "file/compressed")
		b.ReportMetric(float64(raw)/float64(compressed), "raw/compressed")
		stop(b, k)
		s.Close()
	}
}

// BenchmarkStart is a replica that begins on a store with 1,000 nodes of 14 sources: until it is ready, and what its
// state keeps in memory.
func BenchmarkStart(b *testing.B) {
	s := onBolt(b, filepath.Join(b.TempDir(), "store"), false)
	k := start(b, s)
	var names []string
	for i := range 14 {
		names = append(names, fmt.Sprintf("source%d", i))
	}
	found(b, k, []string{"nodes"}, names...)
	for n := range 1000 {
		var bulk model.Bulk
		for i, name := range names {
			bulk.Writes = append(bulk.Writes,
				put(name, fmt.Sprintf(`{"n":%d}`, n*14+i), node(fmt.Sprintf("node-%d.domain.tld", n))))
		}
		write(b, k, bulk)
	}
	stop(b, k)
	for b.Loop() {
		before := heap()
		k := start(b, s)
		if err := k.Ready(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/14_000, "bytes/record")
		stop(b, k)
		b.StartTimer()
	}
}

// heap is what is in use, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
