// Package ctltest is what the tests of several rooms of the controller's program share: what runs a command line or a
// controller in the process of the test, what runs one in a process of its own to be killed, and a node that takes
// every push.
//
// Only tests import it. It knows no room of the program: each test package gives it its own commands as a Program.
//
// Read first: run.go.
package ctltest
