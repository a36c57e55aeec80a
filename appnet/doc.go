// Package appnet is the pure core of one app network. It owns the adapters of one app over all its network instances,
// their TargetVersion, and the decision whether the app is pending (seed eve-bridge-manager, "Application network" and
// "Message Exchanges").
//
// It never touches a topic, a clock or a network: Machine.Step takes events and returns effects.
//
// Read types.go first, then machine.go.
package appnet
