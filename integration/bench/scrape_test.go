package bench

import (
	"slices"
	"testing"
	"time"
)

// A scrape of a daemon with 100 networks and 300 adapters over its socket, and what the first scrapes leave in its
// memory. Those that the daemon answers from the second before are not counted.
func BenchmarkScrape(b *testing.B) {
	const networks, apps, scrapes = 100, 300, 20
	for range b.N {
		p := newPlace(b, apps)
		d, cfg := p.start(), newDoc()
		cfg.full(p, networks, apps)
		d.apply(cfg)
		d.settled(networks, apps)
		time.Sleep(20 * time.Second) // the garbage of the start
		pid := d.cmd.Process.Pid
		before := status(b, pid, "status", "VmRSS:")
		var took []time.Duration
		bytes := 0
		for range scrapes {
			start := time.Now()
			text, err := d.api.Metrics(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			took, bytes = append(took, time.Since(start)), len(text)
			time.Sleep(1100 * time.Millisecond) // an answer is used again for a second
		}
		b.ReportMetric(float64(median(took).Microseconds())/1000, "ms/scrape")
		b.ReportMetric(float64(slices.Max(took).Microseconds())/1000, "ms-max")
		b.ReportMetric(float64(bytes)/1e6, "MB/scrape")
		b.ReportMetric(float64(before)/1024, "MiB-before")
		b.ReportMetric(float64(status(b, pid, "status", "VmRSS:"))/1024, "MiB-after")
		p.close()
	}
	b.ReportMetric(0, "ns/op")
}
