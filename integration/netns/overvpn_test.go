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

// overAt is the address of node i in its tunnel.
func overAt(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprint("10.98.0.", i+1)) }

// tunnelKeys returns a private key for each node.
func (w *town) tunnelKeys() (private []*ecdh.PrivateKey) {
	w.t.Helper()
	for range w.nodes {
		k, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			w.t.Fatal(err)
		}
		private = append(private, k)
	}
	return private
}

// tunnelled is network 2 of node i, of type vpn: its tunnel leads to the other node, and has an address with a subnet of
// this length.
func (w *town) tunnelled(i, bits int, private []*ecdh.PrivateKey) (netinst.NetworkInstanceConfig, []netinst.PortStatus) {
	text := func(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
	other := overAt(1 - i)
	c := netinst.NetworkInstanceConfig{
		UUID: uuid.MustParse(owner(2).Name), DisplayName: "over", Type: netinst.VPN, Port: "wan", SpoofGuard: true,
		Generation: 1, IPv4: netinst.IPv4Config{
			Subnet:    netip.MustParsePrefix(fmt.Sprintf("10.20.%d.0/24", i)),
			Gateway:   netip.MustParseAddr(fmt.Sprintf("10.20.%d.1", i)),
			DHCPFirst: netip.MustParseAddr(fmt.Sprintf("10.20.%d.128", i)),
			DHCPLast:  netip.MustParseAddr(fmt.Sprintf("10.20.%d.254", i)),
		},
		VPN: &netinst.VPNConfig{
			Address: []netip.Prefix{netip.PrefixFrom(overAt(i), bits)},
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
	private := w.tunnelKeys()
	const inside = 1500 - 60 - 50 // WireGuard over IPv4, VXLAN over IPv4
	over := func(i int) netstate.State {
		c := clusterOf(2, i, false)
		c.MTU = inside
		for k := range c.Tunnels {
			c.Tunnels[k].Local, c.Tunnels[k].Remote, c.Tunnels[k].MTU = overAt(i), overAt(1-i), inside
		}
		return w.nodes[i].desired(c)
	}
	for i, l := range w.nodes {
		c, ports := w.tunnelled(i, 24, private)
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
	c, ports := w.tunnelled(0, 24, private)
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

// An encrypted cluster goes through such a tunnel also if its address has no subnet, as one that an IPsec peer assigns:
// the host has no route to the other node. Without the tunnel it goes nowhere, not even to a provider.
func TestAnEncryptedClusterGoesThroughATunnelWithoutASubnet(t *testing.T) {
	t.Parallel()
	w := newTown(t, 2)
	private, keys := w.tunnelKeys(), w.keys()
	const inside = 1500 - 60 - 60 - 70 // WireGuard over IPv4 twice, VXLAN over IPv6
	set := func(i int, inactive bool) {
		l := w.nodes[i]
		c, ports := w.tunnelled(i, 32, private)
		c.Inactive = inactive
		l.must(hostOwner, netinst.HostState([]netinst.HostNetwork{{Number: 1, Switch: true, Sealed: sealedPort},
			{Number: 2, Subnet: c.IPv4.Subnet, Gateway: c.IPv4.Gateway, VPN: true}}))
		l.must(owner(2), netinst.DesiredState(netinst.Input{Owner: owner(2), Config: c, Ports: ports, RunDir: l.dir}).State)
	}
	for i, l := range w.nodes {
		l.ns.Exec(t, strings.Fields("iptables -A OUTPUT -o u0 -p udp --dport 21821 -j ACCEPT")...)
		set(i, false)
		over := encryptedOf(i, 1, keys)
		over.MTU, over.Over = inside, uuid.MustParse(owner(2).Name)
		for k := range over.Tunnels {
			over.Tunnels[k].MTU = inside
			over.Tunnels[k].Encrypted.Endpoint = netip.AddrPortFrom(overAt(1-i), outerPort)
		}
		l.must(owner(1), l.desired(over))
	}
	until(t, "a packet crosses", func() bool { return w.pings(0, 1, 100) })
	for _, way := range [][2]int{{0, 1}, {1, 0}} {
		if !w.pings(way[0], way[1], inside) {
			t.Errorf("a packet of %d octets does not cross from %d to %d", inside, way[0], way[1])
		}
	}
	set(0, true)
	if w.pings(0, 1, 100) {
		t.Error("packets cross without the tunnel")
	}
	for i, l := range w.nodes {
		if out := l.ns.Exec(t, "iptables", "-nvxL", "OUTPUT"); !strings.Contains(out, "       0        0 ACCEPT") {
			t.Errorf("node %d sends the cluster's packets to the provider: %s", i+1, out)
		}
	}
	set(0, false)
	until(t, "a packet crosses again", func() bool { return w.pings(0, 1, 100) })
}
