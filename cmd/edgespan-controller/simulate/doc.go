// Package simulate implements the command `simulate`: it joins simulated nodes to a controller, its own or another
// one, injects the requested faults, and checks that every node ends in a state that its faults allow.
//
// It never simulates a node itself: actors/simulate does, with the config actor of a real node. The package is an
// ordinary client of the controller, and starts its own controller as a process of this program.
//
// Read first: simulate.go, then run.go.
package simulate
