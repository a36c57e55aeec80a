// Package registry is the pure core of what the networks of one host share: it owns which number each network has, when
// host's own chains and sysctls (netinst.HostState) are applied, by which ports the host forwards, and when a bridge
// manager is spawned.
//
// It never touches the host, a clock or a random source, and knows of a network only its config: what is on the host of
// one network is manager's.
//
// Read first: registry.go; registry_test.go says what it does as sentences.
package registry
