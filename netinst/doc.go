// Package netinst is the pure core of what network instances are and want: their types and validated words, the
// addresses and numbers of their adapters (Allocate), the host state that a config with its adapters and ports asks for
// (DesiredState), what of the host belongs to no network (HostState), and which packets may pass (Judge).
//
// It never touches the host, a clock or a random source. It remembers nothing: what happens over time is manager's (one
// network) and registry's (all of a host).
//
// Read first: types.go, then desired.go.
package netinst
