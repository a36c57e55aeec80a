// Package executor runs what peers are described to run: processes that outlive the daemon, and
// units of systemd. What it started it knows again after any crash: by pid and start time, and by
// a mark in the process's environment, so that nothing is started twice.
//
// It never decides whether something shall run, when a start is tried again, or what an exit code
// means to people (config/stateloop/peer/task does), and never touches a process or a unit that it did
// not start.
package executor
