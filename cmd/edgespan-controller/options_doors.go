package main

// doorSettings are the flags of what callers may make the controller spend.
func (o *options) doorSettings() []setting {
	return []setting{
		{"connections-per-address", &o.PerAddress, "connections that one address may have open at the API, and at the node link before it has shown a certificate: as many as all clients need behind a balancer", serving},
		{"audit-mb", &o.AuditMB, "megabytes that the audit log takes at most, in eight files; 0 for no bound", serving},
	}
}

// The API has so many connections at a time, and few of one address once three quarters are taken.
const (
	apiConnections = 4096
	crowded        = 16
)

// nodesPerAddress is how many nodes of one address may shake hands at a time: those of a fleet
// behind one NAT join, and come back, together.
func (o *options) nodesPerAddress() int {
	return max(int(o.PerAddress), 1024*min(int(o.Joins), 1000))
}

// checkDoors refuses what can never work.
func (o *options) checkDoors(no func(format string, args ...any)) {
	if o.PerAddress < 1 {
		no("--connections-per-address: is %d: must be 1 and more", o.PerAddress)
	}
	if o.AuditMB != 0 && o.AuditMB < auditFiles {
		no("--audit-mb: is %d: must be 0, or %d and more", o.AuditMB, auditFiles)
	}
}
