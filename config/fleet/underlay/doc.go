// Package underlay owns the addresses at which tunnels of other nodes reach a node: which of its ports and addresses
// are kept, how often one of them may change, and which addresses others can reach at all.
//
// It never writes a key, derives no tunnel and reads no clock.
//
// Read underlay.go first.
package underlay
