// Package proc runs commands and long-running helpers: it is the only place that
// executes anything, that enters a network namespace for it, and that signals a
// process.
//
// It never decides what to run or what an exit status means, and it never
// signals a process that it can't identify by pid and start time.
package proc
