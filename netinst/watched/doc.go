// Package watched is the pure core of what is watched on networks: the leases of adapters and the recent DNS answers
// of their apps (Network), and how many messages may be read on each link (Budget). All of it is bounded: an app that
// asks for ever new names loses what is kept of itself, and nothing of others.
//
// It reads nothing and has no clock: the watcher of actors/node feeds it (ADR 0077). It decides nothing about packets:
// what it keeps is shown, never used for access rules.
//
// Read network.go first, then lease.go.
package watched
