// Package nodes is /fleet/node/<uuid>, an actor for each node that has joined. It owns the node's machine
// (config/fleet), its stream, its pending writes to the store, and its Handle: the state that outlives a crash of the
// actor, and that other packages read without asking the actor.
//
// It never computes a node's desired config: the fleet sends it (Desired), and the actor sends the fleet what concerns
// others (messages.go). The machine decides when a node is pushed to. Writes go through storage.Saver within the node's
// budget, so that no message of a node costs the controller more.
//
// Read node.go first, then do.go.
package nodes
