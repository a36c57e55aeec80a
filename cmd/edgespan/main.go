// Command edgespan is the edge daemon and its command line. It owns the wiring: flags, environment, the choice of
// implementations, exit codes, and the output on a terminal.
//
// It never validates a config or a network: the daemon does, and this program prints the result. Each group of
// commands is a package below this one; only the package daemon connects platform and actors. Read first: root.go.
package main

import "edgespan/cmd/term"

// version is git describe, set by the Makefile.
var version = "unknown"

func main() { term.Main(run) }
