// Package controllerconf owns the configuration files of the controller and the aggregator: the form
// of their command-line flags, the actions of a change, what of a file the replicas of a
// controller share, and the flags as a shell takes them (seed, "E2E Configuration").
//
// It never knows layers: these files have none. It never carries an action out, and never
// sends anything to a replica.
//
// Read first: controllerconf.go.
package controllerconf
