// Package kv owns the words in which the controller speaks to its store
// (docs/adr/0016): keys, entries and their revisions, transactions with compare,
// the events of a watch, leases, and elections on top of them; and a model of
// such a store in memory, with the clock passed in, which tests hold against
// the real ones.
//
// It never knows what a key means, never keeps anything, and never waits: the
// interface of a store takes a context, which no core may, so it is declared in
// platform/store/backend with only these types in it, and actors declare the part of
// it that they use.
//
// What holds in every backend:
//
//   - A revision is a number of the store that rises with each transaction that
//     changed something. It need not rise by one: an etcd may serve other fleets.
//     A transaction that changed nothing has no revision of its own.
//   - Every entry keeps the revision that wrote it last; 0 stands for absent.
//   - A transaction is whole or not at all, for readers, for watchers and after a
//     crash. What was acknowledged is on disk.
//   - A watch begins after a revision and gets every later event once, in order,
//     the events of one transaction together, or ErrCompacted.
//   - Compacting at revision C forgets what was before C: a read at a revision
//     below C and a watch that needs events from below C get ErrCompacted.
//
// Read first: txn.go, then model.go, which says exactly what a store does.
package kv
