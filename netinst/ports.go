package netinst

import (
	"fmt"
	"slices"
)

// ChoosePort picks the port that a network uses: of those that want names (a
// label, a shared label, "uplink", "freeuplink", "all"), which exist and are up,
// the one of lowest cost, then of lowest label. Without one it says why.
// (Probing, which refines this, comes with the uplinks.)
func ChoosePort(want string, ports []PortStatus) (PortStatus, string) {
	var best *PortStatus
	named, why := 0, ""
	for i, p := range ports {
		if !carries(p, want) {
			continue
		}
		named++
		switch {
		case !p.Exists:
			why = fmt.Sprintf("port %q: no interface %s", p.Label, p.IfName)
			continue
		case !p.Up:
			why = fmt.Sprintf("port %q: interface %s is down", p.Label, p.IfName)
			continue
		}
		if best == nil || p.Cost < best.Cost || p.Cost == best.Cost && p.Label < best.Label {
			best = &ports[i]
		}
	}
	switch {
	case best != nil:
		return *best, ""
	case named == 0:
		return PortStatus{}, fmt.Sprintf("port %q is not configured", want)
	case named > 1:
		return PortStatus{}, fmt.Sprintf("none of the %d ports %q is up", named, want)
	}
	return PortStatus{}, why
}

func carries(p PortStatus, want string) bool {
	switch want {
	case "all":
		return true
	case "uplink":
		return p.Uplink
	case "freeuplink":
		return p.Uplink && p.Cost == 0
	}
	return p.Label == want || slices.Contains(p.Labels, want)
}
