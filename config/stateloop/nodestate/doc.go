// Package nodestate owns the node's side of the state loop: the desired parameters from its config and its
// PeerConfiguration together (Desired), whether each has been answered, and the parameters that it reports, from the
// reports of the owners of networks, apps and tasks.
//
// It never publishes anything, applies no config and reads no clock. The parent package owns the controller's side.
//
// Read validate.go first, then parameters.go.
package nodestate
