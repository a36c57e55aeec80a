// Package underlay owns where tunnels of others find a node: which of its ports and addresses are kept, how often one
// of them may be another, and which addresses others could reach at all.
//
// It never writes a key, derives no tunnel and reads no clock.
//
// Read first: underlay.go.
package underlay
