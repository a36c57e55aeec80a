package fleetapi

import (
	"fmt"
	"slices"
	"strings"

	"edgespan/config/fleet/history"
)

// RoleFor returns the least role that may make a change of layers, by any route. The configs of the controller and the
// aggregator are settings of programs outside the fleet, and the metadata says what is secret: only an admin writes
// them, so only an admin restores them.
func RoleFor(c history.Change) Role {
	for l := range c.Layers {
		if isAdmins(l) {
			return Admin
		}
	}
	return Operator
}

func isAdmins(l history.Layer) bool { return l.Kind == history.E2E || l.Kind == history.Metadata }

// CheckPermitted returns ErrRole if the caller of a write may not make the resulting change.
func (r WriteRequest) CheckPermitted(c history.Change) error {
	need := RoleFor(c)
	if r.Caller.Role.Includes(need) {
		return nil
	}
	var names []string
	for l := range c.Layers {
		if need != Admin || isAdmins(l) {
			names = append(names, l.String())
		}
	}
	slices.Sort(names)
	return fmt.Errorf("%s: %w %q: must be %s", strings.Join(names, ", "), ErrRole, r.Caller.Role, need)
}
