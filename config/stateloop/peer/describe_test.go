package peer

import (
	"net/netip"
	"testing"

	"github.com/google/uuid"
)

func TestAParameterIsDescribedInAFewWords(t *testing.T) {
	t.Parallel()
	local, remote := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	network := uuid.MustParse("0a000000-0000-4000-8000-000000000001")
	for want, p := range map[string]DeclaredParameter{
		"":                                 {},
		"lan0":                             {Interface: &InterfaceValue{IfName: "lan0"}},
		"lab, MTU 1450":                    {Bridge: &BridgeValue{DisplayName: "lab", MTU: 1450}},
		"unit x.service":                   {Executor: &ExecutorValue{Unit: "x.service"}},
		"/bin/x y":                         {Executor: &ExecutorValue{Command: []string{"/bin/x", "y"}}},
		"to far":                           {Check: &CheckValue{Peer: "far"}},
		"to far at 192.0.2.2":              {Check: &CheckValue{Peer: "far", Remote: remote}},
		"tunnel/x in " + BridgeID(network): {Joined: &JoinedValue{Network: network, Link: "tunnel/x"}},
		"to far: vxlan 256 addresses are not known yet, MTU 1450": {Tunnel: &TunnelValue{Peer: "far", Type: TunnelVXLAN,
			VNI: 256, MTU: 1450, Local: local}},
		"to far: vxlan 256 192.0.2.1 > 192.0.2.2, MTU 1450": {Tunnel: &TunnelValue{Peer: "far", Type: TunnelVXLAN,
			VNI: 256, MTU: 1450, Local: local, Remote: remote}},
	} {
		if got := p.Describe(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
