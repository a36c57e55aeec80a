// Package ctltest contains what the tests of several packages of the controller's program share: functions that run a
// command line or a controller in the process of the test, or in a process that the test kills, and a node that
// accepts every push.
//
// Only tests import it. It imports no package of the program: each test package passes its commands as a Program.
//
// Read first: run.go.
package ctltest
