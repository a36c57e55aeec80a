// Package serve runs the controller: its flags and where their values come from, the data folder and the store, the
// bootstrap of a fleet, authentication, the audit log, both APIs, the link to the nodes, and the effects of a change to
// the controller's own config. start.go is the only file of the program that connects platform and actors.
//
// It never validates a config, a node or a caller: config/fleet/ops, config/fleet and config/httpapi/fleetapi do. A
// flag that decides on access, files or addresses is never read from the store.
//
// Read first: app.go, then serve.go and start.go.
package serve
