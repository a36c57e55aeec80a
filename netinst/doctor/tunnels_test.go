package doctor

import (
	"strings"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

func TestTunnels(t *testing.T) {
	up := netstate.TunnelStatus{Kind: "ipsec", By: "kernel", Up: true}
	for _, c := range []struct {
		name   string
		tunnel Tunnel
		want   []string
	}{
		{"up", Tunnel{Status: up}, nil},
		{"down", Tunnel{Status: netstate.TunnelStatus{Kind: "ipsec", By: "kernel", Error: "the pre-shared key differs"}},
			[]string{"warning: the tunnel of network vpn is down: the pre-shared key differs"}},
		{"no charon", Tunnel{Fault: "charon-systemd is not installed"},
			[]string{"problem: network vpn has no tunnel: charon-systemd is not installed"}},
		{"no kernel", Tunnel{Status: netstate.TunnelStatus{Kind: "wireguard", By: "process", Up: true}},
			[]string{"warning: a process carries the packets of the tunnel of network vpn: the kernel has no wireguard, which would " +
				"be faster"}},
	} {
		c.tunnel.Network = netinst.NetworkInstanceConfig{DisplayName: "vpn"}
		var got []string
		for _, f := range tunnels(netstate.Facts{}, Node{Tunnels: []Tunnel{c.tunnel}}) {
			got = append(got, f.Level+": "+f.Text)
			if f.Fix == "" {
				t.Errorf("%s: no fix", c.name)
			}
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
