// Package simulate owns a fleet of simulated nodes: many of the node's real config actors
// (actors/agent) in one process, each with a stream of its own, on a host that takes every
// config; what goes wrong on purpose; and the judgement whether the fleet is where it should
// be.
//
// It opens no stream, asks no controller and writes no file by itself: it declares what it
// needs of them. It never changes a node's answers but as a fault that was asked for.
//
// Read first: fleet.go, then node.go.
package simulate
