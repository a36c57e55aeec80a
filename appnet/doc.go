// Package appnet is the pure core of one app network: all adapters of one app
// over many network instances, their TargetVersion, and when the app is pending
// (seed eve-bridge-manager, "Application network" and "Message Exchanges").
//
// It never touches a topic, a clock or a network: Machine.Step takes events and
// gives back effects.
//
// Read first: types.go, then machine.go.
package appnet
