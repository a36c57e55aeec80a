// Package rollout owns how a change goes out to many nodes: in which batches, so that
// nobody loses a last path to a point of presence by it, and what to do next when a node
// confirms, fails, vanishes or comes back.
//
// It never talks to a node and never reads a clock: events go in, effects come out.
//
// Read first: rollout.go, then step.go.
package rollout
