package metrics

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"unicode/utf8"
)

const (
	// maxSeries bounds the series of one scrape: the config bounds them, and this bounds a config that is out of hand.
	maxSeries = 50_000
	// maxLabel bounds the bytes of a label's value.
	maxLabel = 128
)

// Source adds the numbers of one scrape. It never waits for long: a scraper waits for it.
type Source func(*Scrape)

// Scrape collects the numbers of one scrape, as text: ten thousand series are a matter of milliseconds, and leave no
// objects behind.
type Scrape struct {
	table   *Table
	texts   [][]byte // of the series, by metric
	known   map[uint64]struct{}
	seed    maphash.Seed
	leftOut int
}

func newScrape(t *Table) *Scrape {
	return &Scrape{table: t, texts: make([][]byte, len(t.metrics)), known: map[uint64]struct{}{}, seed: maphash.MakeSeed()}
}

// Add adds the value of one series. A series that is there already is left out.
func (s *Scrape) Add(m *Metric, value float64, labels ...string) {
	if begin, ok := s.begin(m, "", labels, ""); ok {
		s.end(m, begin, value)
	}
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
	add := func(suffix, bound string, v float64) {
		if begin, ok := s.begin(m, suffix, labels, bound); ok {
			s.end(m, begin, v)
		}
	}
	sum := uint64(0)
	for i, bound := range Seconds {
		sum += h.counts[i]
		add("_bucket", strconv.FormatFloat(bound, 'g', -1, 64), float64(sum))
	}
	add("_bucket", "+Inf", float64(h.count))
	add("_sum", "", h.sum)
	add("_count", "", float64(h.count))
}

// begin writes the name and the labels of a series; bound is that of a bucket. It returns them, unless the series is
// left out.
func (s *Scrape) begin(m *Metric, suffix string, labels []string, bound string) (text []byte, ok bool) {
	if len(s.known) >= maxSeries {
		s.leftOut++
		return nil, false
	}
	start := len(s.texts[m.at])
	text = append(append(s.texts[m.at], m.Name...), suffix...)
	sep := byte('{')
	label := func(name, value string) {
		text = append(append(append(text, sep), name...), '=', '"')
		text = append(escape(text, value), '"')
		sep = ','
	}
	for _, i := range m.sorted {
		label(m.Labels[i], labels[i])
	}
	if bound != "" {
		label("le", bound)
	}
	if sep == ',' {
		text = append(text, '}')
	}
	id := maphash.Bytes(s.seed, text[start:])
	if _, twice := s.known[id]; twice {
		return nil, false
	}
	s.known[id] = struct{}{}
	return text, true
}

func (s *Scrape) end(m *Metric, text []byte, value float64) {
	s.texts[m.at] = append(strconv.AppendFloat(append(text, ' '), value, 'g', -1, 64), '\n')
}

// text returns everything that was added, with the description of each metric.
func (s *Scrape) text() []byte {
	size := 32 << 10 // the descriptions, and what the process has
	for _, series := range s.texts {
		size += len(series)
	}
	out := make([]byte, 0, size)
	for i, series := range s.texts {
		if m := s.table.metrics[i]; len(series) > 0 {
			out = fmt.Appendf(out, "# HELP %s %s\n# TYPE %s %s\n", m.Name, m.Help, m.Name, m.Kind)
			out = append(out, series...)
		}
	}
	return fmt.Appendf(out, "# HELP %s %s\n# TYPE %s gauge\n%s %d\n", leftOutName,
		"Series that this answer leaves out, since there are too many.", leftOutName, leftOutName, s.leftOut)
}

const leftOutName = "edgespan_metrics_left_out_series"

// escape appends a value of others, as far as it fits into a label.
func escape(text []byte, value string) []byte {
	if len(value) > maxLabel {
		value = value[:maxLabel]
	}
	for _, r := range value { // invalid UTF-8 is U+FFFD
		switch r {
		case '\\', '"':
			text = append(text, '\\', byte(r))
		case '\n':
			text = append(text, '\\', 'n')
		default:
			text = utf8.AppendRune(text, r)
		}
	}
	return text
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
