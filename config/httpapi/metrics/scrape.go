package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxSeries bounds the series of one scrape: the config bounds them, and this bounds a config that is out of hand.
	maxSeries = 50_000
	// maxLabel bounds the bytes of a label's value.
	maxLabel = 128
)

// Source adds the numbers of one scrape. It never waits for long: a scraper waits for it.
type Source func(*Scrape)

// Scrape collects the numbers of one scrape.
type Scrape struct {
	out     chan<- prometheus.Metric
	room    int // for more series
	leftOut int
}

// Add adds the value of one series. Each series may be added once.
func (s *Scrape) Add(m *Metric, value float64, labels ...string) {
	if !s.take() {
		return
	}
	kind := prometheus.GaugeValue
	if m.Kind == KindCounter {
		kind = prometheus.CounterValue
	}
	s.out <- prometheus.MustNewConstMetric(m.desc, kind, value, clean(labels)...)
}

// Count is Add for a counter.
func (s *Scrape) Count(m *Metric, n uint64, labels ...string) { s.Add(m, float64(n), labels...) }

// Flag is Add for a gauge that is 1 or 0.
func (s *Scrape) Flag(m *Metric, on bool, labels ...string) {
	v := 0.0
	if on {
		v = 1
	}
	s.Add(m, v, labels...)
}

// Observed adds a histogram.
func (s *Scrape) Observed(m *Metric, h Histogram, labels ...string) {
	if !s.take() {
		return
	}
	buckets, sum := map[float64]uint64{}, uint64(0)
	for i, bound := range Seconds {
		sum += h.counts[i]
		buckets[bound] = sum
	}
	s.out <- prometheus.MustNewConstHistogram(m.desc, h.count, h.sum, buckets, clean(labels)...)
}

func (s *Scrape) take() bool {
	if s.room == 0 {
		s.leftOut++
		return false
	}
	s.room--
	return true
}

// clean makes values of others fit into a label; the encoder escapes quotes, backslashes and line ends.
func clean(labels []string) []string {
	for i, l := range labels {
		if len(l) > maxLabel {
			l = l[:maxLabel]
		}
		labels[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	return labels
}

// Seconds are the upper bounds of the buckets of every Histogram.
var Seconds = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// Histogram counts durations by their length. It is a value: a copy is a snapshot.
type Histogram struct {
	counts [len(Seconds)]uint64
	count  uint64
	sum    float64
}

// Observe adds a duration in seconds.
func (h *Histogram) Observe(seconds float64) {
	h.count, h.sum = h.count+1, h.sum+seconds
	for i, bound := range Seconds {
		if seconds <= bound {
			h.counts[i]++
			return
		}
	}
}
