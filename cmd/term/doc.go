// Package term is what the command lines of edgespan and edgespan-controller share: how a program begins and ends, the
// streams it reads and writes, its log, tables and the other forms of an answer, lines that come one by one, checks of
// arguments, which error ends a command with which exit code, and a client of a controller with its token and CA.
//
// It asks no node and no controller anything itself, and never judges what it shows. An error carries its exit class
// where it is made, as Usagef, Unreadable and WithClass give it one or as a config.Class; ExitCode is the only place
// that turns either into a number.
//
// Read first: streams.go, then exit.go and output.go; target.go for a controller.
package term
