// Package netinst is the pure core of network instances. It owns their types and validated words, the addresses and
// numbers of their adapters (Allocate), the desired host state of a network from its config, adapters and ports
// (DesiredState), the host state that belongs to no network (HostState), and the decision which tracked flows the rules
// deny (Validate).
//
// It never touches the host, a clock or a random source, and it stores nothing: package manager tracks one network over
// time, package registry all networks of a host.
//
// Read types.go first, then desired.go.
package netinst
