// Package simulate owns a fleet of simulated nodes: many of the node's real config actors (actors/agent) in one
// process, each with its own stream, on a host that accepts every config. It also owns fault injection, and the check
// whether the fleet is where it should be.
//
// It opens no stream, queries no controller and writes no file: it declares what it needs for that. It changes a node's
// answers only for a requested fault.
//
// Read fleet.go first, then node.go.
package simulate
