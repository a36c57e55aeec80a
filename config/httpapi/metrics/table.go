package metrics

import (
	"slices"
	"strings"
)

// Kind is the kind of a metric.
type Kind string

// The kinds.
const (
	KindCounter   Kind = "counter"
	KindGauge     Kind = "gauge"
	KindHistogram Kind = "histogram"
)

// Metric is one metric of a program.
type Metric struct {
	Name   string
	Help   string // a sentence with the unit
	Kind   Kind
	Labels []string

	at     int   // in the table
	sorted []int // the order in which labels are written: by name
}

// Table lists the metrics of a program. docs/metrics.md follows it.
type Table struct{ metrics []*Metric }

// Counter adds a counter, whose name ends with _total.
func (t *Table) Counter(name, help string, labels ...string) *Metric {
	return t.add(KindCounter, name, help, labels)
}

// Gauge adds a gauge.
func (t *Table) Gauge(name, help string, labels ...string) *Metric {
	return t.add(KindGauge, name, help, labels)
}

// Histogram adds a histogram.
func (t *Table) Histogram(name, help string, labels ...string) *Metric {
	return t.add(KindHistogram, name, help, labels)
}

func (t *Table) add(k Kind, name, help string, labels []string) *Metric {
	m := &Metric{Name: name, Help: help, Kind: k, Labels: labels, at: len(t.metrics)}
	for i := range labels {
		m.sorted = append(m.sorted, i)
	}
	slices.SortFunc(m.sorted, func(a, b int) int { return strings.Compare(labels[a], labels[b]) })
	t.metrics = append(t.metrics, m)
	return m
}

// Metrics returns the metrics in the order of the table.
func (t *Table) Metrics() []*Metric { return slices.Clone(t.metrics) }
