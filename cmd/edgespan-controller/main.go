// Command edgespan-controller is the controller of a fleet: the store of its layers, the API, and the link to its
// nodes. It owns the wiring: flags, environment, the data folder, the choice of implementations, and exit codes.
//
// It never validates a config, a node or a caller. Each part is a package below this one: serve runs the controller,
// offline has the other commands, and simulate the simulated nodes. Read first: root.go.
package main

import "edgespan/cmd/term"

// version is git describe, set by the Makefile.
var version = "unknown"

func main() { term.Main(run) }
