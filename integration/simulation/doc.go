// Package simulation owns the tests of whole nodes and small fleets in simulated time: every actor of nodes and
// controllers, through the public APIs, on hosts, disks and a store in memory (platform/fake) and the fake clock of
// testing/synctest.
//
// A plan is a text of steps: a time, a verb and a number from which everything else of the step is drawn. Models that
// share no code with the product judge what is left on the host, in the journal and in the API. A plan that fails is
// shortened, and printed so that it can become a file in testdata, each of which runs in every test run.
//
// The plan and the clock repeat. Goroutines that are ready at one instant run in Go's order, so a fault of order may
// show in some runs of its plan alone.
//
// It needs no root, and touches nothing of the machine.
package simulation
