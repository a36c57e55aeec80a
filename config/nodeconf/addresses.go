package nodeconf

import (
	"fmt"
	"net/netip"
	"strings"

	"edgespan/netinst"
)

// ipRange is a DHCP range, both ends included.
type ipRange struct{ first, last netip.Addr }

func (r ipRange) contains(a netip.Addr) bool {
	return r.first.Compare(a) <= 0 && a.Compare(r.last) <= 0
}

func (r ipRange) String() string { return r.first.String() + "-" + r.last.String() }

// noHosts are the prefixes that contain no host of a network (RFC 6890).
var noHosts = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"), // multicast, reserved, broadcast
}

// parseIP refuses zones and IPv4-mapped IPv6 addresses.
func parseIP(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	return a, err == nil && a.Zone() == "" && !a.Is4In6()
}

func parseServer(s string) (netip.Addr, bool) {
	a, ok := parseIP(s)
	return a, ok && !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// parseCollector reads "udp://ADDRESS:PORT" or "tcp://ADDRESS:PORT".
func parseCollector(s string) (string, bool) {
	protocol, end, _ := strings.Cut(s, "://")
	a, err := netip.ParseAddrPort(end)
	if err != nil || a.Port() == 0 || protocol != "udp" && protocol != "tcp" {
		return "", false
	}
	_, ok := parseServer(a.Addr().String())
	return protocol + "://" + a.String(), ok
}

func parseIPv4(s string) (netip.Addr, bool) {
	a, ok := parseIP(s)
	return a, ok && a.Is4() && !isSpecialPrefix(netip.PrefixFrom(a, 32))
}

func isSpecialPrefix(p netip.Prefix) bool {
	for _, n := range noHosts {
		if p.Overlaps(n) {
			return true
		}
	}
	return false
}

func parsePrefix(s string) (any, string, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is4() {
		return nil, "", false
	}
	if m := p.Masked(); m != p {
		return nil, fmt.Sprintf("%s, the network of it, or %s/32 is meant", m, p.Addr()), false
	}
	return p, "", true
}

func parseSubnet(s string) (any, string, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is4() || p.Bits() < 8 || p.Bits() > 30 || isSpecialPrefix(p) {
		return nil, "", false
	}
	if m := p.Masked(); m != p {
		return nil, m.String() + " is meant", false
	}
	return p, "", true
}

// parseOnLink parses an interface's address: a host's, not that of its subnet or its broadcast address.
func parseOnLink(s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	ok := err == nil && p.Addr().Is4() && p.Bits() >= 8 && !isSpecialPrefix(netip.PrefixFrom(p.Addr(), 32))
	return p, ok && (p.Bits() > 30 || isHost(p.Masked(), p.Addr()))
}

func parsePrefixOrIP(s string) (any, string, bool) {
	if a, ok := parseIP(s); ok {
		return netip.PrefixFrom(a, a.BitLen()), "", true
	}
	return parseAnyPrefix(s)
}

func parseAnyPrefix(s string) (any, string, bool) {
	if p, err := netip.ParsePrefix(s); err == nil && p.Addr().Is6() && !p.Addr().Is4In6() {
		if m := p.Masked(); m != p {
			return nil, fmt.Sprintf("%s, the network of it, or %s/128 is meant", m, p.Addr()), false
		}
		return p, "", true
	}
	return parsePrefix(s)
}

// parseGateway parses a next hop: routers advertise themselves by a link-local address (RFC 4861 §4.2).
func parseGateway(s string) (netip.Addr, bool) {
	a, ok := parseIP(s)
	if a.Is4() {
		return parseIPv4(s)
	}
	return a, ok && (a.IsLinkLocalUnicast() || !isSpecial6(a))
}

// noHosts6 are the prefixes that contain no host of a network (RFC 6890): unspecified, loopback and mapped addresses,
// link-local, multicast.
var noHosts6 = []netip.Prefix{
	netip.MustParsePrefix("::/32"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

func isSpecial6(a netip.Addr) bool {
	for _, n := range noHosts6 {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

func parseIPv6(s string) (netip.Addr, bool) {
	a, ok := parseIP(s)
	return a, ok && a.Is6() && !isSpecial6(a)
}

// parseSubnet6 parses the subnet of a network: apps make their addresses from a prefix of 64 bits (RFC 4291 §2.5.1).
func parseSubnet6(s string) (any, string, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is6() || p.Addr().Is4In6() || p.Bits() != 64 || isSpecial6(p.Addr()) {
		return nil, "", false
	}
	if m := p.Masked(); m != p {
		return nil, m.String() + " is meant", false
	}
	return p, "", true
}

// parseEntry parses an entry of a set. The kernel has no entry of 0 bits (hash:net, ipset(8)).
func parseEntry(s string) (netip.Prefix, bool) {
	if a, ok := parseIP(s); ok {
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	return p, err == nil && p.Bits() > 0 && p == p.Masked() && !p.Addr().Is4In6()
}

func parseRange(s string) (ipRange, bool) {
	first, last, _ := strings.Cut(s, "-")
	a, okA := parseIPv4(first)
	b, okB := parseIPv4(last)
	return ipRange{a, b}, okA && okB && a.Compare(b) <= 0
}

// protocolNames maps the protocols that have names in a rule (IANA numbers); 0 is any protocol, as in iptables.
var protocolNames = map[string]string{
	"0": "", "1": "icmp", "6": "tcp", "17": "udp", "tcp": "tcp", "udp": "udp", "icmp": "icmp",
}

func parseProtocol(s string) (string, bool) {
	if name, ok := protocolNames[s]; ok {
		return name, true
	}
	n, ok := parseCanonicalInt(s)
	return s, ok && n >= 0 && n <= 255
}

// maxPorts is the limit of one multiport match (Linux XT_MULTI_PORTS).
const maxPorts = 15

func parsePorts(s string) ([]netinst.PortRange, bool) {
	var out []netinst.PortRange
	size := 0
	for _, item := range strings.Split(s, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(item), "-")
		size++
		if !isRange {
			last = first
		} else {
			size++
		}
		a, okA := parsePort(first)
		b, okB := parsePort(last)
		if !okA || !okB || a > b || size > maxPorts {
			return nil, false
		}
		out = append(out, netinst.PortRange{First: a, Last: b})
	}
	return out, true
}

func parsePortRange(s string) (netinst.PortRange, bool) {
	all, ok := parsePorts(s)
	if !ok || len(all) != 1 {
		return netinst.PortRange{}, false
	}
	return all[0], true
}

func parsePort(s string) (uint16, bool) {
	n, ok := parseCanonicalInt(s)
	return uint16(n), ok && n >= 1 && n <= 65535
}

// firstHost and broadcast expect a subnet of /30 or larger.
func firstHost(p netip.Prefix) netip.Addr { return p.Masked().Addr().Next() }

func broadcast(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}

// upperHalf returns the second half of a subnet without its broadcast address.
func upperHalf(p netip.Prefix) ipRange {
	b := p.Masked().Addr().As4()
	b[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	return ipRange{netip.AddrFrom4(b), broadcast(p).Prev()}
}
