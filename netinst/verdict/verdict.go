package verdict

import (
	"net/netip"
	"slices"

	"edgespan/netinst"
)

// IP protocol numbers.
const (
	ICMP = 1
	TCP  = 6
	UDP  = 17
)

// EchoRequest is the type of ICMP that ping sends.
const EchoRequest = 8

// Place is where a packet comes from or goes to.
type Place string

// The places.
const (
	App     Place = "app"
	Node    Place = "node"    // the host itself
	Outside Place = "outside" // behind a port
	// Segment is every station of a network's bridge, for a broadcast, a multicast, or an address that no app is known to
	// have.
	Segment Place = "segment"
)

// Packet is the first packet of a flow. An invalid Src is the sender's own address: the adapter's, or for the node the
// gateway's of the network it sends to.
type Packet struct {
	From Place
	// Adapter is the sender, of App. Of others it is the receiver, if the address is not enough to say which one is meant.
	Adapter          netinst.AdapterKey
	Port             string // of Outside: the label of the port by which it arrives
	Src, Dst         netip.Addr
	Proto            uint8
	SrcPort, DstPort uint16 // tcp and udp
	ICMPType         uint8  // icmp and icmpv6
	// Name is the one by which the remote end was looked up, "" for none. Without a Dst, nothing else is known of it.
	Name netinst.Hostname

	mapped uint16 // the port of the node to which it was sent, of a packet that a port map has led to an app
}

// Verdict is what becomes of a packet.
type Verdict string

// The verdicts. A packet that is translated is allowed, and arrives with another source or destination.
const (
	Allow     Verdict = "allow"
	Deny      Verdict = "deny"
	Translate Verdict = "translate"
)

// Check is one decision on the way of a packet. Either Rule or BuiltIn says who took it.
type Check struct {
	Adapter   netinst.AdapterKey // whose rules; zero if the check is not one adapter's
	Direction netinst.Direction  // of these rules
	Rule      string             // the name of the rule that matched; "" for a built-in check
	BuiltIn   BuiltIn
	Allows    bool
	Limit     netinst.RateLimit // of a rule with action limit, which allows this many
	// Observed means that the adapter's rules would deny it, or of a limit what exceeds it, and that it is allowed because
	// the adapter has observe.
	Observed bool
	// Depends are rules before the one that decided that would decide if DNS had given the remote end's address for their
	// host, or, if only its name is known, if they had its address.
	Depends []string
}

// BuiltIn is a decision that no rule of the config takes.
type BuiltIn string

// The built-in decisions.
const (
	Essentials      BuiltIn = "essentials"
	ImplicitDrop    BuiltIn = "implicit-drop"
	SpoofGuard      BuiltIn = "spoof-guard"
	DHCPGuard       BuiltIn = "dhcp-guard"
	OtherNetwork    BuiltIn = "other-network"
	NotActive       BuiltIn = "not-active"
	NoAdapter       BuiltIn = "no-adapter"
	OwnAddress      BuiltIn = "own-address"
	NoRoute         BuiltIn = "no-route"
	NotRoutable     BuiltIn = "not-routable"
	Untranslatable  BuiltIn = "untranslatable"
	HiddenGateway   BuiltIn = "hidden-gateway"
	PortNotUsed     BuiltIn = "port-not-used"
	ForgedSource    BuiltIn = "forged-source"
	NotForNetworks  BuiltIn = "not-for-networks"
	HostsOwn        BuiltIn = "host"
	WithdrawnSubnet BuiltIn = "withdrawn"
	MixedVersions   BuiltIn = "mixed-versions"
	NoIPv6          BuiltIn = "no-ipv6"
	HidingHeader    BuiltIn = "hiding-header"
	ICMP6Guard      BuiltIn = "icmpv6-guard"
	Multicast       BuiltIn = "multicast"
	LinkLocal       BuiltIn = "link-local"
	OwnMap          BuiltIn = "own-portmap"
	MayOverlap      BuiltIn = "may-overlap"
	OtherVLAN       BuiltIn = "other-vlan"
)

var texts = map[BuiltIn]string{
	Essentials:      "DHCP, DNS and ping to the gateway are always allowed",
	ImplicitDrop:    "no rule allows it",
	SpoofGuard:      "the spoof guard drops source addresses other than the adapter's own",
	DHCPGuard:       "an app may send only its own requests to the ports of DHCP",
	OtherNetwork:    "networks of one node do not reach each other",
	NotActive:       "the adapter is not active",
	NoAdapter:       "no active adapter has this address",
	OtherVLAN:       "the adapter that has this address is in another VLAN",
	OwnAddress:      "it is the adapter's own address: the packet stays in the app",
	NoRoute:         "the network has no route to it",
	NotRoutable:     "no host can have this address",
	Untranslatable:  "the source address is not in the network's subnet, so that it can't be translated",
	HiddenGateway:   "a network's gateway is hidden from other interfaces",
	PortNotUsed:     "the network does not use this port",
	ForgedSource:    "the source address belongs to a network of the node, or to the node",
	NotForNetworks:  "it is for no network, and the host did not forward between its interfaces before",
	HostsOwn:        "the host's own firewall decides: the packet is from or to the node, and concerns no network",
	WithdrawnSubnet: "the network is withdrawn: its subnet overlaps one of the host",
	MixedVersions:   "its source and its destination are of different versions of IP",
	NoIPv6:          "the network has no IPv6",
	HidingHeader:    "an app may not send IPv6 extension headers that hide what follows",
	ICMP6Guard:      "of ICMPv6 an app may send only ping, errors and its own neighbour discovery",
	Multicast:       "IPv6 multicast other than neighbour discovery does not pass",
	LinkLocal:       "link-local addresses are for neighbour discovery and the gateway alone",
	OwnMap:          "an app does not reach itself by its own port map",
	MayOverlap: "other networks may have the subnet: nothing outside reaches it, and the node answers DHCP, DNS and " +
		"ping to the gateway alone",
}

// Text explains a built-in decision.
func (b BuiltIn) Text() string { return texts[b] }

// Route is the way on which a packet leaves for a remote end that is not the node.
type Route struct {
	Name        string // of a static route; "" for one that follows from the network or its port
	Destination netip.Prefix
	Gateway     netip.Addr // invalid: on link
	Port        string     // label; "" inside the network
	Shared      []string   // labels of further ports that new flows are spread over
}

// Answer is what becomes of a packet. The last of Checks decided.
type Answer struct {
	Verdict Verdict
	Checks  []Check
	To      Place              // of a packet that is not denied
	Adapter netinst.AdapterKey // of App
	Route   *Route             // nil: none is needed
	Src     netip.Addr         // the source address with which it arrives; of a port without address invalid
	NATPort string             // of Translate: the port whose address Src is
	// Dst and DstPort are where a port map leads it, zero for a packet of no map.
	Dst     netip.Addr
	DstPort uint16
}

// Allowed reports whether the packet arrives, translated or not.
func (a Answer) Allowed() bool { return a.Verdict != Deny }

// Decided returns the check that decided.
func (a Answer) Decided() Check { return a.Checks[len(a.Checks)-1] }

// World is all that answers depend on.
type World struct {
	networks []*network
	lengths  []int // of subnets' prefixes
	subnets  map[netip.Prefix]*network
	shared   map[netip.Prefix]*network // one of the networks with mayOverlap that have the subnet
	members  map[netinst.AdapterKey]*network
	own      map[netip.Addr]bool // the node's own addresses, without those of the networks' gateways
	gateways map[netip.Addr]*network
	ports    map[string]*netinst.PortStatus
	maps     map[netip.Addr][]portMap // by address of the node
}

// network is one network instance as packets meet it.
type network struct {
	netinst.Input
	withdrawn bool
	byIP      map[netip.Addr]*netinst.Adapter
	byKey     map[netinst.AdapterKey]*netinst.Adapter
	routes    []way
	uses      map[string]bool // labels of the ports that it uses
	uses6     map[string]bool // of those that its IPv6 uses
	hasIPv6   bool
	world     *World
}

// New returns a world of these networks, which have the same ports. Host are further addresses of the node.
func New(inputs []netinst.Input, host []netip.Addr) *World {
	w := &World{subnets: map[netip.Prefix]*network{}, shared: map[netip.Prefix]*network{},
		members: map[netinst.AdapterKey]*network{},
		own:     map[netip.Addr]bool{}, gateways: map[netip.Addr]*network{}, ports: map[string]*netinst.PortStatus{},
		maps: map[netip.Addr][]portMap{}}
	for _, a := range host {
		w.own[a] = true
	}
	for _, in := range inputs {
		in = netinst.ThroughTunnel(in)
		n := &network{Input: in, world: w, withdrawn: in.Config.Type != netinst.Switch && in.Overlap.Clash != "",
			byIP: map[netip.Addr]*netinst.Adapter{}, byKey: map[netinst.AdapterKey]*netinst.Adapter{},
			uses: map[string]bool{}, uses6: map[string]bool{}}
		w.networks = append(w.networks, n)
		n.readAdapters()
		n.readRoutes()
		if subnet := in.Config.IPv4.Subnet; subnet.IsValid() && !n.withdrawn {
			w.addSubnet(n)
			w.lengths = append(w.lengths, subnet.Bits())
		}
		for i, p := range in.Ports {
			w.ports[p.Label] = &in.Ports[i]
			for _, a := range p.Addresses {
				w.own[a.Addr()] = true
			}
		}
	}
	w.readMaps()
	slices.Sort(w.lengths)
	w.lengths = slices.Compact(w.lengths)
	return w
}

func (n *network) isSwitch() bool { return n.Config.Type == netinst.Switch }

// readAdapters indexes the active adapters. On a switch network an address is one that the app was observed to use.
func (n *network) readAdapters() {
	for i := range n.Adapters {
		a := &n.Adapters[i]
		key := a.Config.Key()
		n.world.members[key] = n
		if n.Config.Inactive {
			continue
		}
		n.byKey[key] = a
		if !n.isSwitch() {
			n.byIP[a.Lease.IP] = a
			continue
		}
		for _, addr := range a.ObservedAddresses {
			n.byIP[addr] = a
		}
	}
}

// addSubnet enters a network's subnet and gateway. Of several with one subnet, the one without mayOverlap counts.
func (w *World) addSubnet(n *network) {
	subnets, gateway := w.subnets, n.Config.IPv4.Gateway
	if n.mayOverlap() {
		subnets = w.shared
		if number := n.Owner.Number; number > 0 {
			w.gateways[netinst.AnswerAddr(number)] = n
		}
	}
	subnets[n.Config.IPv4.Subnet.Masked()] = n
	if w.gateways[gateway] == nil || !n.mayOverlap() {
		w.gateways[gateway] = n
	}
}

func (n *network) mayOverlap() bool { return n.Config.IPv4.MayOverlap }

// subnetOf returns the network in whose subnet an address is, nil for none: one without mayOverlap first.
func (w *World) subnetOf(a netip.Addr) *network {
	for _, subnets := range []map[netip.Prefix]*network{w.subnets, w.shared} {
		for _, bits := range w.lengths {
			if p, err := a.Prefix(bits); err == nil && subnets[p] != nil {
				return subnets[p]
			}
		}
	}
	return nil
}

// AddressOf returns the address of an adapter; invalid if it is not active or has none.
func (w *World) AddressOf(key netinst.AdapterKey) netip.Addr {
	n := w.members[key]
	if n == nil || n.byKey[key] == nil {
		return netip.Addr{}
	}
	return n.addressOf(n.byKey[key])
}

// Address6Of is AddressOf for IPv6.
func (w *World) Address6Of(key netinst.AdapterKey) netip.Addr {
	n := w.members[key]
	if n == nil || n.byKey[key] == nil || !n.passes6() {
		return netip.Addr{}
	}
	return n.address6Of(n.byKey[key])
}

// addressOf returns an adapter's own address: on a switch network the lowest that was observed.
func (n *network) addressOf(a *netinst.Adapter) netip.Addr {
	if !n.isSwitch() {
		return a.Lease.IP
	}
	return lowest(a.ObservedAddresses, netip.Addr.Is4)
}

// lowest returns the lowest address of a kind, invalid for none.
func lowest(list []netip.Addr, kind func(netip.Addr) bool) (low netip.Addr) {
	for _, a := range list {
		if kind(a) && (!low.IsValid() || a.Less(low)) {
			low = a
		}
	}
	return low
}

// Evaluate answers what becomes of a packet.
func (w *World) Evaluate(p Packet) Answer {
	switch {
	case !p.Dst.IsValid() && p.Name != "" && p.From == App:
		return w.toName(p)
	case p.Src.IsValid() && p.Dst.Is4() != p.Src.Is4():
		return deny(MixedVersions)
	case p.Dst.Is6() && p.From == App:
		return w.fromApp6(p)
	case p.Dst.Is6() && p.From == Node:
		return w.deliver(p)
	case p.Dst.Is6():
		return w.fromOutside6(p)
	case p.From == App:
		return w.fromApp(p)
	case p.From == Node:
		return w.fromNode(p)
	}
	return w.fromOutside(p)
}

// deny is the answer of a built-in check, after others that allowed the packet.
func deny(why BuiltIn, after ...Check) Answer {
	return Answer{Verdict: Deny, Checks: append(after, Check{BuiltIn: why})}
}

func denied(checks ...Check) Answer { return Answer{Verdict: Deny, Checks: checks} }
