package netns_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"edgespan/netinst"
)

// fwTCP returns an IPv4 packet with a TCP segment and a valid checksum, which conntrack checks.
func fwTCP(src, dst netip.AddrPort, flags byte, payload string) []byte {
	p := fwUDP(src.Addr(), dst.Addr(), src.Port(), dst.Port(), strings.Repeat("\x00", 12)+payload)
	p[9] = unix.IPPROTO_TCP
	h := p[20:]
	binary.BigEndian.PutUint32(h[4:], 1000)
	binary.BigEndian.PutUint32(h[8:], 2000)
	copy(h[12:], []byte{5 << 4, flags, 0x20, 0, 0, 0, 0, 0})
	binary.BigEndian.PutUint16(p[10:], 0)
	binary.BigEndian.PutUint16(p[10:], fwSum(p[:20], 0))
	pseudo := append(append(src.Addr().AsSlice(), dst.Addr().AsSlice()...), 0, unix.IPPROTO_TCP, byte(len(h)>>8),
		byte(len(h)))
	binary.BigEndian.PutUint16(h[16:], fwSum(h, uint32(^fwSum(pseudo, 0))))
	return p
}

// fwSum returns the checksum of RFC 1071 over b, starting with sum.
func fwSum(b []byte, sum uint32) uint16 {
	for i := 0; i < len(b); i += 2 {
		sum += uint32(b[i]) << 8
		if i+1 < len(b) {
			sum += uint32(b[i+1])
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

func (l *fwLab) mac(ns, link string) []byte {
	var mac []byte
	l.do(ns, func() error {
		i, err := net.InterfaceByName(link)
		if err == nil {
			mac = i.HardwareAddr
		}
		return err
	})
	return mac
}

// A neighbour on the uplink sends packets with an app's address: to an app that allows that app, to the gateway, and
// on a flow of the two apps. With rp_filter off or loose, the kernel accepts them.
func TestFirewallDropsForgedSources(t *testing.T) {
	t.Parallel()
	l, set := fwTwoNetworks(t, true)
	fromA := netinst.ACLRule{Direction: netinst.Ingress, Action: netinst.Allow, IP: netip.PrefixFrom(fwA.addr, 32)}
	fromNext := netinst.ACLRule{Direction: netinst.Ingress, Action: netinst.Allow, IP: netip.PrefixFrom(fwNext.addr, 32)}
	set(fwRules{a: fwAllowAll, b: []netinst.ACLRule{fromA, fromNext}})
	inbox := &fwInbox{got: map[string]bool{}}
	for _, ns := range []string{"b", "node"} {
		inbox.listen(l, ns)
	}
	wire, node := l.fwRaw("world", "eth0"), l.mac("node", "eth0")
	send := func(src netip.Addr, srcPort uint16, dst netip.Addr, port uint16, mark string) {
		if _, err := unix.Write(wire,
			fwFrame(node, l.mac("world", "eth0"), 0x0800, fwUDP(src, dst, srcPort, port, mark))); err != nil {
			t.Fatal(err)
		}
	}
	l.send(fwA, fwB, 80, "a flow") // the flow that the forged packet uses
	l.until("the flow of the two apps", func() bool { return inbox.has("a flow") })
	for _, rp := range []string{"0", "2"} {
		for _, link := range []string{"all", "eth0"} {
			l.in("node", "sysctl", "-qw", "net.ipv4.conf."+link+".rp_filter="+rp)
		}
		marks := []string{}
		for _, x := range []struct {
			to   netip.Addr
			port uint16
			from uint16
		}{{fwB.addr, 80, 4001}, {fwB.addr, 80, fwLocalPort}, {fwGate.addr, 53, 4001}} {
			mark := fmt.Sprintf("rp_filter %s, forged %d > %s:%d", rp, x.from, x.to, x.port)
			marks = append(marks, mark)
			send(fwA.addr, x.from, x.to, x.port, mark)
		}
		end := "rp_filter " + rp + ", honest"
		l.until(end, func() bool {
			send(fwNext.addr, 4001, fwB.addr, 80, end)
			return inbox.has(end)
		})
		for _, mark := range marks {
			if inbox.has(mark) {
				t.Errorf("%s: received", mark)
			}
		}
	}
}

// A packet without a conntrack entry is not translated, and neither is a flow whose entry was created while no rule
// translated it. Neither may leave by the port, with or without the spoof guard.
func TestFirewallSendsNothingUntranslated(t *testing.T) {
	t.Parallel()
	for _, guard := range []bool{true, false} {
		t.Run(fmt.Sprintf("guard=%v", guard), func(t *testing.T) {
			l, set := fwTwoNetworks(t, guard)
			set(fwRules{a: fwAllowAll})
			app, wire := l.fwRaw("a", "eth0"), l.fwRaw("world", "eth0")
			own, node := l.mac("a", "eth0"), l.mac("node", "es1")
			send := func(p []byte) {
				if _, err := unix.Write(app, fwFrame(node, own, 0x0800, p)); err != nil {
					t.Fatal(err)
				}
			}
			marks := []string{"#plain", "#fin", "#rst", "#older"}
			from, to := netip.AddrPortFrom(fwA.addr, 3333), netip.AddrPortFrom(fwWorld.addr, 80)
			// A flow that begins while a foreign rule prevents translation, and one from before the masquerade.
			l.in("node", "iptables", "-t", "nat", "-I", "POSTROUTING", "-j", "ACCEPT")
			send(fwUDP(fwA.addr, fwWorld.addr, 3332, 443, "#plain"))
			l.in("node", "iptables", "-t", "nat", "-D", "POSTROUTING", "-j", "ACCEPT")
			older := fwUDP(fwA.addr, fwWorld.addr, 3333, 443, "#older")
			l.in("node", "conntrack", "-I", "-p", "udp", "-s", fwA.addr.String(), "-d", fwWorld.addr.String(), "--sport", "3333",
				"--dport", "443", "-t", "100")
			send(fwUDP(fwA.addr, fwWorld.addr, 3334, 443, "#begin"))
			fwHear(t, wire, marks, "#begin")
			if out := l.try("node", "conntrack", "-L", "-p", "udp", "--orig-port-src", "3333"); !strings.Contains(out, "dst="+
				fwA.addr.String()) {
				t.Fatalf("the flow was translated or is not tracked: %s", out)
			}
			send(older)
			send(fwTCP(from, to, 0x11, "#fin"))
			send(fwTCP(from, to, 0x04, "#rst"))
			send(fwUDP(fwA.addr, fwWorld.addr, 3335, 443, "#the-end"))
			for mark := range fwHear(t, wire, marks, "#the-end") {
				t.Errorf("%s left", mark)
			}
		})
	}
}

// A flow that the world opened to the app's own address gets its replies untranslated, and the app's ICMP errors about
// it.
func TestFirewallAnswersByTheAppsOwnAddress(t *testing.T) {
	t.Parallel()
	l, set := fwTwoNetworks(t, true)
	set(fwRules{a: []netinst.ACLRule{{Direction: netinst.Ingress, Action: netinst.Allow,
		IP: netip.PrefixFrom(fwNext.addr, 32)}}})
	l.do("world", func() error {
		c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(fwA.addr, 9)))
		if err != nil {
			return err
		}
		defer c.Close()
		l.until("port unreachable", func() bool { // ICMP becomes an error of a connected socket
			_, err := c.Write([]byte("x"))
			return err != nil
		})
		return nil
	})
}
