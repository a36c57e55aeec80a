package fleetapi

import (
	"fmt"
	"slices"
	"strings"

	"edgespan/config/fleet/history"
)

// Needs is the least role that may make a change of layers, by whichever route it comes. The
// files of the controller and the aggregator are the settings of programs beside the fleet, and
// the metadata says what is secret: only an admin writes them, so only an admin brings them back.
func Needs(c history.Change) Role {
	for l := range c.Layers {
		if isAdmins(l) {
			return Admin
		}
	}
	return Operator
}

func isAdmins(l history.Layer) bool { return l.Kind == history.E2E || l.Kind == history.Metadata }

// Permits says why the caller of a write may not make the change that it comes to (ErrRole),
// nil where it may.
func (r WriteRequest) Permits(c history.Change) error {
	need := Needs(c)
	if r.Caller.Role.May(need) {
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
