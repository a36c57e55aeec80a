package override

import (
	"fmt"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/layers"
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
	b.ReportMetric(float64(our.Nanoseconds())/float64(b.N)/1e6, "ms-ours")
	b.ReportMetric(float64(their.Nanoseconds())/float64(b.N)/1e6, "ms-theirs")
	b.ReportMetric(0, "ns/op")
}

// fleet is 10,000 nodes of 20 kinds, each with 20 auto and 5 node keys of its own.
func fleet(b *testing.B) Inputs {
	w := Inputs{Sections: sections, Kinds: map[string]layers.Set{}, Nodes: map[string]Node{}, Metadata: realMetadata(b),
		Network: realFile(b, "network_config_overrides_sample.json")}
	base, firmware := realFile(b, "base_versions/RELEASE_M81.json"), realFile(b, "base_versions/fw_versions/10.11.0.json")
	for k := range 20 {
		w.Kinds[fmt.Sprint(k)] = layers.Set{config.Set(base, []string{"sysParams", "kind"}, int64(k)), firmware}
	}
	for i := range 10_000 {
		var auto, own config.Object
		for k := range 20 {
			mac := fmt.Sprintf("02:00:00:00:%02x:%02x", i%256, k)
			auto = config.Set(auto, []string{"linkParamsOverride", mac, "fwParams", "txGolayIdx"}, int64(i%4))
		}
		for k := range 5 {
			own = config.Set(own, []string{"kvstoreParams", fmt.Sprintf("key-%d", k)}, fmt.Sprint(i))
		}
		w.Nodes[fmt.Sprintf("node-%05d", i)] = Node{fmt.Sprint(i % 20), auto, own}
	}
	return w
}

// BenchmarkNetworkWrite stands beside merging and validating every node. In "apart" no node
// has a key of its own where the write is, in "among" each has.
func BenchmarkNetworkWrite(b *testing.B) {
	w := fleet(b)
	for name, request := range map[string]string{
		"apart": `{"sysParams":{"managedConfig":true}}`,
		"among": `{"kvstoreParams":{"all":"x"}}`,
	} {
		c := Change{Layer: layers.Network, Op: Modify, Overrides: parse(b, request)}
		b.Run(name, func(b *testing.B) {
			beside(b, func() {
				if r, faults := Apply(w, c); faults != nil || len(r.Effects) == 0 {
					b.Fatal(faults)
				}
			}, func() {
				network, _ := config.Merge(w.Network, c.Overrides)
				for _, n := range w.Nodes {
					s := w.Kinds[n.Kind]
					s[layers.Auto], s[layers.Network], s[layers.Node] = n.Auto, network, n.Own
					o, _ := s.Effective()
					w.Metadata.Validate(o)
				}
			})
		})
	}
}
