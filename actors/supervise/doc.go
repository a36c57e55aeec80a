// Package supervise owns how the actors of every tree are kept running: the actor system, what happens when an actor
// crashes, and the middleware without which a panic hangs or is hidden (protoactor's pitfalls, docs/architecture.md).
//
// It never knows what an actor does, and keeps no state for an actor that has not crashed: a controller has ten
// thousand.
//
// Read supervise.go first.
package supervise
