// Package pace owns rate limits for one of many clients: how much it may cause to be written (Budget), and when a value
// that keeps changing counts (Steady).
//
// It never reads a clock and never waits: the time is an argument. Its types are not safe for concurrent use.
//
// Read budget.go first, then debounce.go.
package pace
