package netns_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"edgespan/integration/netns"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/verdict"
)

// The IPv6 side of verdictLab.

// verdictProtos6 are the protocols of IPv6 packets.
var verdictProtos6 = []uint8{unix.IPPROTO_ICMPV6, unix.IPPROTO_TCP, unix.IPPROTO_UDP, 99}

// verdictFar6 are the IPv6 addresses that belong to hosts behind the ports.
var verdictFar6 = []string{"2001:db8:1::1", "2001:db8:1::3", "2001:db8:2::1", "2001:db8:2::3", "2001:db8:99::5"}

// verdictOwn6 are the node's own, those of the ports last.
var verdictOwn6 = []string{"fd00:1::1", "fd00:2::1", "fd00:3::1", "2001:db8:1::2", "2001:db8:2::2"}

var verdictPrefixes6 = []string{"fd00::/16", "fd00:1::/64", "fd00:2::/64", "2001:db8:1::/64", "2001:db8::/32", "::/0",
	"2001:db8:99::/48", "fd00:1::/120", "8000::/1", "2001:db8:2::2/127"}

// six returns the IPv6 side of network n: one is translated, one has a routed prefix, and one has no port.
func six(n int) netinst.IPv6Config {
	at := func(last byte) netip.Addr { return netip.AddrFrom16([16]byte{0: 0xfd, 3: byte(n), 15: last}) }
	mode := netinst.SLAAC
	if n == 2 {
		mode = netinst.DHCPv6
	}
	return netinst.IPv6Config{Subnet: netip.PrefixFrom(at(0), 64), Gateway: at(1), Mode: mode, NAT: n == 1}
}

func (a verdictApp) ip6() netip.Addr { return netinst.EUI64(six(a.network).Subnet, a.mac()) }

// addPort6 adds the IPv6 side to a port, with its number.
func addPort6(p *netinst.PortStatus, n int) {
	p.Addresses = append(p.Addresses, netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::2/64", n)))
	p.DefaultRoutes = append(p.DefaultRoutes, netstate.DefaultRoute{IPv6: true,
		Gateway: netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::1", n))})
}

// plugPort6 sets up the IPv6 side of a port.
func (l *verdictLab) plugPort6(p netinst.PortStatus, mac, nodeMAC string) {
	ns, link, own := l.spaces[p.Label], string(p.IfName), p.Addresses[1]
	gateway := p.DefaultRoutes[1].Gateway
	l.node.Exec(l.t, "ip", "addr", "add", own.String(), "dev", link, "nodad")
	ns.Exec(l.t, "ip", "addr", "add", netip.PrefixFrom(gateway, own.Bits()).String(), "dev", "eth0", "nodad")
	ns.Exec(l.t, "ip", "-6", "route", "add", "default", "via", own.Addr().String())
	ns.Exec(l.t, "ip", "neigh", "replace", own.Addr().String(), "lladdr", nodeMAC, "dev", "eth0")
	for _, a := range []netip.Addr{gateway, gateway.Next().Next()} {
		l.node.Exec(l.t, "ip", "neigh", "replace", a.String(), "lladdr", mac, "dev", link)
	}
}

// plugApp6 sets up the IPv6 side of an app's interface, without advertisements.
func (l *verdictLab) plugApp6(a verdictApp) {
	ns, c, bridge := l.spaces[a.name], six(a.network), fmt.Sprintf("es%d", a.network)
	ns.Exec(l.t, "ip", "addr", "add", a.ip6().String()+"/64", "dev", "eth0", "nodad")
	ns.Exec(l.t, "ip", "neigh", "replace", c.Gateway.String(), "lladdr", netinst.BridgeMAC(verdictNetwork(a.network).UUID),
		"dev", "eth0")
	ns.Exec(l.t, "ip", "-6", "route", "add", "default", "via", c.Gateway.String())
	l.node.Exec(l.t, "ip", "neigh", "replace", a.ip6().String(), "lladdr", a.mac(), "dev", bridge)
	for _, b := range l.apps {
		if b.network == a.network && b != a {
			ns.Exec(l.t, "ip", "neigh", "replace", b.ip6().String(), "lladdr", b.mac(), "dev", "eth0")
		}
	}
}

// quiet6 keeps a namespace from answering, and complaining about, IPv6 packets.
func quiet6(t *testing.T, ns *netns.NS, node bool) {
	ns.Exec(t, "ip6tables", "-t", "raw", "-A", "OUTPUT", "-p", "icmpv6", "--icmpv6-type", "1", "-j", "DROP")
	if node {
		ns.Exec(t, "sysctl", "-qw", "net.ipv6.icmp.echo_ignore_all=1")
		return
	}
	ns.Exec(t, "ip6tables", "-A", "INPUT", "-j", "DROP")
}

// open6 opens a namespace's IPv6 sockets, as open does.
func (l *verdictLab) open6(name string, open func(domain, kind, proto int) (int, error)) (receivers []int, err error) {
	if l.senders6[name], err = open(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_RAW); err != nil {
		return nil, err
	}
	if name != "node" {
		fd, err := open(unix.AF_PACKET, unix.SOCK_DGRAM, int(htons(unix.ETH_P_IPV6)))
		return []int{fd}, err
	}
	for _, proto := range verdictProtos6 {
		fd, err := open(unix.AF_INET6, unix.SOCK_RAW, int(proto))
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		}
		if err != nil {
			return receivers, err
		}
		receivers = append(receivers, fd)
		l.raw6[fd] = proto
	}
	return receivers, nil
}

// receiveRaw6 reads a packet from a raw socket of IPv6, which has no IP header: its addresses come beside it.
func receiveRaw6(fd int, proto uint8, buf, oob []byte) (id uint64, a arrival, ok bool) {
	n, oobn, _, from, err := unix.Recvmsg(fd, buf, oob, 0)
	sender, is6 := from.(*unix.SockaddrInet6)
	if err != nil || !is6 {
		return 0, a, false
	}
	a.src = netip.AddrFrom16(sender.Addr)
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	for _, m := range messages {
		if m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= 16 {
			a.dst = netip.AddrFrom16([16]byte(m.Data[:16]))
		}
	}
	if err != nil {
		return 0, a, false
	}
	return parsePayload(buf[:n], proto, a)
}

// parsePayload reads what follows the IP header.
func parsePayload(b []byte, proto uint8, a arrival) (uint64, arrival, bool) {
	head := headOf(proto)
	if len(b) < head+16 || binary.BigEndian.Uint64(b[head:]) != verdictMagic {
		return 0, a, false
	}
	if proto == unix.IPPROTO_TCP || proto == unix.IPPROTO_UDP {
		a.port = binary.BigEndian.Uint16(b[2:])
	}
	return binary.BigEndian.Uint64(b[head+8:]), a, true
}

func parsePacket6(b []byte) (id uint64, a arrival, ok bool) {
	if len(b) < 40 {
		return 0, a, false
	}
	a.src, a.dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	proto, rest := above6(b)
	return parsePayload(rest, proto, a)
}

// buildPacket6 returns an IPv6 packet with its number.
func buildPacket6(p verdict.Packet, id uint64) []byte {
	head := headOf(p.Proto)
	b := make([]byte, 40+head+payloadLength)
	b[0], b[6], b[7] = 0x60, p.Proto, 64
	binary.BigEndian.PutUint16(b[4:], uint16(head+payloadLength))
	src, dst := p.Src.As16(), p.Dst.As16()
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	binary.BigEndian.PutUint64(b[40+head:], verdictMagic)
	binary.BigEndian.PutUint64(b[48+head:], id)
	above := b[40:]
	sum := uint32(p.Proto) + uint32(len(above)) // of the pseudo-header (RFC 8200 §8.1)
	for i := 8; i < 40; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	switch p.Proto {
	case unix.IPPROTO_ICMPV6:
		above[0] = p.ICMPType
		binary.BigEndian.PutUint16(above[4:], p.SrcPort) // the identifier
		binary.BigEndian.PutUint16(above[2:], checksum(sum, above))
	case unix.IPPROTO_TCP:
		binary.BigEndian.PutUint16(above, p.SrcPort)
		binary.BigEndian.PutUint16(above[2:], p.DstPort)
		above[12], above[13], above[14] = 5<<4, 2, 0xff // SYN
		binary.BigEndian.PutUint16(above[16:], checksum(sum, above))
	case unix.IPPROTO_UDP:
		binary.BigEndian.PutUint16(above, p.SrcPort)
		binary.BigEndian.PutUint16(above[2:], p.DstPort)
		binary.BigEndian.PutUint16(above[4:], uint16(len(above)))
		binary.BigEndian.PutUint16(above[6:], checksum(sum, above))
	}
	return b
}

// packet6 draws an IPv6 packet and the name of the namespace that sends it.
func (d verdictDraw) packet6(apps []verdictApp) (verdict.Packet, string) {
	addrs := append(append([]string{}, verdictFar6...), verdictOwn6...)
	for _, a := range apps {
		addrs = append(addrs, a.ip6().String())
	}
	some := func(list []string) netip.Addr { return netip.MustParseAddr(pick(d, list)) }
	p := verdict.Packet{Proto: pick(d, verdictProtos6), Dst: some(addrs), SrcPort: uint16(1 + d.Intn(65535)),
		DstPort: pick(d, append([]uint16{546, 547}, verdictNumbers...))}
	switch p.Proto {
	case unix.IPPROTO_ICMPV6:
		p.ICMPType, p.DstPort = pick(d, []uint8{128, 128, 128, 139}), 0
	case 99:
		p.SrcPort, p.DstPort = 0, 0
	}
	switch from := d.Intn(20); {
	case from < 13:
		a := pick(d, apps)
		p.From, p.Adapter, p.Src = verdict.App, a.key(), a.ip6()
		switch d.Intn(4) {
		case 0:
			p.Dst = some(verdictFar6)
		case 1:
			p.Dst = pick(d, apps[a.network*2-2:min(a.network*2+1, len(apps))]).ip6()
		}
		if d.Intn(20) == 0 {
			p.Src = some(addrs)
		}
		return p, a.name
	case from < 18:
		p.From, p.Port, p.Src = verdict.Outside, pick(d, []string{"wan", "lan"}), some(addrs)
		if d.Intn(4) > 0 {
			p.Src, p.Dst = some(verdictFar6), pick(d, apps).ip6()
		}
		return p, p.Port
	}
	p.From, p.Src, p.Dst = verdict.Node, some(verdictOwn6), pick(d, apps).ip6()
	return p, "node"
}
