package netstate

import (
	"net/netip"
	"time"
)

// Interface is a foreign interface of the host, as the kernel reports it.
type Interface struct {
	Name  string
	Index int  // the kernel's interface index
	Up    bool // administratively up, with carrier
	MTU   int
	// PointToPoint means that it has no neighbours to resolve by ARP, only another end (IFF_POINTOPOINT, IFF_NOARP).
	PointToPoint bool
	Addresses    []netip.Prefix
	// DefaultRoutes are its default routes in the main table, of both families, best metric first.
	DefaultRoutes []DefaultRoute
	// Routes are its IPv4 unicast routes in the main table without default routes: at most MaxHostRoutes of all
	// interfaces, those without a gateway first.
	Routes []HostRoute
	// DNS is what other programs have learnt of DNS servers for it, the best source first.
	DNS []DNSSource
}

// DefaultRoute is a default route through one interface (route(8), RTA_* of rtnetlink(7)).
type DefaultRoute struct {
	IPv6 bool
	// Gateway is invalid if the route leads only to the interface, as on a point-to-point link. An IPv4 route may have an
	// IPv6 gateway (RFC 5549).
	Gateway netip.Addr
	OnLink  bool // the gateway is a neighbour, regardless of the interface's subnets
	Metric  int
}

// DNSSource is one file in which another program stores DNS servers.
type DNSSource struct {
	Program string // such as "systemd-networkd"
	Path    string
	Link    bool         // for one interface; otherwise for the whole host
	Lease   netip.Addr   // the address assigned with them; invalid: unknown
	Servers []netip.Addr // as in the file
	Own     []netip.Addr // Servers that are addresses of this host
	Skipped string       // what was skipped and why, "" for nothing
}

// DefaultVia returns the default route through a gateway.
func DefaultVia(gateway netip.Addr) DefaultRoute {
	return DefaultRoute{IPv6: gateway.Is6(), Gateway: gateway}
}

// String formats the route as ip-route(8) does, without its metric.
func (r DefaultRoute) String() string {
	switch {
	case !r.Gateway.IsValid():
		return "without gateway"
	case r.OnLink:
		return "via " + r.Gateway.String() + " onlink"
	}
	return "via " + r.Gateway.String()
}

// Loopback is the loopback interface. It is listed for its addresses and is never a port.
const Loopback = "lo"

// MaxHostRoutes bounds the routes of all Interfaces together: a router has a million.
const MaxHostRoutes = 4096

// HostEvent is an event of a host watcher. It carries whole values, never deltas, so that the next event makes up for a
// lost one.
type HostEvent struct {
	Resync      bool        // first event, or events were lost: everything may have changed
	Interfaces  []Interface // every foreign interface, by name; nil if unchanged
	Forwarding  *Forwarding // nil if unchanged
	MaxTracked  *int        // nf_conntrack_max; 0 if unknown, nil if unchanged
	Touched     []int       // numbers of network instances of which an object changed
	Links       []LinkTouch // links of adapters that changed, and foreign links in edgespan's bridges
	Namespaces  bool        // a network namespace or a foreign link appeared or disappeared
	HostRouting bool        // an address of the host, or a route of its own tables, may have changed
	Ended       []int       // numbers of network instances of which a process exited by itself
	At          time.Time   // when the last part of it was received; zero: now
	Host        bool        // an object of the host state changed
	Filter      bool        // chains and tables of any owner may have changed
}

// LinkTouch is a change of the attributes of one adapter's link that edgespan sets; Name is "" for a foreign link in
// the network's bridge. The carrier of the link belongs to the app and is not reported.
type LinkTouch struct {
	Number int // of the network instance
	Name   string
}
