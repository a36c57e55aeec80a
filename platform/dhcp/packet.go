package dhcp

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"edgespan/netinst/netstate"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

const (
	serverPort = 67
	clientPort = 68
	ipHead     = 20
	udpHead    = 8
	protoUDP   = 17
	maxPacket  = 1500 // largest packet that is read, and that servers are told
)

// types are the types of messages by their words.
var types = map[netstate.DHCPType]dhcpv4.MessageType{
	netstate.DHCPDiscover: dhcpv4.MessageTypeDiscover, netstate.DHCPOffer: dhcpv4.MessageTypeOffer,
	netstate.DHCPRequest: dhcpv4.MessageTypeRequest, netstate.DHCPAck: dhcpv4.MessageTypeAck,
	netstate.DHCPNak: dhcpv4.MessageTypeNak, netstate.DHCPRelease: dhcpv4.MessageTypeRelease,
	netstate.DHCPDecline: dhcpv4.MessageTypeDecline,
}

// encode returns the IPv4 packet of a query.
func encode(q netstate.DHCPQuery, mac net.HardwareAddr) ([]byte, error) {
	var xid dhcpv4.TransactionID
	binary.BigEndian.PutUint32(xid[:], q.XID)
	with := []dhcpv4.Modifier{dhcpv4.WithTransactionID(xid), dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(types[q.Type])}
	if q.Type != netstate.DHCPRelease && q.Type != netstate.DHCPDecline {
		with = append(with, dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter,
			dhcpv4.OptionDomainNameServer, dhcpv4.OptionInterfaceMTU, dhcpv4.OptionIPAddressLeaseTime,
			dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue),
			dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(maxPacket)))
	}
	if q.Client.IsValid() {
		with = append(with, dhcpv4.WithClientIP(q.Client.AsSlice()))
	}
	if q.Requested.IsValid() {
		with = append(with, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(q.Requested.AsSlice())))
	}
	if q.Server.IsValid() {
		with = append(with, dhcpv4.WithOption(dhcpv4.OptServerIdentifier(q.Server.AsSlice())))
	}
	m, err := dhcpv4.New(with...)
	if err != nil {
		return nil, err
	}
	from, to := netip.IPv4Unspecified(), netip.AddrFrom4([4]byte{255, 255, 255, 255})
	if q.Client.IsValid() {
		from = q.Client
	}
	if q.To.IsValid() {
		to = q.To
	}
	return datagram(from, to, m.ToBytes()), nil
}

// datagram returns a UDP datagram from the client's port to the server's, in an IPv4 packet (RFC 768, RFC 791).
func datagram(from, to netip.Addr, payload []byte) []byte {
	p := make([]byte, ipHead+udpHead, ipHead+udpHead+len(payload)+1)
	p[0], p[8], p[9] = 0x45, 64, protoUDP
	binary.BigEndian.PutUint16(p[2:], uint16(ipHead+udpHead+len(payload)))
	copy(p[12:], from.AsSlice())
	copy(p[16:], to.AsSlice())
	binary.BigEndian.PutUint16(p[10:], checksum(0, p[:ipHead]))
	u := p[ipHead:]
	binary.BigEndian.PutUint16(u, clientPort)
	binary.BigEndian.PutUint16(u[2:], serverPort)
	binary.BigEndian.PutUint16(u[4:], uint16(udpHead+len(payload)))
	p = append(p, payload...)
	pseudo := uint32(protoUDP + udpHead + len(payload))
	for i := 12; i < ipHead; i += 2 {
		pseudo += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	sum := checksum(pseudo, p[ipHead:])
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(p[ipHead+6:], sum)
	return p
}

// checksum returns the Internet checksum of octets, beginning with a sum (RFC 1071).
func checksum(sum uint32, b []byte) uint16 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// errOther is the error of a packet that is no reply to this client.
var errOther = errors.New("no DHCP reply to this client")

// decode returns the reply in an IPv4 packet, from the neighbour via.
func decode(p []byte, mac net.HardwareAddr, via string) (netstate.DHCPReply, error) {
	var r netstate.DHCPReply
	if len(p) < ipHead {
		return r, errOther
	}
	head, total := int(p[0]&0xf)*4, int(binary.BigEndian.Uint16(p[2:]))
	if head < ipHead || p[9] != protoUDP || total > len(p) || total < head+udpHead ||
		binary.BigEndian.Uint16(p[head:]) != serverPort || binary.BigEndian.Uint16(p[head+2:]) != clientPort {
		return r, errOther
	}
	m, err := dhcpv4.FromBytes(p[head+udpHead : total])
	if err != nil {
		return r, err
	}
	for t, number := range types {
		if number == m.MessageType() {
			r.Type = t
		}
	}
	reply := r.Type == netstate.DHCPOffer || r.Type == netstate.DHCPAck || r.Type == netstate.DHCPNak
	if m.OpCode != dhcpv4.OpcodeBootReply || !slices.Equal(m.ClientHWAddr, mac) || !reply {
		return netstate.DHCPReply{}, errOther
	}
	r.XID, r.Via, r.Bits = binary.BigEndian.Uint32(m.TransactionID[:]), via, -1
	r.Address, r.Server = address(m.YourIPAddr), address(m.ServerIdentifier())
	if ones, bits := m.SubnetMask().Size(); bits == 32 {
		r.Bits = ones
	}
	r.Routers, r.DNS = addresses(m.Router()), addresses(m.DNS())
	if mtu, err := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, m.Options); err == nil {
		r.MTU = int(mtu)
	}
	r.Lease = seconds(m, dhcpv4.OptionIPAddressLeaseTime)
	r.T1, r.T2 = seconds(m, dhcpv4.OptionRenewTimeValue), seconds(m, dhcpv4.OptionRebindingTimeValue)
	return r, nil
}

// seconds returns the value of an option, 0 without it.
func seconds(m *dhcpv4.DHCPv4, code dhcpv4.OptionCode) time.Duration {
	v := m.Options.Get(code)
	if len(v) != 4 {
		return 0
	}
	return time.Duration(binary.BigEndian.Uint32(v)) * time.Second
}

// address returns an IPv4 address, invalid for any other.
func address(b net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(b.To4())
	return a
}

func addresses(ips []net.IP) []netip.Addr {
	var out []netip.Addr
	for _, b := range ips {
		out = append(out, address(b))
	}
	return out
}
