// Package fleetcli is the commands that ask a controller: layers of a network and of nodes,
// topology, nodes, peers and clusters, history, rollouts, hardware, operators and backups, and
// what apply and wait of a node send there.
//
// It never judges a write: the controller does, and this package shows what it said. Commands
// stand in tables, one for each group; a row names the function that asks and the forms of its
// answer.
//
// Read first: commands.go, then layers.go and written.go.
package fleetcli
