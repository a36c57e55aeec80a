// Package flowlog is the pure core of the flow log: which adapters an ended connection belongs to, and what the log
// says of it (Book); the queues in which records wait to be written or sent, so that a network that fills them loses
// its own (Queues); and what a flow that goes on has counted since its last record (Deltas).
//
// It reads nothing from the kernel, writes no file and has no clock: actors/node does both (ADR 0074). It never decides
// whether a flow may exist; the rule that it names is the answer of package verdict.
//
// Read book.go first.
package flowlog
