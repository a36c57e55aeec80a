// Package clitest contains what the tests of several groups of commands share: functions that run a command line in
// the process of the test, fakes of a node's daemon, a controller and ConfigDB, and a reader of the console blocks of
// pages.
//
// Only tests import it. A fake returns the answers of its test and records the requests; World and ConfigDB are the
// real operations on a store of the test.
//
// Read first: run.go.
package clitest
