package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkLeaderDies kills etcd's leader once per iteration, in a fleet with nodes, rollouts and six writers at three
// controllers, and reports the longest time between two acknowledged writes of any writer: go test
// ./integration/cluster -run '^$' -bench LeaderDies -benchtime 20x. It fails if an acknowledged write is lost or a
// write is done twice.
func BenchmarkLeaderDies(b *testing.B) {
	d := beginDrill(b)
	var waits []time.Duration
	var all []string
	quiet := time.Now()
	time.Sleep(cutFor) // the length of a measurement
	calm := d.w.gap(quiet, everybody...)
	for b.Loop() {
		m := d.leader()
		killed := time.Now()
		d.fleet.cluster.kill(m)
		d.w.goOn(5)
		wait := d.w.waited(killed)
		waits = append(waits, wait)
		all = append(all, fmt.Sprintf("%.2f (%.2f)", wait.Seconds(), d.w.anyGap(killed).Seconds()))
		d.start(m)
		d.answers(m)
		d.w.goOn(5)
	}
	d.finish()
	missed := 0
	for _, wait := range waits {
		if wait > barGoesOn {
			missed++
		}
	}
	b.Logf("the longest wait of a writer, in brackets the time in which no write was acknowledged, in s: %s",
		strings.Join(all, ", "))
	slices.Sort(waits)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(calm.Seconds(), "s-while-none-dies")
	b.ReportMetric(waits[len(waits)/2].Seconds(), "s-median")
	b.ReportMetric(waits[len(waits)-1].Seconds(), "s-longest")
	b.ReportMetric(float64(missed), "above-3-s")
}
