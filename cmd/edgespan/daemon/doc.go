// Package daemon is the commands `node`, which runs the daemon of a node, and `join`, which makes
// the node part of a controller's fleet. start.go is the only place of the program that puts
// platform and actors together.
//
// It never judges a config or a network: the actors do. It keeps one daemon in a network
// namespace, serves the control socket, starts again when the config asks for it, and leaves the
// networks running when it ends.
//
// Read first: node.go, then start.go.
package daemon
