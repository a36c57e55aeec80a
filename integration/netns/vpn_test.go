package netns_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

// An underlay may be the address of a VPN of the host: an interface that is no port, alone in its subnet, with a route
// to each other end and an MTU of 1420, like wg0. The MTU of an address is unknown, so the cluster uses the one for
// 1500; larger packets are fragmented, or their sender is informed. A veth replaces the VPN here.
func TestATunnelGoesThroughAVPNOfTheHost(t *testing.T) {
	t.Parallel()
	w := newTown(t, 2)
	w.under.Exec(t, "ip", "link", "add", "vpn", "type", "bridge")
	w.under.Exec(t, "ip", "link", "set", "vpn", "up")
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{100, 64, 0, byte(i + 1)}) }
	desired := func(i int) netstate.State {
		c := clusterOf(2, i, false)
		for k := range c.Tunnels {
			c.Tunnels[k].Local, c.Tunnels[k].Remote = at(i), at(1-i)
		}
		return w.nodes[i].desired(c)
	}
	var before []string
	shows := func(l *lab) string { return l.ns.Exec(t, "ip", "-d", "-br", "addr", "show", "dev", "vpn0") }
	for i, l := range w.nodes {
		n := "v" + strconv.Itoa(i+1)
		w.under.Exec(t, "ip", "link", "add", n, "type", "veth", "peer", "name", "vpn0", "netns", l.ns.Name)
		w.under.Exec(t, "ip", "link", "set", n, "master", "vpn", "up")
		for _, line := range []string{
			"ip link set vpn0 addrgenmode none mtu 1420 up", "ip addr add " + at(i).String() + "/32 dev vpn0",
			"ip route add " + at(1-i).String() + "/32 dev vpn0", "ip link set u0 down",
		} {
			l.ns.Exec(t, strings.Fields(line)...)
		}
		before = append(before, shows(l))
		l.must(hostOwner, switchHost)
		l.must(owner(1), desired(i))
	}
	const fits = 1420 - 50
	for _, size := range []int{100, fits} {
		if !w.pings(0, 1, size) || !w.pings(1, 0, size) {
			t.Errorf("a packet of %d octets does not cross", size)
		}
	}
	large := []string{"ping", "-c1", "-W1", "-s", strconv.Itoa(1450 - 28), "10.99.0.2", "-M"}
	if out, err := w.nodes[0].app.Try(append(large, "do")...); err == nil || !strings.Contains(out, "mtu = 1370") &&
		!strings.Contains(out, "mtu=1370") {
		t.Errorf("one that is too large, and may not be broken up: %v\n%s", err, out)
	}
	if out, err := w.nodes[0].app.Try(append(large, "dont")...); err != nil {
		t.Errorf("one that may be broken up: %v\n%s", err, out)
	}
	// The VPN is stopped: the tunnel is removed, gives the reason, and returns with the VPN.
	l := w.nodes[1]
	l.ns.Exec(t, "ip", "addr", "del", at(1).String()+"/32", "dev", "vpn0")
	fs := l.apply(t.Context(), owner(1), desired(1))
	if len(fs) == 0 || !fs[0].Waiting ||
		!strings.Contains(fs[0].Err, "the local address 100.64.0.2 is on no interface of the host") {
		t.Errorf("without its VPN: %+v", fs)
	}
	l.ns.Exec(t, "ip", "addr", "add", at(1).String()+"/32", "dev", "vpn0")
	l.ns.Exec(t, "ip", "route", "add", at(0).String()+"/32", "dev", "vpn0") // the kernel removed it with the last address
	l.must(owner(1), desired(1))
	until(t, "the VPN is back, and so is the tunnel", func() bool { return w.pings(0, 1, fits) })
	for i, l := range w.nodes {
		l.must(owner(1), netstate.State{})
		if now := shows(l); now != before[i] {
			t.Errorf("the VPN's interface was\n%s\nand is\n%s", before[i], now)
		}
	}
}
