// Package registry is the pure core of what the networks of one host share. It owns the number of each network, the
// times at which the host's own chains and sysctls (netinst.HostState) are applied, the ports by which the host
// forwards, and the times at which bridge managers are spawned.
//
// It never touches the host, a clock or a random source, and knows only the config of a network: the manager of the
// network knows its objects on the host.
//
// Read registry.go first; registry_test.go states every behaviour as a sentence.
package registry
