// Package pace says how often one of many may make us do something: how much it may have written
// (Budget), and when a value that it goes on changing counts (Steady).
//
// It is pure: the time is an argument, nothing waits here, and nothing is for more than one
// goroutine at a time.
//
// Read first: budget.go, then steady.go.
package pace
