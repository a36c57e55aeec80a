package netinst

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
)

// Adapter is an active adapter with its lease.
type Adapter struct {
	Config AppAdapterConfig
	Lease  Lease
	// Seen are the addresses that the app of a switch network was observed to use.
	Seen []netip.Addr
}

// Input is everything that determines the desired state of one network.
type Input struct {
	Owner    netstate.Owner
	Config   NetworkInstanceConfig
	Adapters []Adapter    // the active ones, in any order
	Ports    []PortStatus // all ports of the node
	RunDir   string       // absolute path of the run directory, as in dnsmasq's arguments
	// Overlap has the host's own prefixes in the subnet: a clash withdraws the network.
	Overlap overlap.Overlap
	// MaxTracked is the machine's limit of tracked flows (nf_conntrack_max), 0 if unknown.
	MaxTracked int
	// MTU is the network's current MTU, 0 for none. It is kept while the config names a port and none is usable.
	MTU int
}

// Desired is the desired host state of a network, and the objects that each adapter needs to be activated. Port is the
// label of the port in use, "" without one; PortError is why there is none although the config names one, or why it
// leads nowhere. Withdrawn is the clash that keeps the network off the host. Warning names the static routes that
// cannot be applied now, with the reasons, and the routes of the host that the subnet hides.
type Desired struct {
	State     netstate.State
	ByAdapter map[AdapterKey][]netstate.ID
	Port      string
	PortError string
	Withdrawn string
	Warning   string
	MTU       int
	Parts     []Part // the tunnels and members, in the config's order
}

// network is an Input with what is derived from it once.
type network struct {
	Input
	n      int
	bridge IfName
	port   *PortStatus  // nil without one
	ports  []PortStatus // in use: port and those that static routes name, by label
	mtu    int
	// withdrawn is why nothing of the network may be visible outside its bridge: no address, route, rule or process, and
	// no chain that filters or changes packets of others.
	withdrawn string
}

// DesiredState returns the complete desired host state of one network. It depends only on its input, and not on the
// order of adapters, ports or routes.
func DesiredState(in Input) Desired {
	nw, why := newNetwork(in)
	d := Desired{
		State: netstate.State{}, ByAdapter: map[AdapterKey][]netstate.ID{}, PortError: why, Withdrawn: nw.withdrawn,
		Warning: joinTexts(nw.routeFaults(), nw.dnsFault(), in.Overlap.Warning()), MTU: nw.mtu,
	}
	if nw.port != nil {
		d.Port = nw.port.Label
	}
	d.State.Add(nw.links()...)
	parts, objs := nw.parts()
	d.Parts = parts
	d.State.Add(objs...)
	for _, c := range nw.chains() {
		d.State.Add(c)
	}
	switch {
	case nw.isSwitch():
	case nw.withdrawn != "": // its links, their chains and dnsmasq's files stay: they are harmless
		d.State.Add(nw.files()...)
	default:
		d.State.Add(nw.address())
		d.State.Add(nw.routing()...)
		d.State.Add(nw.files()...)
		d.State.Add(nw.dnsmasq())
	}
	for _, a := range nw.Adapters {
		d.ByAdapter[a.Config.Key()] = nw.idsOf(a)
	}
	return d
}

// routing returns the objects that lead packets into the network and out of it: forwarding, its route table and the
// policy rules for that table. An inactive network has none.
func (nw network) routing() []netstate.Object {
	if nw.Config.Inactive {
		return nil
	}
	return slices.Concat([]netstate.Object{nw.forwards()}, nw.routes(), nw.rules())
}

func newNetwork(in Input) (network, string) {
	in.Adapters = slices.Clone(in.Adapters)
	if in.Config.Inactive {
		in.Adapters = nil
	}
	slices.SortFunc(in.Adapters, func(a, b Adapter) int { return a.Lease.Number - b.Lease.Number })
	nw := network{Input: in, n: in.Owner.Number, bridge: BridgeName(in.Owner.Number)}
	p, why := ChoosePort(in.Config.Port, in.Ports)
	if nw.isSwitch() {
		p, why = switchPort(in.Config.Port, in.Ports)
	}
	used := map[string]PortStatus{}
	if p.Label != "" {
		nw.port, why = &p, p.UnusableReason()
		used[p.Label] = p
	}
	for _, r := range in.Config.Routes {
		if q, _ := nw.portOf(r); r.Port != "" && q.Label != "" {
			used[q.Label] = q
		}
	}
	for _, l := range slices.Sorted(maps.Keys(used)) {
		nw.ports = append(nw.ports, used[l])
	}
	nw.mtu = nw.chooseMTU()
	if slices.ContainsFunc(nw.Adapters, func(a Adapter) bool { return a.Config.UnderlayConfig.Kind == Tap }) {
		nw.mtu = min(nw.mtu, MaxTapMTU)
	}
	if nw.withdrawn = in.Overlap.Withdrawn(); nw.isSwitch() {
		nw.withdrawn = ""
	}
	if nw.withdrawn != "" { // traffic leaves by no port; the links keep their MTU
		nw.port, nw.ports = nil, nil
	}
	if in.Config.Inactive { // its DNS server still sends queries through the port
		nw.ports = nil
	}
	return nw, why
}

// defaultMTU is Ethernet's (RFC 894).
const defaultMTU = 1500

// MaxTapMTU is the largest MTU of a tap device: 65,535 octets less the head of a frame (drivers/net/tun.c,
// tun_net_initialize). It limits all links of a network with a tap: a bridge passes no frame that is too long for the
// port it leaves by.
const MaxTapMTU = 65535 - 14

// chooseMTU returns the MTU of the network's links and of DHCP's option 26: the configured one, else that of the port
// in use if it has an address. A port that goes away does not change the MTU: apps keep talking to each other and to
// the next port. Only a network without an MTU uses that of a port without an address.
func (nw network) chooseMTU() int {
	switch {
	case nw.Config.MTU != 0:
		return nw.Config.MTU
	case nw.port != nil && (nw.isSwitch() || nw.MTU == 0 || nw.port.rank() < rankNothing):
		return cmp.Or(nw.port.mtu(), defaultMTU)
	case nw.Config.Port == "":
		return defaultMTU
	case nw.MTU != 0:
		return nw.MTU
	}
	return cmp.Or(expectedPort(nw.Config.Port, nw.Ports).mtu(), defaultMTU)
}

// hostIfName returns the name of the host's side of an adapter.
func (nw network) hostIfName(a Adapter) IfName {
	return HostSide(nw.n, a.Lease.Number, a.Config.UnderlayConfig)
}

// HostSide returns the name of the host's side of an adapter: the configured one, or that of the adapter's number.
func HostSide(n, number int, u UnderlayNetworkConfig) IfName {
	if u.HostIfName != "" && u.Kind != Veth {
		return u.HostIfName
	}
	return HostIfName(n, number)
}

func (nw network) uuid() string { return nw.Config.UUID.String() }

// links returns the bridge, the adapters' links, and their running states.
func (nw network) links() []netstate.Object {
	br := string(nw.bridge)
	objs := []netstate.Object{
		netstate.Link{
			Name: br, Type: netstate.Bridge, MAC: BridgeMAC(nw.Config.UUID), MTU: nw.mtu,
			Alias: BridgeAlias(netstate.Owner{Name: nw.uuid(), Number: nw.n}),
		},
		netstate.Port{Link: br},
	}
	guard := nw.sharedChainIDs()
	if p := nw.enslaved(); p != "" {
		objs = append(objs, netstate.Port{Link: p, Master: br, Foreign: true, After: guard})
	}
	for _, a := range nw.Adapters {
		link, foreign := nw.link(a)
		if !foreign {
			objs = append(objs, link)
		}
		objs = append(objs, netstate.Port{
			Link: link.Name, Master: br, Foreign: foreign, After: append(nw.adapterChainIDs(a), guard...),
		})
	}
	return objs
}

// link returns an adapter's link on the host; foreign means that another program creates it.
func (nw network) link(a Adapter) (l netstate.Link, foreign bool) {
	k, u := a.Config.Key(), a.Config.UnderlayConfig
	l = netstate.Link{Name: string(nw.hostIfName(a)), MAC: hostSideMAC(k, nw.Config.UUID), MTU: nw.mtu}
	switch u.Kind {
	case External:
		return l, true
	case Tap:
		l.Type, l.Alias = netstate.Tap, nw.tapAlias(a)
	default:
		peer := netstate.Peer{Netns: u.Netns, Name: string(u.IfName), MAC: a.Lease.MAC, MTU: nw.mtu}
		l.Type, l.Alias, l.Peer = netstate.Veth, nw.vethAlias(k, peer), &peer
	}
	return l, false
}

// tapAlias is the mark of ownership on a tap device, whose name is free: the name that edgespan would have chosen
// identifies its network and adapter.
func (nw network) tapAlias(a Adapter) string {
	return fmt.Sprintf("%s%s adapter %s link=%s", aliasPrefix, nw.uuid(), a.Config.Key(), HostIfName(nw.n, a.Lease.Number))
}

func (nw network) address() netstate.Address {
	c := nw.Config.IPv4
	return netstate.Address{Link: string(nw.bridge), Prefix: netip.PrefixFrom(c.Gateway, c.Subnet.Bits()).String()}
}

// maxAlias is the kernel's limit for an alias, in octets (IFALIASZ less the final zero).
const maxAlias = 255

// vethAlias is the mark of ownership of an adapter's link, with the attributes given to its peer.
func (nw network) vethAlias(k AdapterKey, p netstate.Peer) string {
	m := netstate.VethMark{NI: nw.uuid(), Adapter: k.String(), Netns: p.Netns, Peer: p.Name, MAC: p.MAC, MTU: p.MTU}
	if s := m.String(); len(s) <= maxAlias {
		return s
	}
	m.Netns = "sha256:" + digest(p.Netns)
	return m.String()
}

// idsOf lists the objects that exist for one adapter.
func (nw network) idsOf(a Adapter) []netstate.ID {
	name := string(nw.hostIfName(a))
	ids := []netstate.ID{{Kind: netstate.KindPort, Name: name}}
	if a.Config.UnderlayConfig.Kind != External {
		ids = append(ids, netstate.ID{Kind: netstate.KindLink, Name: name})
	}
	ids = append(ids, nw.adapterChainIDs(a)...)
	if nw.isSwitch() {
		return ids
	}
	ids = append(ids, netstate.ID{Kind: netstate.KindFile, Name: nw.dhcpHostPath(a.Config.Key())})
	if a.Config.UnderlayConfig.Hostname != "" {
		ids = append(ids, netstate.ID{Kind: netstate.KindFile, Name: nw.hostsPath(string(a.Config.UnderlayConfig.Hostname))})
	}
	return ids
}
