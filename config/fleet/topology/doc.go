// Package topology owns the map of a network: nodes on sites, and links between nodes. It reads and writes the files of
// the original unchanged, finds every inconsistency in them, and edits a topology together with the layers that depend
// on the names and MACs of its nodes.
//
// It never reads a file, and never decides when a network changes: a topology goes in, another comes out.
//
// Read topology.go first, then edit.go.
package topology
