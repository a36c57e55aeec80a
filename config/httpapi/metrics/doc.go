// Package metrics writes the metrics of a program as text for Prometheus: the table of what exists, one scrape, and
// the page that answers scrapers.
//
// It holds no numbers and reads none: a Source hands it those of one scrape. It never starts a reading by itself, and
// the cost of all scrapers together is bounded (page.go).
package metrics
