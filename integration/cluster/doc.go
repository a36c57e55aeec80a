// Package cluster owns the tests of the controller's store on a real cluster: three etcd
// processes, built from this module, that are killed, added and replaced while writers
// write, watchers watch and candidates campaign (docs/adr/0016, docs/high-availability.md).
//
// It needs no root. It listens on the loopback only, keeps its data in folders of the test,
// and never ends a process that it did not start.
package cluster
