// Package controllerconf owns the configuration files of the controller and the aggregator: the form of their
// command-line flags, the actions of a change, the part of a file that the replicas of a controller share, and the
// flags in shell syntax (seed, "E2E Configuration").
//
// It never knows layers: these files have none. It never carries out an action, and never sends anything to a replica.
//
// Read controllerconf.go first.
package controllerconf
