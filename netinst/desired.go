package netinst

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
)

// Adapter is an active adapter with its lease.
type Adapter struct {
	Config AppAdapterConfig
	Lease  Lease
	// ObservedAddresses are the addresses that the app of a switch network was observed to use.
	ObservedAddresses []netip.Addr
}

// Input is everything that determines the desired state of one network.
type Input struct {
	Owner    netstate.Owner
	Config   NetworkInstanceConfig
	Adapters []Adapter    // the active ones, in any order
	Ports    []PortStatus // all ports of the node
	Uplinks
	RunDir string // absolute path of the run directory, as in dnsmasq's arguments
	// Overlap has the host's own prefixes in the subnet. One that makes the subnet unusable is a clash: the network is
	// withdrawn, which means kept off the host outside its own bridge. (To withdraw a status or a config is something
	// else: to remove it from its topic.)
	Overlap overlap.Overlap
	// MaxTracked is the machine's limit of tracked flows (nf_conntrack_max), 0 if unknown.
	MaxTracked int
	// MTU is the network's current MTU, 0 for none. It is kept while the config names a port and none is usable.
	MTU int
	// Assigned is what the other end of the tunnel has assigned, of a network of type vpn.
	Assigned Assigned
	// Observed is the state before an apply and Changed the chains that it has changed, both for DeniesFlow alone.
	Observed netstate.State
	Changed  map[netstate.ID]bool
}

// Desired is the desired host state of a network, and the objects that each adapter needs to be activated. Port is the
// label of the port in use, "" without one; PortError is why there is none although the config names one, or why the
// port is not usable as an uplink. Withdrawn is the clash for which the network is withdrawn, "" for none. Warning
// names the static routes that cannot be applied now, with the reasons, and the routes of the host that the subnet
// hides.
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
	ports  []PortStatus // in use: port, those of shares and those that static routes name, by label
	port6  *PortStatus  // of IPv6: port, if no port has an IPv6 default route
	ports6 []PortStatus // in use by IPv6: port6 and those that its static routes name, by label
	joined []PortStatus // in the bridge of a switch, by label
	// joinFault is what is wrong with some of a switch's ports while others work.
	joinFault string
	vlans     []int      // that the bridge of a switch keeps apart, without the native one, sorted
	shares    []flowPort // over which new flows are spread, by label; none without Config.Share, or with one such port
	shares6   []flowPort // the same of IPv6
	mtu       int
	// withdrawn is why nothing of the network may be visible outside its bridge: no address, route, rule or process, and
	// no chain that filters or changes packets of others.
	withdrawn string
	under     *underlay // of the tunnel of a network of type vpn; nil without a tunnel
	// own are the addresses of hosts, in rules, that the network's DNS server answers itself.
	own map[Hostname]*AddressSet
}

// DesiredState returns the complete desired host state of one network. It depends only on its input, and not on the
// order of adapters, ports or routes.
func DesiredState(in Input) Desired {
	nw, why := newNetwork(in)
	d := Desired{
		State: netstate.State{}, ByAdapter: map[AdapterKey][]netstate.ID{}, PortError: why, Withdrawn: nw.withdrawn,
		Warning: joinTexts(nw.routeFaults(), nw.dnsFault(), nw.tunnelFault(),
			in.Overlap.Warning(), nw.ipv6Fault(), nw.joinFault), MTU: nw.mtu,
	}
	if p := nw.leavesBy(); p != nil {
		d.Port = p.Label
	}
	d.State.Add(nw.links()...)
	parts, objs := nw.parts()
	d.Parts = parts
	d.State.Add(objs...)
	d.State.Add(nw.sets()...)
	for _, c := range nw.chains() {
		d.State.Add(c)
	}
	switch {
	case nw.isSwitch():
	case nw.withdrawn != "": // its links, their chains and dnsmasq's files stay: they are harmless
		d.State.Add(nw.files()...)
	default:
		d.State.Add(nw.address())
		d.State.Add(nw.answering()...)
		if nw.hasIPv6() {
			d.State.Add(nw.addresses6()...)
		}
		d.State.Add(nw.routing()...)
		d.State.Add(nw.tunnel()...)
		d.State.Add(nw.files()...)
		d.State.Add(nw.dnsmasq())
	}
	for _, a := range nw.Adapters {
		d.ByAdapter[a.Config.Key()] = nw.idsOf(a)
	}
	return d
}

// routing returns the objects that route packets into the network and out of it: forwarding, its route table and the
// policy rules for that table. An inactive network has none.
func (nw network) routing() []netstate.Object {
	if nw.Config.Inactive {
		return nil
	}
	objs := slices.Concat(nw.forwards(), nw.routes(), nw.rules(), nw.flowRouting(false), nw.flowRouting(true))
	if nw.hasIPv6() {
		objs = append(objs, nw.routing6()...)
	}
	return objs
}

// newNetwork derives a network from its input, and returns the PortError of its Desired.
func newNetwork(in Input) (network, string) {
	in.Adapters = slices.Clone(in.Adapters)
	if in.Config.Inactive {
		in.Adapters = nil
	}
	slices.SortFunc(in.Adapters, func(a, b Adapter) int { return a.Lease.Number - b.Lease.Number })
	in.Ports = slices.Clone(in.Ports)
	slices.SortFunc(in.Ports, func(a, b PortStatus) int { return cmp.Compare(a.Label, b.Label) })
	in, under := throughTunnel(in)
	nw := network{Input: in, n: in.Owner.Number, bridge: BridgeName(in.Owner.Number), under: under}
	p, why := in.choose(in.Config.Port)
	if nw.isSwitch() {
		p, why = nw.join()
	}
	if p.Label != "" {
		nw.port, why = &p, p.UnusableReason()
	}
	if under != nil {
		why = under.why
	}
	nw.vlans = nw.usedVLANs()
	nw.port6 = nw.port
	if q, _ := in.choose6(in.Config.Port); nw.port != nil && in.Config.HasIPv6() && leadsOut6(q) {
		nw.port6 = &q
	}
	nw.shares = nw.sharedPorts(false)
	nw.own = nw.ownAddresses()
	nw.mtu = nw.chooseMTU()
	if slices.ContainsFunc(nw.Adapters, func(a Adapter) bool { return a.Config.Spec.Kind == Tap }) {
		nw.mtu = min(nw.mtu, MaxTapMTU)
	}
	nw.shares6 = nw.sharedPorts(true) // with the MTU known: a small one has no IPv6
	nw.ports, nw.ports6 = nw.usedPorts(false), nw.usedPorts(true)
	if nw.withdrawn = in.Overlap.Withdrawn(); nw.isSwitch() {
		nw.withdrawn = ""
	}
	if nw.withdrawn != "" { // traffic leaves by no port; the links keep their MTU
		nw.port, nw.ports, nw.shares = nil, nil, nil
		nw.port6, nw.ports6, nw.shares6 = nil, nil, nil
		nw.under = nil
	}
	if in.Config.Inactive { // its DNS server still sends queries through the port
		nw.ports, nw.ports6 = nil, nil
	}
	if in.Config.Inactive && under != nil { // but not without a tunnel
		nw.port, nw.port6, nw.under = nil, nil, nil
	}
	return nw, why
}

// leavesBy returns the port of the host by which the network's packets leave, through its tunnel if it has one.
func (nw network) leavesBy() *PortStatus {
	if nw.under != nil {
		return nw.under.port()
	}
	return nw.port
}

// usedPorts returns the ports that one family of the network uses, by label.
func (nw network) usedPorts(ipv6 bool) (list []PortStatus) {
	used, own := map[string]PortStatus{}, nw.port
	if ipv6 {
		own = nw.port6
	}
	if own != nil {
		used[own.Label] = *own
	}
	for _, q := range nw.sharesOf(ipv6) {
		used[q.Label] = q.PortStatus
	}
	for _, r := range nw.Config.Routes {
		if q, _ := nw.portOf(r); r.Port != "" && q.Label != "" && r.Destination.Addr().Is6() == ipv6 {
			used[q.Label] = q
		}
	}
	for _, l := range slices.Sorted(maps.Keys(used)) {
		list = append(list, used[l])
	}
	return list
}

// defaultMTU is Ethernet's (RFC 894).
const defaultMTU = 1500

// MaxTapMTU is the largest MTU of a tap device: 65,535 octets less the head of a frame (drivers/net/tun.c,
// tun_net_initialize). It limits all links of a network with a tap: a bridge passes no frame that is too long for the
// port it leaves by.
const MaxTapMTU = 65535 - 14

// chooseMTU returns the MTU of the network's links and of DHCP's option 26: the configured one, else that of the port
// in use if it has an address or the network is a switch. A port that goes away does not change the MTU: apps keep
// talking to each other and to the next port. A local network uses the MTU of a port without an address only if it has
// none yet.
func (nw network) chooseMTU() int {
	switch {
	case nw.Config.MTU != 0:
		return nw.Config.MTU
	case nw.port != nil && (nw.isSwitch() || nw.MTU == 0 || nw.port.rank() < rankNoAddress):
		mtu := cmp.Or(nw.port.mtu(), defaultMTU)
		for _, p := range nw.shares {
			mtu = min(mtu, cmp.Or(p.mtu(), defaultMTU))
		}
		for _, p := range nw.joined {
			mtu = min(mtu, cmp.Or(p.mtu(), defaultMTU))
		}
		return mtu
	case nw.Config.Port == "":
		return defaultMTU
	case nw.MTU != 0:
		return nw.MTU
	}
	return cmp.Or(expectedPort(nw.Config.Port, nw.Ports).mtu(), defaultMTU)
}

// hostIfName returns the name of the host's side of an adapter.
func (nw network) hostIfName(a Adapter) IfName {
	return HostSide(nw.n, a.Lease.Number, a.Config.Spec)
}

// HostSide returns the name of the host's side of an adapter: the configured one, or that of the adapter's number.
func HostSide(n, number int, u AdapterSpec) IfName {
	if u.HostIfName != "" && u.Kind != Veth {
		return u.HostIfName
	}
	return HostIfName(n, number)
}

func (nw network) uuid() string { return nw.Config.UUID.String() }

// links returns the bridge, the adapters' links, and the running state of each: a netstate.Port, which says that a link
// is up and in which bridge. (It has nothing to do with PortConfig.)
func (nw network) links() []netstate.Object {
	br := string(nw.bridge)
	objs := []netstate.Object{
		netstate.Link{
			Name: br, Type: netstate.Bridge, MAC: BridgeMAC(nw.Config.UUID), MTU: nw.mtu,
			Alias: BridgeAlias(netstate.Owner{Name: nw.uuid(), Number: nw.n}), Attrs: nw.bridgeAttrs(),
		},
		netstate.Port{Link: br},
	}
	for _, p := range nw.joined {
		link := string(p.IfName)
		objs = append(objs, netstate.Port{Link: link, Master: br, Foreign: true, VLANs: nw.vlansOfPort(p),
			After: nw.guardOf(link)})
	}
	for _, a := range nw.Adapters {
		link, foreign := nw.link(a)
		if !foreign {
			objs = append(objs, link)
		}
		objs = append(objs, netstate.Port{
			Link: link.Name, Master: br, Foreign: foreign, Guarded: nw.spans(), VLANs: nw.vlansOf(a.Config.Spec),
			Station: nw.station(a),
			After:   append(nw.adapterChainIDs(a), nw.guardOf(link.Name)...),
		})
	}
	return objs
}

// station returns the address behind an adapter's port, "" if there may be others: see netstate.Port.
func (nw network) station(a Adapter) string {
	if !nw.Config.SpoofGuard {
		return ""
	}
	return a.Lease.MAC
}

// link returns an adapter's link on the host; foreign means that another program creates it.
func (nw network) link(a Adapter) (l netstate.Link, foreign bool) {
	k, u := a.Config.Key(), a.Config.Spec
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

// tapAlias is the mark of ownership on a tap device. The config may name the device, so the alias has the name that
// edgespan would have chosen, which identifies network and adapter.
func (nw network) tapAlias(a Adapter) string {
	return fmt.Sprintf("%s%s adapter %s link=%s", aliasPrefix, nw.uuid(), a.Config.Key(), HostIfName(nw.n, a.Lease.Number))
}

func (nw network) address() netstate.Address {
	c := nw.Config.IPv4
	a := netstate.Address{Link: string(nw.bridge), Prefix: netip.PrefixFrom(c.Gateway, c.Subnet.Bits()).String()}
	if c.MayOverlap {
		a.Label, a.After = a.Link+sharedLabel, nw.answerAddress().ID()
	}
	return a
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
	if a.Config.Spec.Kind != External {
		ids = append(ids, netstate.ID{Kind: netstate.KindLink, Name: name})
	}
	ids = append(ids, nw.adapterChainIDs(a)...)
	if nw.isSwitch() {
		return ids
	}
	ids = append(ids, netstate.ID{Kind: netstate.KindFile, Name: nw.dhcpHostPath(a.Config.Key())})
	if a.Config.Spec.Hostname != "" {
		ids = append(ids, netstate.ID{Kind: netstate.KindFile, Name: nw.hostsPath(string(a.Config.Spec.Hostname))})
	}
	return ids
}

// Memo computes the desired state of one network, and again only for another input: a network is compared with the host
// each minute, and changes seldom. The zero value is ready. Callers share the result and must not change it.
type Memo struct {
	known bool
	in    Input
	out   Desired
}

// DesiredState returns what the function of this name does.
func (m *Memo) DesiredState(in Input) Desired {
	if m.known && reflect.DeepEqual(m.in, in) {
		return m.out
	}
	m.known, m.out = true, DesiredState(in)
	// What the caller may change later; configs and statuses never change.
	in.Adapters, in.Ports = slices.Clone(in.Adapters), slices.Clone(in.Ports)
	in.Chosen, in.Failing = maps.Clone(in.Chosen), maps.Clone(in.Failing)
	m.in = in
	return m.out
}
