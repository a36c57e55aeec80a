package metadata

import (
	"encoding/json"
	"testing"
	"time"

	"edgespan/config"
)

// full is the config of an NXP node with software M81 and firmware 10.11.0.
func full(t testing.TB) config.Object {
	t.Helper()
	o := read(t, "base_versions/RELEASE_M81.json")
	for _, name := range []string{"base_versions/fw_versions/10.11.0.json",
		"base_versions/hw_versions/NXP/RELEASE_M81.json"} {
		o, _ = config.Merge(o, read(t, name))
	}
	return o
}

// BenchmarkValidate stands beside json.Unmarshal of the same config (bar: 1).
func BenchmarkValidate(b *testing.B) {
	m, o := terragraph(b), full(b)
	text := config.AppendCanonical(nil, o)
	var our, their time.Duration
	for b.Loop() {
		began := time.Now()
		r := m.Validate(o)
		middle := time.Now()
		var v any
		if err := json.Unmarshal(text, &v); err != nil || len(r.Faults) > 0 {
			b.Fatal(err, r.Faults)
		}
		our, their = our+middle.Sub(began), their+time.Since(middle)
	}
	b.ReportMetric(float64(our)/float64(their), "ratio")
	b.ReportMetric(float64(our.Nanoseconds())/float64(b.N)/1e3, "us-ours")
	b.ReportMetric(float64(their.Nanoseconds())/float64(b.N)/1e3, "us-theirs")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkParse is the real metadata, expanded and compiled.
func BenchmarkParse(b *testing.B) {
	doc := read(b, "config_metadata.json")
	for b.Loop() {
		if _, faults := Parse(doc, Options{}); faults != nil {
			b.Fatal(faults)
		}
	}
}
