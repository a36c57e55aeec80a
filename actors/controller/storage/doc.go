// Package storage is one replica's access to the store that all replicas of a controller share. It owns:
//
//   - Host: what the controller's actors run on (actor system, clock, log, leaves), and requests to actors;
//   - Access: transactions with a time limit, the replica's lease, the Saver, which stores the state of many nodes in
//     one transaction, and the watch over the keys;
//   - Writer: /store, which runs this replica's writes of layers one at a time, and requests to the leader;
//   - /leader: who leads, and the leader's work for all replicas: migrations, compaction, sweeps;
//   - the records in the store that several packages use (RemoteCommand).
//
// It knows no node, stream or rollout, and never decides what a write means: config/fleet/ops does. It imports none of
// the packages above it; they pass what it needs as functions (Writer.SnapshotAt, Ready, Waits).
//
// Read access.go first, then store.go.
package storage
