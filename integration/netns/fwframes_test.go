package netns_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func fwMAC(t *testing.T, s string) []byte {
	m, err := net.ParseMAC(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fwUDP returns an IPv4 packet with a UDP datagram without checksum.
func fwUDP(src, dst netip.Addr, srcPort, dstPort uint16, payload string) []byte {
	udp := binary.BigEndian.AppendUint16(nil, srcPort)
	udp = binary.BigEndian.AppendUint16(udp, dstPort)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(payload)))
	udp = append(append(udp, 0, 0), payload...)
	h := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0}
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(udp)))
	h = append(append(h, src.AsSlice()...), dst.AsSlice()...)
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(h[i])<<8 | uint32(h[i+1])
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum&0xffff+sum>>16))
	return append(h, udp...)
}

// fwARP returns a request for dst; the trailer is a mark to find it again.
func fwARP(mac []byte, src, dst netip.Addr, mark string) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, 1}
	b = append(append(b, mac...), src.AsSlice()...)
	b = append(append(b, make([]byte, 6)...), dst.AsSlice()...)
	return append(b, mark...)
}

func fwFrame(dst, src []byte, etherType uint16, payload []byte) []byte {
	f := append(append(bytes.Clone(dst), src...), byte(etherType>>8), byte(etherType))
	f = append(f, payload...)
	for len(f) < 60 { // minimum length of a frame
		f = append(f, 0)
	}
	return f
}

// fwTagged inserts a VLAN tag into a frame.
func fwTagged(etherType uint16, f []byte) []byte {
	return append(append(bytes.Clone(f[:12]), byte(etherType>>8), byte(etherType), 0, 5), f[12:]...)
}

// fwDHCP returns a request to a DHCP server for the owner of chaddr (RFC 2131 §2), with its mark in the field sname;
// change may corrupt it.
func fwDHCP(src, dst netip.Addr, port uint16, chaddr []byte, mark string, change func([]byte)) []byte {
	p := make([]byte, 240)
	copy(p, []byte{1, 1, 6})
	copy(p[28:], chaddr)
	copy(p[44:], mark)
	if change != nil {
		change(p)
	}
	return fwUDP(src, dst, port, 67, string(p))
}

// fwOptions inserts four bytes of options (NOP, RFC 791) into the header of an IPv4 packet.
func fwOptions(p []byte) []byte {
	p = append(append(bytes.Clone(p[:20]), 1, 1, 1, 1), p[20:]...)
	p[0] = 0x46
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	binary.BigEndian.PutUint16(p[10:], 0)
	binary.BigEndian.PutUint16(p[10:], fwSum(p[:24], 0))
	return p
}

// fwRaw opens a socket for complete frames on a link of a namespace.
func (l *fwLab) fwRaw(ns, link string) int {
	fd := -1
	l.do(ns, func() error {
		i, err := net.InterfaceByName(link)
		if err != nil {
			return err
		}
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: i.Index})
	})
	l.t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// fwHear reads frames until the mark end arrives, and returns which marks arrived before it.
func fwHear(t *testing.T, fd int, marks []string, end string) map[string]bool {
	t.Helper()
	got := map[string]bool{}
	tv := unix.NsecToTimeval((5 * time.Second).Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2000)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatalf("the last frame never came: %v", err)
		}
		for _, m := range marks {
			if bytes.Contains(buf[:n], []byte(m)) {
				got[m] = true
			}
		}
		if bytes.Contains(buf[:n], []byte(end)) {
			return got
		}
	}
}

// TestFirewallOfFrames sends frames of every kind from one app to another, which both allow everything. The last frame
// always passes, and a veth keeps the order, so a frame that has not arrived before it never does.
func TestFirewallOfFrames(t *testing.T) {
	t.Parallel()
	for _, guard := range []bool{true, false} {
		t.Run(fmt.Sprintf("guard=%v", guard), func(t *testing.T) {
			l, set := fwTwoNetworks(t, guard)
			set(fwRules{a: fwAllowAll, b: fwAllowAll})
			own, other, forged := fwMAC(t, "02:00:00:00:61:01"), fwMAC(t, "02:00:00:00:62:02"), fwMAC(t, "02:00:00:00:00:77")
			bcast := fwMAC(t, "ff:ff:ff:ff:ff:ff")
			nobody, zero := netip.MustParseAddr("10.1.0.77"), netip.IPv4Unspecified()
			v4 := func(src netip.Addr, mark string) []byte { return fwUDP(src, fwB.addr, 4000, 80, mark) }
			dhcp := func(port uint16, chaddr []byte, mark string, change func([]byte)) []byte {
				return fwFrame(other, own, 0x0800, fwDHCP(fwA.addr, fwB.addr, port, chaddr, mark, change))
			}
			cases := []struct {
				name           string
				frame          []byte
				guarded, plain bool
			}{
				{"its own packet", fwFrame(other, own, 0x0800, v4(fwA.addr, "#own")), true, true},
				{"another MAC", fwFrame(other, forged, 0x0800, v4(fwA.addr, "#mac")), false, true},
				{"another address", fwFrame(other, own, 0x0800, v4(nobody, "#ip")), false, true},
				{"the receiver's address", fwFrame(other, own, 0x0800, v4(fwB.addr, "#peer")), false, true},
				{"no address, no DHCP", fwFrame(other, own, 0x0800, v4(zero, "#zero")), false, true},
				{"its own ARP", fwFrame(bcast, own, 0x0806, fwARP(own, fwA.addr, fwB.addr, "#arp-own")), true, true},
				{"an ARP probe for its own address", fwFrame(bcast, own, 0x0806, fwARP(own, zero, fwA.addr, "#arp-probe")), true,
					true},
				{"an ARP probe for another's address", fwFrame(bcast, own, 0x0806, fwARP(own, zero, fwB.addr, "#arp-conflict")),
					false, true},
				{"an answer of a DHCP server", fwFrame(other, own, 0x0800, fwUDP(fwA.addr, fwB.addr, 67, 68, "#dhcp-server")),
					false, false},
				{"an answer of a DHCP server from another port",
					fwFrame(other, own, 0x0800, fwUDP(fwA.addr, fwB.addr, 4000, 68, "#dhcp-any")), false, false},
				{"DHCP for itself", dhcp(68, own, "#dhcp-own", nil), true, true},
				{"DHCP in another's name", dhcp(68, other, "#dhcp-chaddr", nil), false, false},
				{"DHCP from another port", dhcp(67, own, "#dhcp-sport", nil), false, false},
				{"DHCP through a relay", dhcp(68, own, "#dhcp-relay", func(p []byte) { p[24] = 10 }), false, false},
				{"a DHCP answer to a server", dhcp(68, own, "#dhcp-op", func(p []byte) { p[0] = 2 }), false, false},
				{"DHCP of other hardware", dhcp(68, own, "#dhcp-htype", func(p []byte) { p[1] = 6 }), false, false},
				{"DHCP of a short address", dhcp(68, own, "#dhcp-hlen", func(p []byte) { p[2] = 5 }), false, false},
				{"DHCP cut short", fwFrame(other, own, 0x0800, fwUDP(fwA.addr, fwB.addr, 68, 67, "\x01\x01\x06#dhcp-short")), false,
					false},
				{"DHCP in another's name behind IP options", fwFrame(other,
					own, 0x0800, fwOptions(fwDHCP(fwA.addr, fwB.addr, 68, other, "#dhcp-options", nil))), false, false},
				{"ARP with another sender MAC", fwFrame(bcast, own, 0x0806, fwARP(forged, fwA.addr, fwB.addr, "#arp-mac")), false,
					true},
				{"ARP with the gateway's address", fwFrame(bcast, own, 0x0806, fwARP(own, fwGate.addr, fwB.addr, "#arp-gw")), false,
					true},
				{"ARP of another hardware type", fwFrame(bcast,
					own, 0x0806, append([]byte{0, 6}, fwARP(own, fwGate.addr, fwB.addr, "#arp-type")[2:]...)), false, true},
				{"a tagged packet", fwTagged(0x8100, fwFrame(other, own, 0x0800, v4(fwA.addr, "#tag"))), false, false},
				{"a packet with a service tag", fwTagged(0x88a8, fwFrame(other, own, 0x0800, v4(fwA.addr, "#stag"))), false, false},
				{"a tagged ARP", fwTagged(0x8100, fwFrame(bcast, own, 0x0806, fwARP(own, fwA.addr, fwB.addr, "#tag-arp"))), false,
					false},
				{"IPv6", fwFrame(other, own, 0x86dd,
					append([]byte{0x60, 0, 0, 0, 0, 8, 59, 64}, append(make([]byte, 32), "#v6"...)...)), false, false},
				{"another ethertype", fwFrame(other, own, 0x88b5, []byte("#local")), false, false},
				{"a frame with a length", fwFrame(other, own, 40, append([]byte{0xaa, 0xaa, 3}, "#llc"...)), false, false},
			}
			from, to := l.fwRaw("a", "eth0"), l.fwRaw("b", "eth0")
			var marks []string
			mark := func(f []byte) string { // from '#' to the first byte that is not part of a mark
				f = f[bytes.LastIndexByte(f, '#'):]
				return string(bytes.TrimRight(f, "\x00"))
			}
			for _, c := range cases {
				marks = append(marks, mark(c.frame))
			}
			for _, c := range cases {
				if _, err := unix.Write(from, c.frame); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
			}
			if _, err := unix.Write(from, fwFrame(other, own, 0x0800, v4(fwA.addr, "#the-end"))); err != nil {
				t.Fatal(err)
			}
			got := fwHear(t, to, marks, "#the-end")
			for i, c := range cases {
				want := c.plain
				if guard {
					want = c.guarded
				}
				if got[marks[i]] != want {
					t.Errorf("%s: arrived %v", c.name, got[marks[i]])
				}
			}
		})
	}
}

// An adapter that is in the bridge but in no chain passes nothing, of whatever network it is; links of others pass.
func TestFirewallDropsFramesOfUnknownLinks(t *testing.T) {
	t.Parallel()
	l, set := fwTwoNetworks(t, true)
	set(fwRules{a: fwAllowAll, b: fwAllowAll})
	for _, link := range []string{"es1a9", "es10a1", "lan0"} {
		l.in("node", "ip", "link", "add", link, "type", "veth", "peer", "name", link, "netns", l.ns("c"))
		l.in("node", "ip", "link", "set", link, "master", "es1", "up")
		l.in("c", "ip", "link", "set", link, "up")
	}
	to := l.fwRaw("b", "eth0")
	src, dst := fwMAC(t, "02:00:00:00:00:99"), fwMAC(t, "ff:ff:ff:ff:ff:ff")
	for _, c := range []struct{ link, mark string }{{"es1a9", "#unknown"}, {"es10a1", "#of-another"},
		{"lan0", "#foreign"}} {
		if _, err := unix.Write(l.fwRaw("c", c.link),
			fwFrame(dst, src, 0x0806, fwARP(src, fwC.addr, fwB.addr, c.mark))); err != nil {
			t.Fatal(err)
		}
	}
	if got := fwHear(t, to, []string{"#unknown", "#of-another"}, "#foreign"); len(got) > 0 {
		t.Errorf("frames of links without a chain came through: %v", got)
	}
	// Nor does it get any frame. Once the second broadcast has come to one port, the first has come to all.
	unknown, foreign := l.fwRaw("c", "es1a9"), l.fwRaw("c", "lan0")
	src = fwMAC(t, "02:00:00:00:61:01")
	for _, mark := range []string{"#first", "#second"} {
		if _, err := unix.Write(l.fwRaw("a", "eth0"),
			fwFrame(dst, src, 0x0806, fwARP(src, fwA.addr, fwB.addr, mark))); err != nil {
			t.Fatal(err)
		}
	}
	fwHear(t, foreign, nil, "#second")
	buf := make([]byte, 2000)
	for {
		n, _, err := unix.Recvfrom(unknown, buf, unix.MSG_DONTWAIT)
		if err != nil {
			break
		}
		if bytes.Contains(buf[:n], []byte("#first")) {
			t.Error("a link without a chain gets the frames of an app")
		}
	}
}

// A packet for another network's subnet doesn't leave by the default route either.
func TestFirewallSendsNoOtherNetworkOutOfThePort(t *testing.T) {
	t.Parallel()
	l, set := fwTwoNetworks(t, true)
	set(fwRules{a: fwAllowAll})
	wire := l.fwRaw("world", "eth0")
	l.send(fwA, fwC, 80, "#for-another-network")
	l.send(fwA, fwWorld, 80, "#for-the-world")
	if got := fwHear(t, wire, []string{"#for-another-network"}, "#for-the-world"); len(got) > 0 {
		t.Error("it left")
	}
}
