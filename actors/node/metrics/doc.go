// Package metrics turns a snapshot of a node into the numbers of one scrape.
//
// A Snapshot is what already exists: statuses from topics, counters that leaves have read, and Work, in which the
// actors count. It asks no actor and reads nothing from the host. Each label is bounded by the current config, so the
// series of a deleted object vanish with it (docs/adr/0075-metrics.md).
//
// Read table.go first.
package metrics
