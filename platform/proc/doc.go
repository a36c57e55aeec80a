// Package proc runs commands and long-running helpers. It is the only package that executes programs, enters a network
// namespace to do so, and signals processes.
//
// It never decides what to run or what an exit status means, and never signals a process that it can't identify by pid
// and start time.
package proc
