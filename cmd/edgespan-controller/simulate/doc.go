// Package simulate is the command `simulate`: nodes of one process that join a controller, its own or another one, get
// what it wants of them or have the faults that were asked for, and the verdict whether all came to the end that these
// allow.
//
// It never plays a node itself: actors/simulate does, with the config actor of a real one. It is a client of the
// controller like any other, and starts its own as a process of this program.
//
// Read first: simulate.go, then run.go.
package simulate
