package netstate

import (
	"net/netip"
	"time"
)

// Interface is a foreign interface of the host as the kernel shows it.
type Interface struct {
	Name  string
	Index int  // the kernel's number of it
	Up    bool // administratively up with carrier
	MTU   int
	// PointToPoint: it has no neighbours to ask by ARP, only another end (IFF_POINTOPOINT, IFF_NOARP).
	PointToPoint bool
	Addresses    []netip.Prefix
	// DefaultRoutes are those through it in the main table, of both families, best metric first.
	DefaultRoutes []DefaultRoute
	// Routes are the IPv4 unicast routes through it in the main table, default routes left
	// out: at most MaxHostRoutes of all interfaces, those without a gateway first.
	Routes []HostRoute
	// DNS is what other programs have learnt of DNS servers for it, the source that knows
	// best first.
	DNS []DNSSource
}

// DefaultRoute is a default route through one interface (route(8), RTA_* of rtnetlink(7)).
type DefaultRoute struct {
	IPv6 bool
	// Gateway is invalid where the route leads to the interface alone, as that of a
	// point-to-point link does. One of an IPv4 route may be an IPv6 address (RFC 5549).
	Gateway netip.Addr
	OnLink  bool // the gateway is a neighbour, whatever subnets the interface has
	Metric  int
}

// DNSSource is one file in which another program keeps the DNS servers that it knows.
type DNSSource struct {
	Program string // as "systemd-networkd"
	Path    string
	Link    bool         // it is of one interface; else of the host as a whole
	Lease   netip.Addr   // the address that was given with them; invalid: not known
	Servers []netip.Addr // as they stand there
	Own     []netip.Addr // those of Servers that are addresses of this host
	Skipped string       // what of it was not used and why, "" for nothing
}

// DefaultVia is the default route by a gateway.
func DefaultVia(gateway netip.Addr) DefaultRoute {
	return DefaultRoute{IPv6: gateway.Is6(), Gateway: gateway}
}

// String is the route as ip-route(8) spells it, without its metric.
func (r DefaultRoute) String() string {
	switch {
	case !r.Gateway.IsValid():
		return "without gateway"
	case r.OnLink:
		return "via " + r.Gateway.String() + " onlink"
	}
	return "via " + r.Gateway.String()
}

// Loopback is the loopback interface. It is listed for its addresses; it is never a port.
const Loopback = "lo"

// MaxHostRoutes bounds the routes of all Interfaces together: a router has a million.
const MaxHostRoutes = 4096

// HostEvent is what a host watcher tells: always whole values, never deltas, so
// that a lost event costs nothing once the next one comes.
type HostEvent struct {
	Resync     bool        // first event, or events were lost: everything may have changed
	Interfaces []Interface // every foreign interface by name; nil when unchanged
	Forwarding *Forwarding // nil when unchanged
	MaxTracked int         // nf_conntrack_max, beside Interfaces; 0 if it is not known
	Touched    []int       // network instance numbers one of whose objects changed
	Links      []LinkTouch // links of adapters that changed, and links of others in bridges of ours
	Namespaces bool        // a network namespace or a foreign link appeared or went
	Underlay   bool        // an address of the host, or a route of its own tables, may have come or gone
	Ended      []int       // network instance numbers one of whose processes ended by itself
	At         time.Time   // when the last of it was heard of; zero: now
	Host       bool        // one of host's own objects changed
	Filter     bool        // chains and tables of whichever owner may have changed
}

// LinkTouch is a change of what we own of one adapter's link, Name "" of a link of others in
// the network's bridge. The link's carrier is the app's and no change.
type LinkTouch struct {
	Number int // of the network instance
	Name   string
}
