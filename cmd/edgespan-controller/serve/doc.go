// Package serve is the controller at work: its flags and where their values come from, the data folder and the store
// that it stands on, the founding of a fleet, who may ask, the audit log, both APIs and the link to the nodes, and what
// the controller does to itself when its own config changes. start.go is the only place of the program that puts
// platform and actors together.
//
// It never judges a config, a node or a caller: config/fleet/ops, config/fleet and config/httpapi/fleetapi do. A flag
// that decides on access, files or addresses is never taken from the store.
//
// Read first: app.go, then serve.go and start.go.
package serve
