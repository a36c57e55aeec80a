// Package overlap is the pure core that compares subnets with the host's own addresses and routes: it owns which of
// them are met (HostPrefixes) and what a subnet clashes with or hides (With, Of).
//
// It knows no network and decides nothing: what clashes is kept off the host by netinst.DesiredState, and told by the
// bridge manager and the doctor.
//
// Read first: overlap.go.
package overlap
