package dhcp

import (
	"net"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"edgespan/netinst/netstate"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

var mac = net.HardwareAddr{2, 0, 0, 0, 0, 9}

// fromServer returns a packet of a server.
func fromServer(t testing.TB, with ...dhcpv4.Modifier) []byte {
	t.Helper()
	m, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(mac),
		dhcpv4.WithTransactionID(dhcpv4.TransactionID{0, 0, 0, 7}),
		func(d *dhcpv4.DHCPv4) { d.OpCode = dhcpv4.OpcodeBootReply },
	}, with...)...)
	if err != nil {
		t.Fatal(err)
	}
	p := datagram(netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.50"), m.ToBytes())
	p[ipHead], p[ipHead+1], p[ipHead+2], p[ipHead+3] = 0, serverPort, 0, clientPort
	return p
}

func TestAReplyIsRead(t *testing.T) {
	p := fromServer(t, dhcpv4.WithMessageType(dhcpv4.MessageTypeAck), dhcpv4.WithYourIP(net.IPv4(192, 0, 2, 50)),
		dhcpv4.WithServerIP(net.IPv4(192, 0, 2, 9)), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(192, 0, 2, 1))),
		dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithRouter(net.IPv4(192, 0, 2, 1)),
		dhcpv4.WithDNS(net.IPv4(198, 51, 100, 53), net.IPv4(198, 51, 100, 54)), dhcpv4.WithLeaseTime(120),
		dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{5, 120}),
		dhcpv4.WithGeneric(dhcpv4.OptionRenewTimeValue, []byte{0, 0, 0, 5}),
		dhcpv4.WithGeneric(dhcpv4.OptionRebindingTimeValue, []byte{0, 0, 0, 60}))
	addr := netip.MustParseAddr
	want := netstate.DHCPReply{Type: netstate.DHCPAck, XID: 7, Address: addr("192.0.2.50"), Bits: 24,
		Server: addr("192.0.2.1"), Via: "02:00:00:00:00:01", Routers: []netip.Addr{addr("192.0.2.1")},
		DNS: []netip.Addr{addr("198.51.100.53"), addr("198.51.100.54")}, MTU: 1400, Lease: 2 * time.Minute,
		T1: 5 * time.Second, T2: time.Minute}
	got, err := decode(append(p, "padding"...), mac, "02:00:00:00:00:01")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

// A reply without options, or with values of a wrong length, has them absent.
func TestAnEmptyReplyIsRead(t *testing.T) {
	p := fromServer(t, dhcpv4.WithMessageType(dhcpv4.MessageTypeNak),
		dhcpv4.WithGeneric(dhcpv4.OptionSubnetMask, []byte{255, 0, 255, 0}),
		dhcpv4.WithGeneric(dhcpv4.OptionIPAddressLeaseTime, []byte{1}),
		dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, []byte{1, 2, 3}))
	got, err := decode(p, mac, "")
	if err != nil || got.Type != netstate.DHCPNak || got.Bits > 0 || got.Lease != 0 || got.MTU != 0 ||
		got.Server.IsValid() {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestOtherPacketsAreNoReplies(t *testing.T) {
	ack := dhcpv4.WithMessageType(dhcpv4.MessageTypeAck)
	good := fromServer(t, ack)
	change := func(at int, to byte) []byte {
		p := append([]byte{}, good...)
		p[at] = to
		return p
	}
	for name, p := range map[string][]byte{
		"nothing": nil, "half a header": good[:10], "TCP": change(9, 6), "a header beyond the end": change(0, 0x4f),
		"a short header": change(0, 0x41), "another source port": change(ipHead+1, 53), "another port": change(ipHead+3, 67),
		"a length beyond the end": change(2, 0xff), "a length without a datagram": change(2, 0)[:40],
		"a request": change(ipHead+udpHead, 1), "another client's": change(ipHead+udpHead+28, 8),
		"a discover": fromServer(t, dhcpv4.WithMessageType(dhcpv4.MessageTypeDiscover)), "BOOTP": fromServer(t),
	} {
		if r, err := decode(p, mac, ""); err == nil {
			t.Errorf("%s is read as %+v", name, r)
		}
	}
}

func TestAQueryIsWritten(t *testing.T) {
	addr := netip.MustParseAddr
	q := netstate.DHCPQuery{Type: netstate.DHCPRequest, XID: 7, Client: addr("192.0.2.50"), To: addr("192.0.2.1"),
		Requested: addr("192.0.2.51"), Server: addr("192.0.2.2")}
	p, err := encode(q, mac)
	if err != nil {
		t.Fatal(err)
	}
	if checksum(0, p[:ipHead]) != 0 || addr("192.0.2.50") != netip.AddrFrom4([4]byte(p[12:16])) ||
		addr("192.0.2.1") != netip.AddrFrom4([4]byte(p[16:20])) {
		t.Errorf("the header is %x", p[:ipHead])
	}
	m, err := dhcpv4.FromBytes(p[ipHead+udpHead:])
	if err != nil {
		t.Fatal(err)
	}
	if m.MessageType() != dhcpv4.MessageTypeRequest || m.TransactionID != (dhcpv4.TransactionID{0, 0, 0, 7}) ||
		!m.ClientIPAddr.Equal(net.IPv4(192, 0, 2, 50)) || !m.RequestedIPAddress().Equal(net.IPv4(192, 0, 2, 51)) ||
		!m.ServerIdentifier().Equal(net.IPv4(192, 0, 2, 2)) || !m.IsOptionRequested(dhcpv4.OptionInterfaceMTU) {
		t.Errorf("the message is %s", m.Summary())
	}
	p, err = encode(netstate.DHCPQuery{Type: netstate.DHCPRelease, Client: addr("192.0.2.50")}, mac)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = dhcpv4.FromBytes(p[ipHead+udpHead:]); err != nil || len(m.ParameterRequestList()) > 0 {
		t.Errorf("a release asks for options: %s, %v", m.Summary(), err)
	}
}

// FuzzDecode reads any packet: what a hostile server sends has a bounded reply, and does no harm.
func FuzzDecode(f *testing.F) {
	f.Add(fromServer(f, dhcpv4.WithMessageType(dhcpv4.MessageTypeAck), dhcpv4.WithNetmask(net.CIDRMask(24, 32))))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := decode(p, mac, "")
		if err == nil && (r.Lease < 0 || r.MTU < 0 || len(r.DNS)+len(r.Routers) > len(p)/4) {
			t.Errorf("%x is read as %+v", p, r)
		}
	})
}
