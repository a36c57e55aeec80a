package netinst

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The values of NetworkInstanceConfig.Port that select a group of ports.
const (
	portsUplink     = "uplink"     // every port that the config marks as an uplink
	portsFreeUplink = "freeuplink" // those of them without cost
	portsAll        = "all"
)

// ChoosePort picks the port of a network: of the selected ports that exist and are up, one with a default route before
// one without, then the one of lowest cost, then the first by label. Without one it returns the reason; a network that
// selects none ("") gets none and no reason.
func ChoosePort(want string, ports []PortStatus) (PortStatus, string) {
	return choosePort(want, ports, func(PortStatus) bool { return true })
}

// choosePort is ChoosePort with a preference for ports that fit.
func choosePort(want string, ports []PortStatus, fits func(PortStatus) bool) (PortStatus, string) {
	if want == "" {
		return PortStatus{}, ""
	}
	var found []PortStatus
	var not []string
	for _, p := range ports {
		switch {
		case !p.Matches(want):
		case !p.Exists:
			not = append(not, fmt.Sprintf("%s (%s does not exist)", p.Label, p.IfName))
		case !p.Up:
			not = append(not, fmt.Sprintf("%s (%s is down)", p.Label, p.IfName))
		default:
			found = append(found, p)
		}
	}
	if len(found) > 0 {
		return slices.MinFunc(found, func(a, b PortStatus) int {
			return cmp.Or(order(fits(b), fits(a)), cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Cost, b.Cost),
				strings.Compare(a.Label, b.Label))
		}), ""
	}
	if len(not) == 0 {
		return PortStatus{}, fmt.Sprintf("no port matches %q", want)
	}
	slices.Sort(not)
	return PortStatus{}, fmt.Sprintf("no usable port for %q: %s", want, strings.Join(not, ", "))
}

// order compares two booleans, false first.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// rankNoAddress is the rank of a port without an address.
const rankNoAddress = 2

// rank rates a port that is up: 0 has a default route, 1 has only an address, 2 has no address. The lowest rank is the
// best.
func (p PortStatus) rank() int {
	_, out := p.DefaultRoute()
	switch {
	case len(connected(p)) == 0 && !p.Tunnel:
		return rankNoAddress
	case !out:
		return 1
	}
	return 0
}

// expectedPort returns the port that ChoosePort would pick if all existing ports were usable; the zero value without
// one.
func expectedPort(want string, ports []PortStatus) PortStatus {
	up := slices.Clone(ports)
	for i := range up {
		up[i].Up = true
	}
	p, _ := ChoosePort(want, up)
	return p
}

// The MTUs that a network's links can have: IPv4's minimum (RFC 791), and the maximum of a bridge and a veth
// (ETH_MAX_MTU). A port may have another: lo has 65,536, a dummy any.
const (
	minMTU = 68
	maxMTU = 65535
)

// mtu returns the configured MTU, else the link's, within the limits of a network's links; 0 if both are unknown.
func (p PortStatus) mtu() int {
	mtu := cmp.Or(p.MTU, p.LinkMTU)
	if mtu == 0 {
		return 0
	}
	return min(max(mtu, minMTU), maxMTU)
}

// Problem describes the problem of a port, "" for none.
func (p PortStatus) Problem() string {
	switch {
	case !p.Exists && p.NoParent:
		return fmt.Sprintf("no interface %s, of which %s would be VLAN %d", p.VLAN.Parent, p.IfName, p.VLAN.ID)
	case !p.Exists:
		return "no interface " + string(p.IfName)
	case !p.Up:
		return "interface " + string(p.IfName) + " is down"
	}
	return p.UnusableReason()
}

// UnusableReason returns why an uplink that is up is not usable yet, "" if it is usable or p is no uplink: other ports
// need no default route.
func (p PortStatus) UnusableReason() string {
	if !p.Uplink || p.rank() == 0 {
		return ""
	}
	who := fmt.Sprintf("uplink %s (%s)", p.Label, p.IfName)
	switch {
	case len(connected(p)) == 0:
		return who + " has no IPv4 address"
	case p.Gateway.IsValid():
		return fmt.Sprintf("%s: gateway %s is its own address", who, p.Gateway)
	}
	return who + " has no default route"
}

// switchPorts returns the ports that a switch network enslaves to its bridge, and what is wrong with them or others.
func switchPorts(label string, ports []PortStatus) (joined []PortStatus, faults []string) {
	if label == "" {
		return nil, nil
	}
	found := false
	for _, p := range ports {
		if !p.Matches(label) {
			continue
		}
		q, why := switchPort(p)
		if found = true; q.Label != "" {
			joined = append(joined, q)
		}
		if why != "" {
			faults = append(faults, why)
		}
	}
	if !found {
		faults = []string{fmt.Sprintf("no port matches %q", label)}
	}
	return joined, faults
}

// switchPort returns a port if a switch network may enslave it, or why it cannot. A port without carrier stays
// enslaved: nothing else may use it. A port with an address of the host is never taken: packets to that address would
// no longer arrive, and the node might be managed through it.
func switchPort(p PortStatus) (PortStatus, string) {
	if !p.Exists {
		return PortStatus{}, fmt.Sprintf("port %s: %s does not exist", p.Label, p.IfName)
	}
	var held []string
	for _, a := range p.Addresses {
		if !a.Addr().IsLinkLocalUnicast() || a.Addr().Is4() {
			held = append(held, a.String())
		}
	}
	if len(held) > 0 {
		return PortStatus{},
			fmt.Sprintf("port %s: %s holds the host's address %s, which would be cut off in a bridge: remove it or choose "+
				"another port",
				p.Label, p.IfName, strings.Join(held, ", "))
	}
	if !p.Up {
		return p, fmt.Sprintf("port %s: %s is down", p.Label, p.IfName)
	}
	return p, ""
}

func ConfigsOf(ports []PortStatus) []PortConfig {
	cs := make([]PortConfig, len(ports))
	for i, p := range ports {
		cs[i] = p.PortConfig
	}
	return cs
}

// DesiredPorts names the ports that a network may use by its config, each with the generation of its own config, as
// "lte@3 wan@1". A status with the string of the newest configs answers them: no generation repeats, and a port that is
// added or removed changes the string.
func DesiredPorts(c NetworkInstanceConfig, ports []PortConfig) string {
	var found []string
	for _, p := range ports {
		if usedBy(c, p) {
			found = append(found, fmt.Sprintf("%s@%d", p.Label, p.Generation))
		}
	}
	slices.Sort(found)
	return strings.Join(found, " ")
}

// usedBy reports whether a network may use a port, for itself or for one of its routes.
func usedBy(c NetworkInstanceConfig, p PortConfig) bool {
	used := c.Port != "" && p.Matches(c.Port)
	for _, r := range c.Routes {
		used = used || r.Port != "" && p.Matches(r.Port)
	}
	return used
}

// Matches reports whether want, a value of NetworkInstanceConfig.Port, selects p.
func (p PortConfig) Matches(want string) bool {
	switch want {
	case portsAll:
		return true
	case portsUplink:
		return p.Uplink
	case portsFreeUplink:
		return p.Uplink && p.Cost == 0
	}
	return p.Label == want || slices.Contains(p.Labels, want)
}
