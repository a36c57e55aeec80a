// Package nodestate owns the two ends of the state loop as a node has them: what its config and its
// PeerConfiguration come to together (Desired), whether what is desired was answered, and which parameters it
// reports of it, from what the owners of networks, apps and tasks say.
//
// It never publishes anything, applies no config and reads no clock. What a controller makes of a report is the
// parent package's.
//
// Read first: validate.go, then parameters.go.
package nodestate
