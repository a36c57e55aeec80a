// Package fleetcli implements the commands that ask a controller: layers of the network and of nodes, topology, nodes,
// peers and clusters, history, rollouts, hardware, operators and backups, and the part of the node's apply and wait
// that asks a controller.
//
// It never validates a write: the controller does, and this package prints the result. Each group of commands has a
// table; a row names the function that asks the controller and the values of -o.
//
// Read first: commands.go, then layers.go and written.go.
package fleetcli
