// Package term contains what the command lines of edgespan and edgespan-controller share: the start and the end of a
// program, its streams, its log, tables and the other output formats, live output, checks of arguments, exit codes of
// errors, and a client of a controller with its token and CA.
//
// It asks no node and no controller anything itself, and never validates what it prints. An error gets its exit class
// where it is created: by Usagef, Unreadable or WithClass, or as a config.Class. Only ExitCode turns a class into a
// number.
//
// Read first: streams.go, then exit.go and output.go; target.go for a controller.
package term
