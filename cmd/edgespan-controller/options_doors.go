package main

// doorSettings are the flags of what callers may make the controller spend.
func (o *options) doorSettings() []setting {
	return []setting{
		{"audit-mb", &o.AuditMB, "megabytes that the audit log takes at most, in eight files; 0 for no bound", serving},
	}
}

// checkDoors refuses what can never work.
func (o *options) checkDoors(no func(format string, args ...any)) {
	if o.AuditMB != 0 && o.AuditMB < auditFiles {
		no("--audit-mb: is %d: must be 0, or %d and more", o.AuditMB, auditFiles)
	}
}
