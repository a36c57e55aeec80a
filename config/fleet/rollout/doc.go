// Package rollout owns how a change is rolled out to many nodes: the batches, planned so that no node outside of a
// batch loses its last path to a point of presence, and the next step when a node confirms, fails, vanishes or returns.
//
// It never talks to a node and never reads a clock: events go in, effects come out.
//
// Read rollout.go first, then step.go.
package rollout
