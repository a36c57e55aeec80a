// Package cluster owns the tests of the controller's store on a real cluster: three etcd
// processes, built from this module, that are killed, added and replaced while writers
// write, watchers watch and candidates campaign (docs/adr/0016, docs/high-availability.md).
//
// The drills have the whole of it at work: three controllers, simulated nodes, writers over
// REST, and rollouts (docs/adr/0019). Each link between two parts is a wire of the test, which
// can be cut: bytes stop, or connections break. EDGESPAN_DRILL=1 (make drill) does that to all
// of them, and kills and stops each process.
//
// It needs no root. It listens on the loopback only, keeps its data in folders of the test,
// and never ends a process that it did not start.
package cluster
