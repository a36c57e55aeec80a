package netns_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// tunnelled is network 2 of node i, of type vpn: its tunnel leads to the other node.
func (w *town) tunnelled(i int, private []*ecdh.PrivateKey) (netinst.NetworkInstanceConfig, []netinst.PortStatus) {
	text := func(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
	other := netip.MustParseAddr(fmt.Sprint("10.98.0.", 2-i))
	c := netinst.NetworkInstanceConfig{
		UUID: uuid.MustParse(owner(2).Name), DisplayName: "over", Type: netinst.VPN, Port: "wan", SpoofGuard: true,
		Generation: 1, IPv4: netinst.IPv4Config{
			Subnet:    netip.MustParsePrefix(fmt.Sprintf("10.20.%d.0/24", i)),
			Gateway:   netip.MustParseAddr(fmt.Sprintf("10.20.%d.1", i)),
			DHCPFirst: netip.MustParseAddr(fmt.Sprintf("10.20.%d.128", i)),
			DHCPLast:  netip.MustParseAddr(fmt.Sprintf("10.20.%d.254", i)),
		},
		VPN: &netinst.VPNConfig{
			Address: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.98.0.%d/24", i+1))},
			WireGuard: &netinst.WireGuard{PrivateKey: text(private[i].Bytes()), ListenPort: 51820,
				Peers: []netinst.WireGuardPeer{{Name: "other", PublicKey: text(private[1-i].PublicKey().Bytes()),
					Endpoint: fmt.Sprintf("198.18.0.%d:51820", 2-i), Keepalive: 1,
					AllowedIPs: []netip.Prefix{netip.PrefixFrom(other, 32)}}}},
		},
	}
	return c, []netinst.PortStatus{{
		PortConfig: netinst.PortConfig{Label: "wan", IfName: "u0"}, Exists: true, Up: true, LinkMTU: 1500,
		Addresses: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("198.18.0.%d/24", i+1))},
	}}
}

// An underlay may be a network of type vpn of the node: the cluster's tunnels begin at the address of its tunnel, and
// go nowhere else.
func TestAClusterGoesThroughANetworkOfTypeVPN(t *testing.T) {
	t.Parallel()
	w := newTown(t, 2)
	var private []*ecdh.PrivateKey
	for range w.nodes {
		k, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		private = append(private, k)
	}
	at := func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprint("10.98.0.", i+1)) }
	const inside = 1500 - 60 - 50 // WireGuard over IPv4, VXLAN over IPv4
	over := func(i int) netstate.State {
		c := clusterOf(2, i, false)
		c.MTU = inside
		for k := range c.Tunnels {
			c.Tunnels[k].Local, c.Tunnels[k].Remote, c.Tunnels[k].MTU = at(i), at(1-i), inside
		}
		return w.nodes[i].desired(c)
	}
	for i, l := range w.nodes {
		c, ports := w.tunnelled(i, private)
		l.must(hostOwner, netinst.HostState([]netinst.HostNetwork{{Number: 1, Switch: true},
			{Number: 2, Subnet: c.IPv4.Subnet, Gateway: c.IPv4.Gateway, VPN: true}}))
		l.must(owner(2), netinst.DesiredState(netinst.Input{Owner: owner(2), Config: c, Ports: ports, RunDir: l.dir}).State)
		l.must(owner(1), over(i))
	}
	until(t, "a packet crosses", func() bool { return w.pings(0, 1, 100) })
	for _, way := range [][2]int{{0, 1}, {1, 0}} {
		if !w.pings(way[0], way[1], inside) {
			t.Errorf("a packet of %d octets does not cross from %d to %d", inside, way[0], way[1])
		}
	}
	// Without the tunnel's process there is no other way.
	l := w.nodes[0]
	c, ports := w.tunnelled(0, private)
	c.Inactive = true
	l.must(owner(2), netinst.DesiredState(netinst.Input{Owner: owner(2), Config: c, Ports: ports, RunDir: l.dir}).State)
	if w.pings(0, 1, 100) {
		t.Error("packets cross without the tunnel")
	}
	if fs := l.apply(t.Context(), owner(1), over(0)); len(fs) == 0 || !fs[0].Waiting ||
		!strings.Contains(fs[0].Err, "the local address 10.98.0.1 is on no interface of the host") {
		t.Errorf("without the tunnel: %+v", fs)
	}
}
