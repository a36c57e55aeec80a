// Package clitest is what the tests of several groups of commands share: what runs a command
// line in the process of the test, fakes of whom commands ask (a node's daemon, a controller,
// ConfigDB), and readers of the console blocks of pages.
//
// Only tests import it. A fake answers what its test gives it and notes what it is asked; World
// and ConfigDB are the real operations on a store of the test's own.
//
// Read first: run.go.
package clitest
