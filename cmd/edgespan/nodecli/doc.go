// Package nodecli implements the commands that ask the daemon of a node through its control socket: apply, plan,
// confirm, rollback, release, get, wait, explain, events, diff, watch, doctor, port and acl. For peers, clusters and
// descriptors, apply, get and wait ask a controller, through fleetcli.
//
// It never validates a config or a network: the daemon does, and this package prints the result.
//
// Read first: commands.go, then apply.go, target.go and resources.go.
package nodecli
