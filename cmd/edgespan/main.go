// Command edgespan is the edge daemon and its command line. It owns the wiring:
// flags, environment, which implementation is used, exit codes and how an answer looks
// on a terminal.
//
// It never judges a config or a network: the daemon does, and this program shows what
// it said. Each group of commands is a package below this one; daemon is the only place that
// puts platform and actors together. Read first: root.go.
package main

import "edgespan/cmd/term"

// version is set by the Makefile from git describe.
var version = "unknown"

func main() { term.Main(run) }
