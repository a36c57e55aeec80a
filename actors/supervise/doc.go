// Package supervise owns how actors of every tree are kept running: the actor system that they
// live in, what happens when one of them crashes, and the middleware without which a panic
// hangs or hides (protoactor's pitfalls, docs/architecture.md).
//
// It never knows what an actor does, and counts nothing of one that has not crashed: a
// controller has ten thousand of them.
//
// Read first: supervise.go.
package supervise
