package netinst

import (
	"net/netip"
	"testing"

	"edgespan/netinst/netstate"
)

func TestWhichNetworksHaveATunnel(t *testing.T) {
	v := &VPNConfig{}
	for name, c := range map[string]struct {
		config      NetworkInstanceConfig
		vpn, tunnel bool
	}{
		"a local network":      {NetworkInstanceConfig{Type: Local}, false, false},
		"one that was another": {NetworkInstanceConfig{Type: Local, VPN: v}, false, false},
		"without its config":   {NetworkInstanceConfig{Type: VPN}, false, false},
		"of type vpn":          {NetworkInstanceConfig{Type: VPN, VPN: v}, true, true},
		"not active":           {NetworkInstanceConfig{Type: VPN, VPN: v, Inactive: true}, true, false},
		"a cluster":            {clusterInput().Config, false, false},
		"an encrypted cluster": {encryptedInput().Config, false, true},
	} {
		if vpn, tunnel := c.config.HasVPN(), c.config.HasTunnel(); vpn != c.vpn || tunnel != c.tunnel {
			t.Errorf("%s: of type vpn %v, with a tunnel %v", name, vpn, tunnel)
		}
	}
}

// A tunnel carries the families of what is at its other end; IPsec without children, or a child without an end, both.
func TestWhatATunnelCarries(t *testing.T) {
	ipsec := func(children ...[]netip.Prefix) VPNConfig {
		x := &netstate.IPsec{}
		for _, remote := range children {
			x.Children = append(x.Children, netstate.IPsecChild{Remote: remote})
		}
		return VPNConfig{IPsec: x}
	}
	wireGuard := func(peers ...[]netip.Prefix) VPNConfig {
		w := &netstate.WireGuard{}
		for _, p := range peers {
			w.Peers = append(w.Peers, netstate.WireGuardPeer{AllowedIPs: p})
		}
		return VPNConfig{WireGuard: w}
	}
	four, six := []netip.Prefix{prefix("10.8.0.0/16")}, []netip.Prefix{prefix("2001:db8::/32")}
	for name, c := range map[string]struct {
		v         VPNConfig
		four, six bool
	}{
		"IPsec":                      {ipsec(), true, true},
		"IPsec, any end":             {ipsec(nil), true, true},
		"IPsec, IPv4":                {ipsec(four), true, false},
		"IPsec, IPv6":                {ipsec(six), false, true},
		"IPsec, one of each":         {ipsec(four, six), true, true},
		"WireGuard":                  {wireGuard(), false, false},
		"WireGuard, IPv4":            {wireGuard(nil, four), true, false},
		"WireGuard, both of one end": {wireGuard([]netip.Prefix{four[0], six[0]}), true, true},
	} {
		if four, six := c.v.carries(false), c.v.carries(true); four != c.four || six != c.six {
			t.Errorf("%s: IPv4 %v, IPv6 %v", name, four, six)
		}
	}
}

// A server of the tunnel's own is not taken as its address, nor has a tunnel a source of servers without any.
func TestAnEndIsNoAddressOfItsTunnel(t *testing.T) {
	for name, in := range map[string]Input{"WireGuard": vpnInput(), "IPsec": ipsecInput()} {
		in.Assigned = Assigned{Addresses: []netip.Prefix{prefix("198.51.100.1/32")}}
		want := ""
		if in.Config.VPN.IPsec != nil {
			in.Config.VPN.IPsec.Address, want = "198.51.100.1", "is a server's"
		}
		if got := in.unassignable(ip("198.51.100.1")); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		ports := ThroughTunnel(in).Ports
		if p := ports[len(ports)-1]; !p.Tunnel || p.Learnt.Source != "" || len(p.Learnt.Servers) > 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// Queries that leave outside of the tunnel follow its underlay where the host's main table has another way.
func TestQuestionsOutsideATunnelTakeTheUnderlay(t *testing.T) {
	for gateway, want := range map[string]string{"192.0.2.1": "", "192.0.2.9": "oif eth0 dport 53 lookup 50001"} {
		in := vpnInput()
		in.Config.VPN.DNSOutside, in.Ports[0].Gateway = true, ip(gateway)
		got := ""
		for _, o := range DesiredState(in).State {
			if r, is := o.(netstate.Rule); is && r.Priority == ruleDNSBase+1 && r.OIF == "eth0" {
				got = r.Text()
			}
		}
		if got != want {
			t.Errorf("by %s: %q, want %q", gateway, got, want)
		}
	}
}
