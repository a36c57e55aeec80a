// Package daemon implements the commands `node`, which runs the daemon of a node, and `join`, which adds the node to a
// controller's fleet. start.go is the only file of the program that connects platform and actors.
//
// It never validates a config or a network: the actors do. It runs one daemon per network namespace, serves the
// control socket, restarts when the config requests it, and leaves the networks running when it ends.
//
// Read first: node.go, then start.go.
package daemon
