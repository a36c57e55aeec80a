package layers

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"edgespan/config"
)

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
	b.ReportMetric(float64(our.Nanoseconds())/float64(b.N)/1e3, "us-ours")
	b.ReportMetric(float64(their.Nanoseconds())/float64(b.N)/1e3, "us-theirs")
	b.ReportMetric(0, "ns/op")
}

// copyOf is the bare thing that ours is measured by: a recursive merge into a copy.
func copyOf(s Set) map[string]any {
	out := map[string]any{}
	for _, o := range s {
		mergeInto(out, o)
	}
	return out
}

func mergeInto(to, from map[string]any) {
	for key, v := range from {
		sub, ok := v.(map[string]any)
		if !ok {
			to[key] = v
			continue
		}
		below, had := to[key].(map[string]any)
		if !had {
			below = make(map[string]any, len(sub))
			to[key] = below
		}
		mergeInto(below, sub)
	}
}

// sixLayers are the real ones with overrides of many keys.
func sixLayers(b *testing.B) Set {
	s := realSet(b)
	s[Auto] = parse(b, `{"topologyInfo":{"name":"x"},"radioParamsOverride":{"a":{"fwParams":{"polarity":1}}},"linkParamsOverride":{"m":{"fwParams":{"golayIdx":2}}}}`)
	text := `{"envParams":{"FW_IF2IF":"1"},"sysParams":{"managedConfig":true},"logTailParams":{"sources":{}},"statsAgentParams":{"sources":{}}}`
	s[Network] = parse(b, text)
	return s
}

func BenchmarkEffective(b *testing.B) { // bar: 2
	s := sixLayers(b)
	if o, clashes := s.Effective(); clashes != nil || show(o) != show(copyOf(s)) {
		b.Fatalf("they are not the same: %v", clashes)
	}
	beside(b, func() { s.Effective() }, func() { copyOf(s) })
}

// BenchmarkOneChangedKey stands beside the whole bare merge (bar: 0.1).
func BenchmarkOneChangedKey(b *testing.B) {
	s := sixLayers(b)
	old, _ := s.Effective()
	path := []string{"sysParams", "managedConfig"}
	s[Network] = config.Set(s[Network], path, false)
	beside(b, func() { s.Update(old, path) }, func() { copyOf(s) })
}

const (
	fleetNodes = 10_000
	fleetKinds = 20
)

// bigFleet is 10,000 nodes of 20 kinds, each with 20 auto and 5 node keys of its own.
func bigFleet(b *testing.B) (f *EffectiveConfigs, kinds []config.Object, autos, owns []config.Object) {
	f = NewFleet(config.Object{})
	s := realSet(b)
	for k := range fleetKinds {
		base := config.Set(s[Base], []string{"sysParams", "kind"}, int64(k))
		f.SetKind(fmt.Sprint(k), base, s[Firmware], s[Hardware])
		merged, _ := Set{base, s[Firmware], s[Hardware]}.Effective()
		kinds = append(kinds, merged)
	}
	for i := range fleetNodes {
		var auto, own config.Object
		for k := range 20 {
			auto = config.Set(auto, []string{"linkParamsOverride", fmt.Sprintf("02:00:00:00:%02x:%02x", i%256, k), "fwParams"},
				config.Object{"golayIdx": int64(i)})
		}
		for k := range 5 {
			own = config.Set(own, []string{"envParams", fmt.Sprintf("KEY_%d", k)}, fmt.Sprint(i))
		}
		autos, owns = append(autos, auto), append(owns, own)
	}
	return f, kinds, autos, owns
}

// BenchmarkFleet changes the network layer, beside merging and hashing each node (bar: 2),
// and tells the memory of a node beyond its overrides (bar: 4096 bytes).
func BenchmarkFleet(b *testing.B) {
	f, kinds, autos, owns := bigFleet(b)
	before := memory()
	for i := range autos {
		if _, err := f.Put(fmt.Sprintf("node-%05d", i), fmt.Sprint(i%fleetKinds), autos[i], owns[i]); err != nil {
			b.Fatal(err)
		}
	}
	perNode := float64(memory()-before) / fleetNodes
	n, network := int64(0), config.Object{}
	beside(b, func() {
		n++
		network = config.Object{"sysParams": config.Object{"n": n}, "logTailParams": config.Object{"n": n}}
		if changed := f.SetNetwork(network); len(changed) != fleetNodes {
			b.Fatalf("%d changed", len(changed))
		}
	}, func() {
		for i := range autos {
			o, _ := config.Merge(kinds[i%fleetKinds], autos[i])
			o, _ = config.Merge(o, network)
			o, _ = config.Merge(o, owns[i])
			config.MD5(o)
		}
	})
	b.ReportMetric(perNode, "B/node")
	runtime.KeepAlive(f)
}

// memory is what is in use after a collection.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestTheBareMergeIsOne keeps the benchmarks' measure honest.
func TestTheBareMergeIsOne(t *testing.T) {
	s := realSet(t)
	o, _ := s.Effective()
	bare := copyOf(s)
	if show(o) != show(bare) {
		t.Error("the bare merge gives something else")
	}
	clear(bare["sysParams"].(map[string]any))
	if again, _ := s.Effective(); show(again) != show(o) {
		t.Error("the bare merge is no copy")
	}
}
