// Package executor runs the executors that peers describe: processes that outlive the daemon, and systemd units. After
// any crash it recognizes what it started by pid and start time, and by a mark in the process's environment, so that
// it starts nothing twice.
//
// It never decides whether an executor should run, when to retry a start, or what an exit code means
// (config/stateloop/peer/task does), and never touches a process or a unit that it did not start.
package executor
