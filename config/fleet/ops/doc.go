// Package ops owns what the operations on a fleet's configuration mean (seed
// terragraph-configuration-management, section Operations): what a read answers, what a
// write changes and entails, and why it is refused. It stands over one state of the layers
// (config/fleet/history) and joins to it the cores that each know a part: layers, edit,
// metadata, e2e, optimize, topology.
//
// It never stores anything: a write that was judged is a history.Change, which somebody
// plans and commits, and judges anew if somebody else was faster. It never asks a node,
// never checks who may do what, and has no clock.
//
// Read first: world.go, then write.go and read.go.
package ops
