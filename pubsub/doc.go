// Package pubsub owns delivery, retention and replay: typed topics of keyed
// values, each key with one owner, each reader with a view that conflates
// (docs/architecture.md, law 8; seed eve-bridge-manager, where zedrouter and the
// bridge managers talk only through pubsub, and a bridge manager that starts
// late receives all pending AppAdapterConfig by subscribing to its scope).
//
// It never interprets a value, never starts a goroutine, never waits for a
// reader, and knows neither actors nor disks: what must last goes through a
// Journal that somebody else brings.
//
// A topic carries state, not events. Readers must not count changes: what
// happened between two Drains of a reader is told to it as at most one change a
// key. Values are immutable from the moment they are published.
//
// Read first: topic.go.
package pubsub
