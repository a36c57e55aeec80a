package config

import (
	"crypto/md5"
	"encoding/json"
	"os"
	"testing"
	"time"
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

// BenchmarkMD5 stands beside json.Marshal and md5.Sum of the same config (bar: 2).
func BenchmarkMD5(b *testing.B) {
	text, err := os.ReadFile("testdata/terragraph/base_versions/RELEASE_M81.json")
	if err != nil {
		b.Fatal(err)
	}
	o := parse(b, string(text))
	beside(b, func() { MD5(o) }, func() {
		out, err := json.Marshal(o)
		if err != nil {
			b.Fatal(err)
		}
		_ = md5.Sum(out)
	})
}
