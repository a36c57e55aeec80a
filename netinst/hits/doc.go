// Package hits adds up what the kernel counts for the access rules of adapters: a rule of the config becomes several of
// the kernel, whose counters begin at 0 with each write of their chain.
//
// It reads nothing and has no clock: actors/node reads the counters.
package hits
