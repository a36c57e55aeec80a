package netns_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"edgespan/integration/netns"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/verdict"
	"edgespan/platform/host"
)

// verdictLab is a node with networks, apps and two uplinks, each app and what lies behind each uplink in a namespace of
// its own. It sends packets from everywhere, and records which arrives where and with which source address.
type verdictLab struct {
	t        *testing.T
	node     *netns.NS
	spaces   map[string]*netns.NS // by name: apps, "node", and the ports' labels
	senders  map[string]int       // raw sockets, by the same names
	senders6 map[string]int       // of IPv6
	raw6     map[int]uint8        // the node's raw sockets of IPv6, with their protocols
	host     *host.Host
	have     map[int]netstate.State // by number of the network
	apps     []verdictApp
	rounds   uint64 // of packets
	mu       sync.Mutex
	arrived  map[uint64][]arrival // by the packet's number
}

// verdictApp is an app with one adapter.
type verdictApp struct {
	name    string
	network int
	ip      netip.Addr
}

// arrival is a packet as it arrived at a place. Port is its destination's, 0 without ports.
type arrival struct {
	where    string
	src, dst netip.Addr
	port     uint16
}

func (a arrival) String() string {
	return fmt.Sprintf("%s from %s to %s", a.where, a.src, netip.AddrPortFrom(a.dst, a.port))
}

func (a verdictApp) key() netinst.AdapterKey {
	return netinst.AdapterKey{AppUUID: uuid.NewSHA1(uuid.Nil, []byte(a.name))}
}

func (a verdictApp) mac() string { return fmt.Sprintf("02:00:00:00:00:%02x", a.name[0]) }

// verdictPorts are the node's ports: two uplinks, and one without a network.
func verdictPorts() []netinst.PortStatus {
	port := func(label, addr, gateway string, cost int, labels ...string) netinst.PortStatus {
		return netinst.PortStatus{
			PortConfig: netinst.PortConfig{Label: label, IfName: netinst.IfName(label + "0"), Uplink: true, Cost: cost,
				Labels: labels},
			Exists: true, Up: true, LinkMTU: 1500, Addresses: []netip.Prefix{netip.MustParsePrefix(addr)},
			DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr(gateway))},
		}
	}
	list := []netinst.PortStatus{
		port("lan", "198.18.0.2/24", "198.18.0.1", 7, "shared", "inner"), port("wan", "192.0.2.2/24", "192.0.2.1", 0, "shared"),
	}
	addPort6(&list[0], 2)
	addPort6(&list[1], 1)
	return list
}

// verdictAirgapped is the number of the network without a port.
const verdictAirgapped = 3

// verdictShared is the number of the first network that has the subnet of network 1, without a port, and
// verdictNetworks that of the last one, behind NAT.
const (
	verdictShared   = 4
	verdictNetworks = 5
)

// verdictNetwork returns network n, with the subnet 10.<n>.0.0/24, or that of network 1.
func verdictNetwork(n int) netinst.NetworkInstanceConfig {
	second := byte(n)
	if n >= verdictShared {
		second = 1
	}
	at := func(last byte) netip.Addr { return netip.AddrFrom4([4]byte{10, second, 0, last}) }
	c := netinst.NetworkInstanceConfig{
		UUID: uuid.NewSHA1(uuid.Nil, []byte{byte(n)}), Type: netinst.Local, Port: "uplink",
		IPv4: netinst.IPv4Config{Subnet: netip.PrefixFrom(at(0), 24), Gateway: at(1), DHCPFirst: at(128), DHCPLast: at(254)},
		IPv6: six(n),
	}
	switch n {
	case 1:
		c.Routes = []netinst.StaticRoute{
			{Name: "branch", Destination: netip.MustParsePrefix("203.0.113.0/24"), Gateway: netip.MustParseAddr("198.18.0.1"),
				Port: "lan"},
			{Name: "inside", Destination: netip.MustParsePrefix("172.16.0.0/16"), Gateway: at(20)},
			{Name: "dear", Destination: netip.MustParsePrefix("203.0.113.0/24"), Gateway: netip.MustParseAddr("192.0.2.1"),
				Cost: 9},
			{Name: "six", Destination: netip.MustParsePrefix("2001:db8:99::/48"), Gateway: netip.MustParseAddr("2001:db8:2::1"),
				Port: "lan"},
		}
	case 2:
		c.Port = "inner"
	case verdictAirgapped:
		c.Port = ""
	}
	if c.IPv4.MayOverlap = n >= verdictShared; n == verdictShared {
		c.Port = ""
	}
	return c
}

func newVerdictLab(t *testing.T) *verdictLab {
	t.Helper()
	l := &verdictLab{t: t, node: netns.New(t), spaces: map[string]*netns.NS{}, senders: map[string]int{}, senders6: map[string]int{},
		raw6: map[int]uint8{},
		have: map[int]netstate.State{}, arrived: map[uint64][]arrival{}}
	at := netip.MustParseAddr
	l.apps = []verdictApp{{"a", 1, at("10.1.0.10")}, {"b", 1, at("10.1.0.20")}, {"c", 1, at("10.1.0.30")},
		{"d", 2, at("10.2.0.10")}, {"e", 2, at("10.2.0.20")}, {"f", 3, at("10.3.0.10")}, {"g", 3, at("10.3.0.20")},
		{"h", 4, at("10.1.0.10")}, {"i", 4, at("10.1.0.20")}, {"j", 5, at("10.1.0.10")}, {"k", 5, at("10.1.0.20")}}
	l.spaces["node"] = l.node
	l.node.Exec(t, "sh", "-c", "for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done")
	l.node.Exec(t, "sysctl", "-qw", "net.ipv4.icmp_echo_ignore_all=1") // an answer is no packet of the test
	for i, p := range verdictPorts() {
		l.plugPort(i, p)
	}
	for _, a := range l.apps {
		l.spaces[a.name] = netns.New(t)
	}
	h, err := host.New(host.Config{RunDir: t.TempDir(), NetnsPath: l.node.Path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	l.host = h
	if _, err := h.Owners(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.set(make(verdictRules), true, nil)
	for _, a := range l.apps {
		l.plugApp(a)
	}
	for name, ns := range l.spaces {
		l.listen(name, ns)
	}
	l.introduce()
	return l
}

// introduce lets each app send a packet, so that the bridges know its link: a limit counts what they flood to others.
func (l *verdictLab) introduce() {
	l.t.Helper()
	var list []sent
	for i, a := range l.apps {
		gateway := verdictNetwork(a.network).IPv4.Gateway
		list = append(list, sent{id: 1<<50 + uint64(i), from: a.name, want: "node",
			packet: verdict.Packet{Proto: unix.IPPROTO_ICMP, ICMPType: 8, Src: a.ip, Dst: gateway}})
	}
	l.shoot(list)
}

// plugPort joins the node's interface of a port to a namespace that has the gateway's address and all others.
func (l *verdictLab) plugPort(i int, p netinst.PortStatus) {
	ns, link := netns.New(l.t), string(p.IfName)
	l.spaces[p.Label] = ns
	mac, nodeMAC := fmt.Sprintf("02:00:00:01:00:%02x", i), fmt.Sprintf("02:00:00:02:00:%02x", i)
	l.node.Exec(l.t, "ip", "link", "add", link, "address", nodeMAC, "type", "veth", "peer", "name", "eth0", "address", mac,
		"netns", ns.Name)
	gateway := p.DefaultRoutes[0].Gateway
	own := p.Addresses[0]
	l.node.Exec(l.t, "ip", "addr", "add", own.String(), "dev", link)
	l.node.Exec(l.t, "ip", "link", "set", link, "up")
	ns.Exec(l.t, "ip", "addr", "add", netip.PrefixFrom(gateway, own.Bits()).String(), "dev", "eth0")
	ns.Exec(l.t, "ip", "link", "set", "eth0", "up")
	ns.Exec(l.t, "ip", "route", "add", "default", "via", own.Addr().String())
	ns.Exec(l.t, "ip", "neigh", "replace", own.Addr().String(), "lladdr", nodeMAC, "dev", "eth0")
	l.node.Exec(l.t, "ip", "neigh", "replace", gateway.String(), "lladdr", mac, "dev", link)
	neighbour := netip.PrefixFrom(gateway.Next().Next(), 32).Addr().String()
	l.node.Exec(l.t, "ip", "neigh", "replace", neighbour, "lladdr", mac, "dev", link)
	l.plugPort6(p, mac, nodeMAC)
	if i == 1 {
		l.node.Exec(l.t, "ip", "route", "add", "default", "via", gateway.String())
	}
}

// plugApp sets up an app's interface, without DHCP and ARP.
func (l *verdictLab) plugApp(a verdictApp) {
	ns, c := l.spaces[a.name], verdictNetwork(a.network)
	ns.Exec(l.t, "ip", "addr", "add", a.ip.String()+"/24", "dev", "eth0")
	ns.Exec(l.t, "ip", "link", "set", "eth0", "up")
	ns.Exec(l.t, "ip", "neigh", "replace", c.IPv4.Gateway.String(), "lladdr", netinst.BridgeMAC(c.UUID), "dev", "eth0")
	ns.Exec(l.t, "ip", "route", "add", "default", "via", c.IPv4.Gateway.String())
	l.node.Exec(l.t, "ip", "neigh", "replace", a.ip.String(), "lladdr", a.mac(), "dev", fmt.Sprintf("es%d", a.network))
	for _, b := range l.apps {
		if b.network == a.network && b != a {
			ns.Exec(l.t, "ip", "neigh", "replace", b.ip.String(), "lladdr", b.mac(), "dev", "eth0")
		}
	}
	l.plugApp6(a)
	for _, r := range c.Routes { // as DHCP's option 121 says
		if c.IPv4.Subnet.Contains(r.Gateway) && r.Gateway != a.ip {
			ns.Exec(l.t, "ip", "route", "add", r.Destination.String(), "via", r.Gateway.String())
		}
	}
}

// apply makes the state of a network, or with 0 of the host.
func (l *verdictLab) apply(n int, want netstate.State) {
	l.t.Helper()
	o := netstate.Owner{Name: netstate.HostOwner}
	if n > 0 {
		o = netstate.Owner{Name: verdictNetwork(n).UUID.String(), Number: n}
	}
	ops := netstate.Diff(l.have[n], want)
	for _, op := range ops {
		ctx, cancel := context.WithTimeout(l.t.Context(), op.Deadline())
		err := l.host.Do(ctx, o, op)
		cancel()
		if err != nil {
			l.t.Fatalf("network %d: %v", n, err)
		}
	}
	l.have[n] = want
}

// hostState is the state of the host: mapped says that an app has a port map.
func hostState(mapped bool) netstate.State {
	var known []netinst.HostNetwork
	for n := 1; n <= verdictNetworks; n++ {
		c := verdictNetwork(n)
		ports := []netinst.HostPort{{IfName: "lan0", Opened: true}, {IfName: "wan0", Opened: true}}
		if n >= verdictShared {
			mapped = false
		}
		if c.Port == "" {
			ports = nil
		}
		known = append(known, netinst.HostNetwork{Number: n, Subnet: c.IPv4.Subnet, Gateway: c.IPv4.Gateway, Ports: ports,
			Mapped: mapped, MayOverlap: c.IPv4.MayOverlap, Returns: netinst.NeedsReturns(c),
			Subnet6: c.IPv6.Subnet, Gateway6: c.IPv6.Gateway, Closed6: true})
	}
	return netinst.HostState(known)
}

// verdictRules are the rules of the apps, by name.
type verdictRules map[string][]netinst.ACLRule

// mapped reports whether one of them is a port map.
func (r verdictRules) mapped() bool {
	for _, list := range r {
		if slices.ContainsFunc(list, func(r netinst.ACLRule) bool { return r.Action == netinst.MapPort }) {
			return true
		}
	}
	return false
}

// inputs returns the networks with these rules.
func (l *verdictLab) inputs(rules verdictRules, guard bool, observe map[string]bool) (list []netinst.Input) {
	for n := 1; n <= verdictNetworks; n++ {
		in := netinst.Input{Owner: netstate.Owner{Name: verdictNetwork(n).UUID.String(), Number: n},
			Config: verdictNetwork(n), Ports: verdictPorts(), RunDir: l.t.TempDir()}
		in.Config.SpoofGuard, in.Config.Mapped = guard, rules.mapped() && n < verdictShared
		for i, a := range l.apps {
			if a.network == n {
				in.Adapters = append(in.Adapters, netinst.Adapter{
					Config: netinst.AppAdapterConfig{AppUUID: a.key().AppUUID, Activate: true, Spec: netinst.AdapterSpec{
						NetworkInstance: in.Config.UUID, Netns: l.spaces[a.name].Name, IfName: "eth0", ACL: rules[a.name],
						Observe: observe[a.name], MaxFragments: 100000, MaxNeighbours: 10000}}, // both are many
					Lease: netinst.Lease{Number: i + 1, IP: a.ip, MAC: a.mac()},
				})
			}
		}
		list = append(list, in)
	}
	return list
}

// set makes the networks with these rules, which some apps only observe, forgets all flows, and returns the world that they are.
func (l *verdictLab) set(rules verdictRules, guard bool, observe map[string]bool) *verdict.World {
	l.t.Helper()
	list := l.inputs(rules, guard, observe)
	l.apply(0, hostState(rules.mapped()))
	for _, in := range list {
		l.apply(in.Owner.Number, fwWithoutServices(netinst.DesiredState(in).State))
	}
	l.node.Exec(l.t, "conntrack", "-F")
	l.node.Exec(l.t, "conntrack", "-F", "-f", "ipv6")
	return verdict.New(list, nil)
}

// verdictMagic begins the payload of a packet of this test; its number follows.
const verdictMagic = 0x6573_7665_7264_6963

// listen opens a namespace's sockets: one that sends any packet, and what receives. The node receives what its INPUT
// let pass, the others what reached their link.
func (l *verdictLab) listen(name string, ns *netns.NS) {
	l.t.Helper()
	var receivers []int
	ns.Do(l.t, func() error {
		open := func(domain, kind, proto int) (int, error) {
			fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, proto)
			if err == nil {
				err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
			}
			return fd, err
		}
		var err error
		if l.senders[name], err = open(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW); err != nil {
			return err
		}
		if receivers, err = l.open6(name, open); err != nil {
			return err
		}
		if name != "node" {
			fd, err := open(unix.AF_PACKET, unix.SOCK_DGRAM, int(htons(unix.ETH_P_IP)))
			receivers = append(receivers, fd)
			return err
		}
		for _, proto := range verdictProtos {
			fd, err := open(unix.AF_INET, unix.SOCK_RAW, int(proto))
			if err != nil {
				return err
			}
			receivers = append(receivers, fd)
		}
		return nil
	})
	// No answers, and no complaints: they would be flows of their own, and spend limits.
	ns.Exec(l.t, "iptables", "-t", "raw", "-A", "OUTPUT", "-p", "icmp", "--icmp-type", "3", "-j", "DROP")
	quiet6(l.t, ns, name == "node")
	if name != "node" {
		ns.Exec(l.t, "iptables", "-A", "INPUT", "-j", "DROP")
	}
	for _, fd := range receivers {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
			l.t.Fatal(err)
		}
		go l.receive(name, fd)
	}
	fd, fd6 := l.senders[name], l.senders6[name]
	l.t.Cleanup(func() { _, _ = unix.Close(fd), unix.Close(fd6) })
}

func htons(n uint16) uint16 { return n<<8 | n>>8 }

// receive records what arrives until the test ends.
func (l *verdictLab) receive(name string, fd int) {
	defer func() { _ = unix.Close(fd) }()
	buf, oob := make([]byte, 2048), make([]byte, 256)
	proto, raw6 := l.raw6[fd]
	for l.t.Context().Err() == nil {
		if raw6 {
			if id, a, ok := receiveRaw6(fd, proto, buf, oob); ok {
				l.record(name, id, a)
			}
			continue
		}
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			continue // the time is up
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype != unix.PACKET_HOST {
			continue
		}
		if id, a, ok := parsePacket(buf[:n]); ok {
			l.record(name, id, a)
		}
	}
}

func (l *verdictLab) record(where string, id uint64, a arrival) {
	a.where = where
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrived[id] = append(l.arrived[id], a)
}

// arrivals returns where a packet arrived, each place once.
func (l *verdictLab) arrivals(id uint64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, a := range l.arrived[id] {
		out = append(out, a.String())
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

// until waits for a condition, at most 3 s.
func (l *verdictLab) until(ok func() bool) bool {
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

// parsePacket returns the number of a packet of this test and its addresses.
func parsePacket(b []byte) (id uint64, a arrival, ok bool) {
	if len(b) > 0 && b[0]>>4 == 6 {
		return parsePacket6(b)
	}
	if len(b) < 20 || b[0]>>4 != 4 {
		return 0, a, false
	}
	a.src, a.dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	if binary.BigEndian.Uint16(b[6:])&0x1fff != 0 {
		return 0, a, false // not the first fragment
	}
	return parsePayload(b[min(len(b), int(b[0]&15)*4):], b[9], a)
}

// payloadLength is the length of a packet above the protocol's header: magic, number, and what a second fragment has.
const payloadLength = 48

// headOf is the length of the header above IP.
func headOf(proto byte) int {
	switch proto {
	case unix.IPPROTO_TCP:
		return 20
	case unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		return 8
	}
	return 0
}

// buildPacket returns a packet with its number.
func buildPacket(p verdict.Packet, id uint64) []byte {
	head := headOf(p.Proto)
	b := make([]byte, 20+head+payloadLength)
	b[0], b[8], b[9] = 0x45, 64, p.Proto
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	src, dst := p.Src.As4(), p.Dst.As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	binary.BigEndian.PutUint64(b[20+head:], verdictMagic)
	binary.BigEndian.PutUint64(b[28+head:], id)
	above := b[20:]
	switch p.Proto {
	case unix.IPPROTO_ICMP:
		above[0] = p.ICMPType
		binary.BigEndian.PutUint16(above[4:], p.SrcPort) // the identifier
		binary.BigEndian.PutUint16(above[2:], checksum(0, above))
	case unix.IPPROTO_TCP:
		binary.BigEndian.PutUint16(above, p.SrcPort)
		binary.BigEndian.PutUint16(above[2:], p.DstPort)
		above[12], above[13], above[14] = 5<<4, 2, 0xff // SYN
		binary.BigEndian.PutUint16(above[16:], checksum(pseudo(b), above))
	case unix.IPPROTO_UDP:
		binary.BigEndian.PutUint16(above, p.SrcPort)
		binary.BigEndian.PutUint16(above[2:], p.DstPort)
		binary.BigEndian.PutUint16(above[4:], uint16(len(above)))
	}
	return b
}

// pseudo is the sum of the header that TCP's checksum includes (RFC 9293 §3.1).
func pseudo(b []byte) uint32 {
	sum := uint32(b[9]) + uint32(len(b)-20)
	for i := 12; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	return sum
}

func checksum(sum uint32, b []byte) uint16 {
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
