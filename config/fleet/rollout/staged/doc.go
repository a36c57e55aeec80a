// Package staged owns the record of one staged rollout, and what is decided of it beside the batches themselves
// (those are the parent's): which nodes it takes up, when it supersedes the one before, what an operator's command
// does, which gates are open, what a node's standing says, and what people are told.
//
// It never writes a key, sets a timer or reads a clock.
//
// Read first: record.go, then decide.go and node.go.
package staged
