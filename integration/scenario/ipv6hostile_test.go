package scenario

import (
	"context"
	wire "encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/nclient6"

	"edgespan/netinst"
)

// packet6 returns an IPv6 packet with the hop limit of neighbour discovery.
func packet6(src, dst netip.Addr, next byte, payload []byte) []byte {
	h := []byte{0x60, 0, 0, 0, byte(len(payload) >> 8), byte(len(payload)), next, 255}
	return slices.Concat(h, src.AsSlice(), dst.AsSlice(), payload)
}

// icmp6 returns an ICMPv6 message with its checksum (RFC 4443 §2.3).
func icmp6(src, dst netip.Addr, kind byte, body []byte) []byte {
	m := append([]byte{kind, 0, 0, 0}, body...)
	pseudo := slices.Concat(src.AsSlice(), dst.AsSlice(), []byte{0, 0, byte(len(m) >> 8), byte(len(m)), 0, 0, 0, 58})
	wire.BigEndian.PutUint16(m[2:], checksum(pseudo, m))
	return m
}

// group6 is the MAC address of a multicast group (RFC 2464 §7).
func group6(dst netip.Addr) net.HardwareAddr {
	return append(net.HardwareAddr{0x33, 0x33}, dst.AsSlice()[12:]...)
}

// As an operator I run an app that attacks its neighbours by IPv6, and they notice nothing.
func TestIPv6LiesOfAnAppReachNobody(t *testing.T) {
	t.Parallel()
	w := newWorld6(t, "web", "client")
	w.start(doc([]string{network6(1, `subnet: "`+net6+`", nat: true`)}, onNet(1, 1, "web", allowAll),
		onNet(2, 1, "client", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	web, client := w.slaac("web", net6), w.slaac("client", net6)
	own, peer, node := w.mac("web", "eth0"), w.mac("client", "eth0"), w.mac("node", "es1")
	local := netinst.EUI64(netip.MustParsePrefix("fe80::/64"), own.String())
	gateway := netip.MustParseAddr(strings.Split(net6, "/")[0] + "1")
	all, router := netip.MustParseAddr("ff02::1"), netip.MustParseAddr("fe80::1")
	foreign, stranger := net.HardwareAddr{2, 0, 0, 0, 0, 9}, gateway.Next()

	// Each lie is found by its mark: words that fill an option of neighbour discovery, or a part of the message itself.
	lies := map[string][]byte{}
	option := func(mark string) []byte { return append([]byte{253, byte((len(mark) + 9) / 8)}, pad8(mark)...) }
	advert := func(mark string) []byte {
		return icmp6(local, all, 134, slices.Concat([]byte{64, 0, 7, 8}, make([]byte, 8), option(mark)))
	}
	lie := func(mark string, dst net.HardwareAddr, packet []byte) {
		lies[mark] = ether(dst, own, etherIPv6, packet)
	}
	lie("advertisement", group6(all), packet6(local, all, 58, advert("advertisement")))
	lie("behind options", group6(all), packet6(local, all, 60,
		append([]byte{58, 0, 1, 4, 0, 0, 0, 0}, advert("behind options")...)))
	lie("hop by hop", group6(all), packet6(local, all, 0,
		append([]byte{58, 0, 1, 4, 0, 0, 0, 0}, advert("hop by hop")...)))
	lie("atomic fragment", group6(all), packet6(local, all, 44,
		append([]byte{58, 0, 0, 0, 0, 0, 0, 7}, advert("atomic fragment")...)))
	lie("first fragment", group6(all), packet6(web, all, 44,
		append([]byte{60, 0, 0, 1, 0, 0, 0, 8}, []byte("58first fragment")...)))
	lie("redirect", peer, packet6(router, client, 58, icmp6(router, client, 137,
		slices.Concat(make([]byte, 4), web.AsSlice(), stranger.AsSlice(), option("redirect")))))
	lie("listener query", group6(all), packet6(local, all, 58, icmp6(local, all, 130,
		append(make([]byte, 4), []byte("listener query  ")...))))
	lie("DHCPv6 answer", peer, packet6(web, client, 17, udp(547, 546, []byte("DHCPv6 answer"))))
	lie("wrong source", peer, packet6(stranger, client, 17, udp(7, floodPort, []byte("wrong source"))))
	lie("router as source", peer, packet6(router, client, 17, udp(7, floodPort, []byte("router as source"))))
	lie("for another", peer, packet6(web, stranger, 17, udp(7, floodPort, []byte("for another"))))
	lies["wrong MAC"] = ether(peer, foreign, etherIPv6, packet6(web, client, 17, udp(7, floodPort, []byte("wrong MAC"))))
	neighbour := func(kind, opt byte, src, target netip.Addr, mac net.HardwareAddr) {
		body := slices.Concat([]byte{0x60, 0, 0, 0}, target.AsSlice(), []byte{opt, 1}, mac)
		lies[string(body[4:])] = ether(group6(all), own, etherIPv6, packet6(src, all, 58, icmp6(src, all, kind, body)))
	}
	neighbour(136, 2, web, gateway, own)     // the gateway is here
	neighbour(136, 2, local, router, own)    // the router is here
	neighbour(136, 2, web, client, own)      // the client is here
	neighbour(136, 2, web, web, foreign)     // I am elsewhere
	neighbour(135, 1, web, client, foreign)  // who is the client? tell another
	neighbour(135, 1, gateway, client, own)  // who is the client? tell the gateway, which is here
	neighbour(136, 2, gateway, gateway, own) // as the gateway

	var marks []string
	for m := range lies {
		marks = append(marks, m)
	}
	sees := map[string]*sniffer{"client": w.sniff("client", "eth0", append(marks, goodMark)...),
		"node": w.sniff("node", "es1", append(marks, goodMark)...)}
	s := w.raw("web")
	send := func(frame []byte) {
		t.Helper()
		if err := s.send(frame); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		for _, frame := range lies {
			send(frame)
		}
	}
	w.eventually("an honest frame everywhere", func() bool {
		send(ether(peer, own, etherIPv6, packet6(web, client, 17, udp6(web, client, floodPort, goodMark))))
		send(ether(node, own, etherIPv6, packet6(web, gateway, 17, udp6(web, gateway, floodPort, goodMark))))
		return sees["client"].count(goodMark) >= 3 && sees["node"].count(goodMark) >= 3
	})
	for place, at := range sees {
		for _, m := range marks {
			if n := at.count(m); n > 0 {
				t.Errorf("%s: %d frames of %q", place, n, m)
			}
		}
	}
	w.reaches6("client", isp6Web)
	if r := w.in("client", "ip", "-6", "route", "show", "default"); strings.Count(r, "default") != 1 ||
		!strings.Contains(r, "via fe80::1 ") {
		t.Errorf("routes of the client: %s", r)
	}
}

// pad8 fills an option to a multiple of 8 bytes, its two first bytes included.
func pad8(mark string) []byte { return append([]byte(mark), make([]byte, (14-len(mark)%8)%8)...) }

// udp6 is udp with the checksum that IPv6 needs.
func udp6(src, dst netip.Addr, port uint16, text string) []byte {
	return udp6From(7, src, dst, port, text)
}

func udp6From(from uint16, src, dst netip.Addr, port uint16, text string) []byte {
	m := udp(from, port, []byte(text))
	pseudo := slices.Concat(src.AsSlice(), dst.AsSlice(), []byte{0, 0, 0, byte(len(m)), 0, 0, 0, 17})
	wire.BigEndian.PutUint16(m[6:], checksum(pseudo, m))
	return m
}

// As a user I give an app a fixed address, and its DHCPv6 client gets it.
func TestIPv6AppsGetTheirAddressByDHCPv6(t *testing.T) {
	t.Parallel()
	w := newWorld6(t, "web", "client")
	fixed := strings.Replace(onNet(1, 1, "web", allowAll), "acl:", `ip6: "`+strings.Split(net6, "/")[0]+`80", acl:`, 1)
	w.start(doc([]string{network6(1, `subnet: "`+net6+`", mode: dhcpv6, nat: true`)}, fixed,
		onNet(2, 1, "client", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	prefix := netip.MustParsePrefix(net6)
	for short, want := range map[string]netip.Addr{
		"web": netip.MustParseAddr(strings.Split(net6, "/")[0] + "80"), "client": netinst.EUI64(prefix,
			w.mac("client", "eth0").String()),
	} {
		w.in(short, "ip", "link", "set", "eth0", "up")
		w.eventually("the router of "+short, func() bool {
			return strings.Contains(w.in(short, "ip", "-6", "route", "show", "default"), "via fe80::1 ")
		})
		if text := w.in(short, "ip", "-6", "-o", "addr", "show", "dev", "eth0", "scope", "global"); text != "" {
			t.Errorf("%s has made an address: %s", short, text)
		}
		got := w.dhcp6(short)
		if got != want {
			t.Errorf("%s gets %s, not %s", short, got, want)
		}
		w.in(short, "ip", "addr", "add", got.String()+"/128", "dev", "eth0", "nodad")
		w.reaches6(short, isp6Web)
	}
}

// newClient6 is nclient6.New with the number of the link in place of its name: package net remembers the numbers of names
// for a minute, and has those of other namespaces.
func newClient6(dev string) (*nclient6.Client, error) {
	link, err := net.InterfaceByName(dev)
	if err != nil {
		return nil, err
	}
	addrs, err := link.Addrs()
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if own, is := a.(*net.IPNet); is && own.IP.To4() == nil && own.IP.IsLinkLocalUnicast() {
			conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: own.IP, Port: dhcpv6.DefaultClientPort,
				Zone: strconv.Itoa(link.Index)})
			if err != nil {
				return nil, err
			}
			return nclient6.NewWithConn(conn, link.HardwareAddr)
		}
	}
	return nil, fmt.Errorf("%s has no link-local address", dev)
}

// dhcp6 leases an address with a client of the test.
func (w *world) dhcp6(short string) netip.Addr {
	w.Helper()
	w.eventually("the link-local address of "+short, func() bool {
		return strings.Contains(w.in(short, "ip", "-6", "-o", "addr", "show", "dev", "eth0", "-tentative"), "fe80::")
	})
	var client *nclient6.Client
	if err := w.inside(short, func() (err error) {
		client, err = newClient6("eth0")
		return err
	}); err != nil {
		w.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
	defer cancel()
	offer, err := client.Solicit(ctx)
	if err != nil {
		w.Fatalf("%s solicits: %v", short, err)
	}
	reply, err := client.Request(ctx, offer)
	if err != nil {
		w.Fatalf("%s requests: %v", short, err)
	}
	ia := reply.Options.OneIANA()
	if ia == nil || ia.Options.OneAddress() == nil {
		w.Fatalf("%s gets no address: %s", short, reply.Summary())
	}
	if dns := reply.Options.DNS(); len(dns) != 1 || dns[0].String() != strings.Split(net6, "/")[0]+"1" {
		w.Errorf("%s: DNS servers %v", short, dns)
	}
	ip, _ := netip.AddrFromSlice(ia.Options.OneAddress().IPv6Addr)
	return ip
}
