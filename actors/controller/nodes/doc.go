// Package nodes is /fleet/node/<uuid>, an actor for each node that has joined. It owns the machine of the node
// (config/fleet), its stream, what of it is on its way to the store, and its Handle: what outlives a crash of the
// actor, and what the other rooms may see of a node without asking its actor.
//
// It never computes what a node wants: the fleet tells it (Wanted), and is told what concerns others (tells.go). When a
// node is pushed to is the machine's to say; what goes to the store goes through storage.Saver, with a budget of the
// node, as whatever a node says costs the controller no more than that.
//
// Read node.go first, then do.go.
package nodes
