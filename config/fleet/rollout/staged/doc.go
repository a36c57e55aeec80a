// Package staged owns the record of one staged rollout and the decisions about it, except for the batches (package
// rollout plans those): which nodes it includes, when it supersedes the previous one, the effect of an operator's
// command, which admissions are open, the meaning of a node's progress, and the texts for people.
//
// It never writes a key, sets a timer or reads a clock.
//
// Read record.go first, then decide.go and node.go.
package staged
