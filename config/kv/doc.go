// Package kv owns the types in which the controller talks to its store (docs/adr/0016): keys, entries and their
// revisions, transactions with compares, the events of a watch, leases, and elections built from them. It also owns
// Model, a store in memory that receives the time as an argument; tests compare the real stores with it.
//
// It never knows what a key means, never stores anything durably, and never waits. The interface of a store takes a
// context, which no core may use, so platform/store/backend declares it with these types, and the actors declare the
// part of it that they use.
//
// Every backend guarantees:
//
//   - A revision is a number of the store that increases with each transaction that changes something. It need not
//     increase by one: other fleets may use the same etcd. A transaction that changes nothing has no revision of its
//     own.
//   - Every entry has the revision of the last write to its key; 0 means absent.
//   - A transaction is atomic, for readers, for watchers and after a crash. An acknowledged write is on disk.
//   - A watch starts after a revision and gets every later event once, in order, all events of a transaction together;
//     or it gets ErrCompacted.
//   - Compacting at revision C drops the history before C: a read at a revision below C, and a watch that needs events
//     from below C, get ErrCompacted.
//
// Read txn.go first, then model.go, which is the exact specification of a store.
package kv
