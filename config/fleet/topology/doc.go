// Package topology owns the map of a network: nodes on sites, and links between nodes. It
// reads and writes the files of the original unchanged, finds every inconsistency in one,
// and edits it together with the layers that hang on the names and MACs of its nodes.
//
// It never reads a file, and never decides when a network is changed: a topology goes in,
// another comes out.
//
// Read first: topology.go, then edit.go.
package topology
