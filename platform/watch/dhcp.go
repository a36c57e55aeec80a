package watch

import (
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

// Offsets and options of a DHCP message (RFC 2131 §2, RFC 2132).
const (
	dhcpClientAddr = 12
	dhcpYourAddr   = 16
	dhcpMAC        = 28
	dhcpMagic      = 236
	dhcpOptions    = 240
	optRequested   = 50
	optLease       = 51
	optType        = 53
	optServer      = 54
	optEnd         = 255
)

var dhcpTypes = map[byte]netstate.DHCPType{1: netstate.DHCPDiscover, 2: netstate.DHCPOffer, 3: netstate.DHCPRequest,
	4: netstate.DHCPDecline, 5: netstate.DHCPAck, 6: netstate.DHCPNak, 7: netstate.DHCPRelease, 8: netstate.DHCPInform}

// parseDHCP reads a message in a frame that the filter has passed; false if it is none of an Ethernet client, or goes
// the other way than it should.
func parseDHCP(frame []byte, outgoing bool, now time.Time) (m netstate.DHCPMessage, ok bool) {
	p, ok := parsePacket(frame)
	if !ok || p.proto != unix.IPPROTO_UDP || len(p.payload) < dhcpOptions {
		return m, false
	}
	b := p.payload
	const ethernet, macLength = 1, 6
	if b[1] != ethernet || b[2] != macLength || string(b[dhcpMagic:dhcpOptions]) != "\x63\x82\x53\x63" ||
		(b[0] == 2) != outgoing || b[0] < 1 || b[0] > 2 {
		return m, false
	}
	// What an app sends is its own, and so is what it alone gets, whatever client that names.
	mac := frame[6:12]
	if outgoing {
		if mac = frame[:6]; mac[0]&1 != 0 {
			mac = b[dhcpMAC : dhcpMAC+macLength]
		}
	}
	m = netstate.DHCPMessage{FromServer: outgoing, MAC: net.HardwareAddr(mac).String(), At: now}
	var asked netip.Addr
	for o := b[dhcpOptions:]; len(o) > 0 && o[0] != optEnd; {
		if o[0] == 0 {
			o = o[1:]
			continue
		}
		if len(o) < 2 || len(o) < 2+int(o[1]) {
			break
		}
		switch v := o[2 : 2+int(o[1])]; {
		case o[0] == optType && len(v) == 1:
			m.Type = dhcpTypes[v[0]]
		case o[0] == optRequested && len(v) == 4:
			asked = netip.AddrFrom4([4]byte(v))
		case o[0] == optServer && len(v) == 4:
			m.Server = netip.AddrFrom4([4]byte(v))
		case o[0] == optLease && len(v) == 4:
			m.Lease = time.Duration(binary.BigEndian.Uint32(v)) * time.Second
		}
		o = o[2+int(o[1]):]
	}
	client, your := netip.AddrFrom4([4]byte(b[dhcpClientAddr:])), netip.AddrFrom4([4]byte(b[dhcpYourAddr:]))
	switch {
	case outgoing:
		m.Address = your
	case asked.IsValid():
		m.Address = asked
	default:
		m.Address = client
	}
	if m.Address.IsUnspecified() {
		m.Address = netip.Addr{}
	}
	return m, true
}
