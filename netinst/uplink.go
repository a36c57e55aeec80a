package netinst

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/probe"
)

// Uplinks is what probing has found about the ports of a network.
type Uplinks struct {
	// Chosen are the labels of the ports that probing has chosen, by the values of `port` that select them, and for IPv6
	// by probe.OfIPv6 of these.
	Chosen map[string]string
	// Failing are the labels of ports that probing has found not to work, or not for long enough, and of drained ones; of
	// their IPv6, probe.OfIPv6 of these.
	Failing map[string]bool
	// Broken are those of them that do not work.
	Broken map[string]bool
	// Equals are the labels of the ports that are as good as the chosen one, with it, by selector.
	Equals map[string][]string
}

// UplinksOf returns what follows from decisions of a network's chooser, by selector.
func UplinksOf(choices map[string]probe.Choice) Uplinks {
	u := Uplinks{Chosen: map[string]string{}, Failing: map[string]bool{}, Broken: map[string]bool{},
		Equals: map[string][]string{}}
	for selector, c := range choices {
		u.Chosen[selector] = c.Port
		u.Equals[selector] = c.Equals()
		for _, s := range c.Ports {
			name := s.Label
			if probe.IsOfIPv6(selector) {
				name = probe.OfIPv6(name)
			}
			if !s.Class.Works() {
				u.Broken[name] = true
			}
			if !s.Class.Works() || s.Class == probe.DrainedPort || s.Resting {
				u.Failing[name] = true
			}
		}
	}
	return u
}

// Selectors returns the values of `port` by which a network and its routes select ports of the host. A switch network
// selects none by its state: it has the port that its config names. Those by which its IPv6 does, or that of its
// tunnel's own packets, are probe.OfIPv6 of the values.
func Selectors(c NetworkInstanceConfig) []string {
	if c.Type == Switch {
		return nil
	}
	var list []string
	if c.Port != "" {
		list = append(list, c.Port)
	}
	if c.Port != "" && (c.HasIPv6() || c.HasVPN() && c.VPN.mayMeetIPv6()) {
		list = append(list, probe.OfIPv6(c.Port))
	}
	for _, r := range c.Routes {
		switch {
		case r.Port == "" || r.Destination.Addr().Is6() && !c.HasIPv6():
		case r.Destination.Addr().Is6():
			list = append(list, probe.OfIPv6(r.Port))
		default:
			list = append(list, r.Port)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// ProbePorts returns what the choice of a network's ports must know of them: of each port its IPv4, then its IPv6.
func ProbePorts(c NetworkInstanceConfig, ports []PortStatus) []probe.Port {
	selectors := Selectors(c)
	list := []probe.Port{}
	ports = slices.SortedFunc(slices.Values(ports), func(a, b PortStatus) int { return cmp.Compare(a.Label, b.Label) })
	for _, p := range ports {
		for _, ipv6 := range []bool{false, true} {
			if x := probePort(p, ipv6, selectors); len(x.Selectors) > 0 {
				list = append(list, x)
			}
		}
	}
	return list
}

// probePort returns what the choice must know of one family of a port.
func probePort(p PortStatus, ipv6 bool, selectors []string) probe.Port {
	x := probe.Port{Label: p.Label, IfName: string(p.IfName), IPv6: ipv6, Cost: p.Cost, Metered: p.Metered,
		Reach: p.reach(ipv6)}
	for _, s := range selectors {
		if value := strings.TrimSuffix(s, probe.OfIPv6("")); p.Matches(value) && probe.IsOfIPv6(s) == ipv6 {
			x.Selectors = append(x.Selectors, s)
		}
	}
	for _, a := range connected(p) {
		x.Neighbours = append(x.Neighbours, a.Masked())
	}
	r, out := p.DefaultRoute()
	if ipv6 {
		r, out = p.DefaultRoute6()
		x.Neighbours = connected6(p)
	}
	if out {
		x.Gateway = r.Gateway
	}
	servers, _ := p.DNS()
	x.Servers = slices.DeleteFunc(slices.Clone(servers), func(a netip.Addr) bool { return a.Is6() != ipv6 })
	if len(x.Servers) == 0 {
		x.Servers = servers
	}
	return x
}

func (p PortStatus) reach(ipv6 bool) probe.Reach {
	if ipv6 && p.Exists && p.Up {
		return p.reach6()
	}
	switch {
	case !p.Exists || !p.Up:
		return probe.Down
	case p.rank() == rankNoAddress:
		return probe.NoAddress
	case p.rank() > 0:
		return probe.NoRoute
	}
	return probe.Out
}

// reach6 is reach for the IPv6 of a port that is up. A link-local address is enough for a network with a routed prefix.
func (p PortStatus) reach6() probe.Reach {
	switch {
	case !slices.ContainsFunc(p.Addresses, func(a netip.Prefix) bool { return a.Addr().Is6() }):
		return probe.NoAddress
	case !leadsOut6(p):
		return probe.NoRoute
	}
	return probe.Out
}

// leadsOut6 reports whether a port has an IPv6 default route.
func leadsOut6(p PortStatus) bool {
	_, out := p.DefaultRoute6()
	return out
}

// choose returns the port that was chosen for a selector by probing. Without such a choice, as before the first one, it
// is ChoosePort's.
func (in Input) choose(selector string) (PortStatus, string) {
	if p, ok := in.chosen(selector, selector); ok {
		return p, ""
	}
	return ChoosePort(selector, in.Ports)
}

// choose6 is choose for IPv6.
func (in Input) choose6(selector string) (PortStatus, string) {
	if p, ok := in.chosen(selector, probe.OfIPv6(selector)); ok {
		return p, ""
	}
	return choosePort(selector, in.Ports, leadsOut6)
}

// chosen returns the port that was chosen under a name, if the selector selects it and it is up.
func (in Input) chosen(selector, name string) (PortStatus, bool) {
	if label, ok := in.Chosen[name]; ok && selector != "" {
		for _, p := range in.Ports {
			if p.Label == label && p.Matches(selector) && p.Exists && p.Up {
				return p, true
			}
		}
	}
	return PortStatus{}, false
}

// ProbeBudget returns how many bytes all probes of the port may send and receive in a day; 0: any number.
func (p PortConfig) ProbeBudget() int {
	if !p.Metered {
		return 0
	}
	return cmp.Or(p.ProbeBytes, probe.DefaultProbeBytes)
}
