// Package cluster owns the tests of the controller's store on a real cluster: three etcd processes, built from this
// module, that are killed, added and replaced while writers write, watchers watch and candidates campaign
// (docs/adr/0016, docs/high-availability.md).
//
// The drills run the complete system: three controllers, simulated nodes, writers over REST, and rollouts
// (docs/adr/0019). Each connection between two parts passes through the test, which can stall or break it.
// EDGESPAN_DRILL=1 (make drill) does that to all connections, and kills and stops each process.
//
// It needs no root. It listens on the loopback interface only, keeps its data in folders of the test, and never ends a
// process that it did not start.
package cluster
