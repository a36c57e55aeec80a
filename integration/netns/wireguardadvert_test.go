package netns_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/integration/netns"
)

// advertise sends a router advertisement with a default route and a prefix (RFC 4861 §4.2) to all nodes on a link of a
// namespace.
func advertise(t *testing.T, ns *netns.NS, link string) {
	t.Helper()
	body := []byte{134, 0, 0, 0, 64, 0x08, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0}
	body = append(body, 3, 4, 64, 0xc0, 0, 0, 0x07, 0x08, 0, 0, 0x07, 0x08, 0, 0, 0, 0)
	body = slices.Concat(body, netip.MustParseAddr("2001:db8:66::").AsSlice())
	ns.Do(t, func() error {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); err != nil {
			return err
		}
		if err := unix.BindToDevice(fd, link); err != nil {
			return err
		}
		return unix.Sendto(fd, body, 0, &unix.SockaddrInet6{Addr: netip.MustParseAddr("ff02::1").As16()})
	})
}

// The peer of a tunnel is no router of the node: its advertisements give neither a route nor an address. The same one
// gives a route once the kernel accepts it, so it arrives.
func TestAdvertisementsOfAPeerAreNotHeard(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 1)
	p := l.peers[0]
	v := l.vpn(1)
	v.WireGuard.Peers[0].AllowedIPs = append(v.WireGuard.Peers[0].AllowedIPs, netip.MustParsePrefix("::/0"))
	l.put(v)
	p.set("public_key=%s\nallowed_ip=ff00::/8", hexKey(l.keys.public))
	p.ns.Exec(t, "ip", "-6", "addr", "add", "fe80::2/64", "dev", "wgp", "nodad")
	reached(t, l.node, p.inside)
	learned := func() string {
		return l.node.Exec(t, "ip", "-6", "route", "show", "table", "all", "proto", "ra") +
			l.node.Exec(t, "ip", "-6", "addr", "show", "dev", wgLink, "dynamic")
	}
	received := func() string {
		for _, line := range strings.Split(l.node.Exec(t, "cat", "/proc/net/snmp6"), "\n") {
			if f := strings.Fields(line); len(f) == 2 && f[0] == "Icmp6InRouterAdvertisements" {
				return f[1]
			}
		}
		return ""
	}
	before := received()
	advertise(t, p.ns, "wgp")
	until(t, "the advertisement arrives", func() bool { return received() != before })
	if got := learned(); got != "" {
		t.Errorf("an advertisement of the peer is heard: %s", got)
	}
	l.node.Exec(t, "sysctl", "-qw", "net.ipv6.conf."+wgLink+".accept_ra=1")
	advertise(t, p.ns, "wgp")
	wgUntil(t, 5*time.Second, "the control is heard", func() bool { return strings.Contains(learned(), "default") })
}
