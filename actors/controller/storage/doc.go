// Package storage is how one replica of a controller uses the store that all replicas share. It owns:
//
//   - Host: what the actors of every room run on (system, clock, log, leaves), and questions to them;
//   - Access: transactions with a time limit, the lease of the replica, the Saver, which stores what nodes have to
//     keep, that of many nodes in one transaction, and the watch over the keys;
//   - Writer: /store, which does this replica's writes of layers one after the other, and the requests to the leader;
//   - /leader: who leads, and what that replica does for all: migrations, compaction, sweeps;
//   - the records in the store that cross rooms (RemoteCommand).
//
// It never knows a node, its stream or a rollout, and never decides what a write means: config/fleet/ops does. What it
// needs of the rooms above it takes as functions (Writer.WorldAt, Ready, Waits), and it imports none of them.
//
// Read access.go first, then store.go.
package storage
