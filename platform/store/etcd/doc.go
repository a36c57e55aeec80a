// Package etcd owns the store of controllers that are more than one: an etcd
// cluster, version 3 (docs/adr/0016, docs/architecture.md "The store").
//
// All keys of a fleet lie below edgespan/<fleet>/, so that fleets share a cluster.
// Revisions are etcd's own: they rise with the writes of others too, and
// compacting, which is the cluster's, forgets the history of all of them.
//
// Each member is asked all the time, over a connection of its own, whether it takes part in the
// cluster: one that does not is left while another one does.
//
// It never caches, never retries a write whose fate it does not know, and keeps
// nothing of its own but the store's id.
package etcd
