// Package events owns the events of a node: what happened to which object, and why. It bounds and cleans their texts,
// keeps them in a ring in which each object has its share (Log), counts those that repeat, connects each one to the one
// before it (Chain, from the config to the state), says this in words (Why), and decides what is written to their file
// (Saving).
//
// It never reads a clock, a file or a topic: the time is in the event, and actors store and send what it returns. Its
// types are not safe for concurrent use.
//
// Read event.go first, then log.go.
package events
