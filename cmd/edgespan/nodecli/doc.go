// Package nodecli is the commands that ask the daemon of a node by its control socket: apply,
// plan, confirm, rollback, release, get, wait, explain, events, diff, watch and doctor. Of apply,
// get and wait what names peers, clusters or descriptors goes to a controller, by fleetcli.
//
// It never judges a config or a network: the daemon does, and this package shows what it said.
//
// Read first: commands.go, then apply.go, target.go and resources.go.
package nodecli
