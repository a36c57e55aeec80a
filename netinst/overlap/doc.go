// Package overlap is the pure core that compares subnets with the host's own addresses and routes. It owns the list of
// prefixes to compare with (HostPrefixes) and the comparison, which names what a subnet clashes with or hides (With,
// Of).
//
// It knows no networks and decides nothing: netinst.DesiredState keeps a network that clashes off the host, and the
// bridge manager and the doctor report it.
//
// Read overlap.go first.
package overlap
