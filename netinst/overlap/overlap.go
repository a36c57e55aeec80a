package overlap

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// HostPrefix is a prefix that belongs to the host itself: an address of a foreign interface with its prefix
// length, or a route of the main table.
type HostPrefix struct {
	Prefix  netip.Prefix // for an address including its host bits
	Link    string
	Address bool
	Via     netip.Addr // gateway of a route, if it has one
	// Wide marks a connected route on a link without neighbours, such as 10.0.0.0/8 into a VPN.
	Wide bool
}

func (p HostPrefix) String() string {
	switch {
	case p.Address:
		return fmt.Sprintf("%s on %s", p.Prefix, p.Link)
	case p.Via.IsValid():
		return fmt.Sprintf("route %s via %s on %s", p.Prefix, p.Via, p.Link)
	}
	return fmt.Sprintf("route %s on %s", p.Prefix, p.Link)
}

// HostPrefixes lists what a subnet may overlap. It omits prefixes that no network can have (loopback, link-local),
// those that mean every address (a default route, also in two halves, as VPNs add it), and the connected route of an
// address.
func HostPrefixes(seen []netstate.Interface) []HostPrefix {
	var out []HostPrefix
	for _, i := range seen {
		own := map[netip.Prefix]bool{}
		for _, a := range i.Addresses {
			if !a.Addr().IsLoopback() && !a.Addr().IsLinkLocalUnicast() {
				own[a.Masked()] = true
				if a.Bits() < minSubnetBits { // a prefix this short is a mistake, but the address itself is the host's
					a = netip.PrefixFrom(a.Addr(), a.Addr().BitLen())
				}
				out = append(out, HostPrefix{Prefix: a, Link: i.Name, Address: true})
			}
		}
		for _, r := range i.Routes {
			direct := !r.Via.IsValid()
			if direct && own[r.Dst] || r.Dst.Bits() < minSubnetBits || r.Dst.Addr().IsLinkLocalUnicast() ||
				r.Dst.Addr().IsLoopback() {
				continue
			}
			out = append(out, HostPrefix{Prefix: r.Dst, Link: i.Name, Via: r.Via, Wide: direct && i.PointToPoint})
		}
	}
	return out
}

// minSubnetBits is the prefix length of the largest subnet that a network may have (docs/configuration.md).
const minSubnetBits = 8

// Overlap is what the host has in the subnet of one network.
type Overlap struct {
	Subnet netip.Prefix // the compared subnet; invalid for a network without one
	// Clash names addresses and connected routes of the host that overlap the subnet: each of these addresses has two
	// owners. "" for none.
	Clash string
	// Hidden names routes through a gateway of which the subnet covers a part. "" for none.
	Hidden string
	// Subnet6 is the compared subnet of IPv6, invalid for a network without one, and Clash6 what overlaps it, "" for
	// nothing. It withdraws nothing: a neighbour of an uplink may advertise any prefix.
	Subnet6 netip.Prefix
	Clash6  string
}

// Withdrawn returns why a network with this overlap is kept off the host, "" if it is not.
func (o Overlap) Withdrawn() string {
	if o.Clash == "" {
		return ""
	}
	return fmt.Sprintf("subnet %s overlaps %s", o.Subnet, o.Clash)
}

// Warning returns the overlap that the network works in spite of.
func (o Overlap) Warning() string {
	var texts []string
	if o.Hidden != "" {
		texts = append(texts, fmt.Sprintf("subnet %s hides a part of %s", o.Subnet, o.Hidden))
	}
	if o.Clash6 != "" {
		texts = append(texts, fmt.Sprintf("subnet %s hides %s", o.Subnet6, o.Clash6))
	}
	return strings.Join(texts, "; ")
}

// maxNamed is how many prefixes an Overlap names; it counts the others.
const maxNamed = 4

// With compares a subnet with the host's prefixes. A connected route is a clash, as its destinations are neighbours of
// the host. A route on a link without neighbours that is wider than the subnet still leads to its other destinations,
// as a route through a gateway does.
func With(subnet netip.Prefix, host []HostPrefix) Overlap {
	o := Overlap{Subnet: subnet}
	if !subnet.IsValid() {
		return o
	}
	var clash, hidden []HostPrefix
	for _, p := range host {
		if !p.Prefix.Overlaps(subnet) {
			continue
		}
		if p.Via.IsValid() || p.Wide && p.Prefix.Bits() < subnet.Bits() {
			hidden = append(hidden, p)
		} else {
			clash = append(clash, p)
		}
	}
	if clash != nil {
		o.Clash = listed(clash)
	}
	if hidden != nil {
		o.Hidden = listed(hidden)
	}
	return o
}

func listed(ps []HostPrefix) string {
	slices.SortFunc(ps, func(a, b HostPrefix) int {
		switch {
		case a.Address && !b.Address:
			return -1
		case b.Address && !a.Address:
			return 1
		}
		return strings.Compare(a.String(), b.String())
	})
	var names []string
	for _, p := range ps[:min(len(ps), maxNamed)] {
		names = append(names, p.String())
	}
	s := strings.Join(names, ", ")
	if more := len(ps) - maxNamed; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// Subnets are those of one network, invalid ones for none.
type Subnets struct{ IPv4, IPv6 netip.Prefix }

// Of compares the subnets of many networks, in their order.
func Of(networks []Subnets, host []HostPrefix) []Overlap {
	four, six := make([]netip.Prefix, len(networks)), make([]netip.Prefix, len(networks))
	for i, s := range networks {
		four[i], six[i] = s.IPv4, s.IPv6
	}
	out, more := compare(four, host), compare(six, host)
	for i, o := range more {
		out[i].Subnet6, out[i].Clash6 = o.Subnet, o.Clash
	}
	return out
}

// compare compares many subnets, in their order. It searches the host's prefixes once per prefix length, so that
// hundreds of networks and interfaces take milliseconds.
func compare(subnets []netip.Prefix, host []HostPrefix) []Overlap {
	wide := map[netip.Prefix][]HostPrefix{} // by the prefix itself
	sorted := slices.Clone(host)
	slices.SortFunc(sorted,
		func(a, b HostPrefix) int { return a.Prefix.Masked().Addr().Compare(b.Prefix.Masked().Addr()) })
	for _, p := range sorted {
		wide[p.Prefix.Masked()] = append(wide[p.Prefix.Masked()], p)
	}
	out := make([]Overlap, len(subnets))
	for i, s := range subnets {
		var near []HostPrefix
		for bits := range max(s.Bits(), 0) { // prefixes that contain it
			above, _ := s.Addr().Prefix(bits)
			near = append(near, wide[above]...)
		}
		if s.IsValid() { // prefixes that begin in it
			from, _ := slices.BinarySearchFunc(sorted, s.Addr(),
				func(p HostPrefix, a netip.Addr) int { return p.Prefix.Masked().Addr().Compare(a) })
			for _, p := range sorted[from:] {
				if !s.Contains(p.Prefix.Masked().Addr()) {
					break
				}
				if p.Prefix.Bits() >= s.Bits() { // shorter ones were found above
					near = append(near, p)
				}
			}
		}
		out[i] = With(s, near)
	}
	return out
}
