// Command edgespan-controller is the controller of a fleet: the store of its layers, the API, and the link to its
// nodes. It owns the wiring: flags, environment, the data folder, which implementation is used, and exit codes.
//
// It never judges a config, a node or a caller. Each part is a package below this one: serve is the controller, offline
// the commands beside it, simulate the nodes that try it. Read first: root.go.
package main

import "edgespan/cmd/term"

// version is set by the Makefile from git describe.
var version = "unknown"

func main() { term.Main(run) }
