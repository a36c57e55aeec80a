// Package netinst is the pure core of network instances. It owns their types, the validated names in them (Hostname,
// IfName), the addresses and numbers of their adapters (Allocate), the desired host state of a network from its config,
// adapters and ports (DesiredState), the host state that belongs to no network (HostState), and the decision which
// tracked flows the rules deny (DeniesFlow).
//
// It never touches the host, a clock or a random source, and it stores nothing: package manager tracks one network over
// time, package registry all networks of a host.
//
// Three words of the comments: a seed is one of the requirement documents that this project implements (docs/seeds.md);
// host, as the owner of a chain or an object, is the part of the host's state that belongs to no network (HostState); a
// former release is one that an upgrade may find on the host.
//
// Read types.go first, then desired.go. firewall.go has the map of the chains.
package netinst
