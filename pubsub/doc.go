// Package pubsub owns delivery, retention and replay: typed topics of keyed values, each key with one owner, each
// reader with a view that conflates (docs/architecture.md, law 8; seed eve-bridge-manager, where zedrouter and the
// bridge managers communicate only through pubsub, and a bridge manager that starts late receives all pending
// AppAdapterConfig by subscribing to its scope).
//
// It never interprets a value, never starts a goroutine, never waits for a reader, and knows neither actors nor disks:
// persistence goes through a Journal that the caller provides.
//
// A topic carries state, not events. Readers must not count changes: a reader gets at most one change per key for
// everything that happened between two Drains. Values are immutable once they are published.
//
// Read topic.go first.
package pubsub
