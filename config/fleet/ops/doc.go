// Package ops owns the meaning of the operations on a fleet's configuration (seed terragraph-configuration-management,
// section Operations): the answer of a read, the changes and consequences of a write, and the reasons to refuse it. It
// works on one state of the layers (config/fleet/history) and combines the packages for its parts: layers, override,
// metadata, controllerconf, optimize, topology.
//
// It never stores anything: a validated write is a history.Change, which the caller plans and commits, and validates
// again if another write came first. It never talks to a node, never checks permissions, and has no clock.
//
// Read snapshot.go first, then write.go and read.go.
package ops
