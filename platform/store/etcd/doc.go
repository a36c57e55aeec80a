// Package etcd is the store of several controllers: an etcd cluster, version 3 (docs/adr/0016, docs/architecture.md
// "The store").
//
// All keys of a fleet are below edgespan/<fleet>/, so that fleets can share a cluster. Revisions are etcd's: writes of
// other clients increase them too, and a compaction of the cluster drops the history of all fleets.
//
// A guard polls each member over a separate connection: while another member takes part in the cluster, the store does
// not use one that does not.
//
// The package never caches, never retries a write whose outcome is unknown, and stores no key of its own except the
// store's id.
package etcd
