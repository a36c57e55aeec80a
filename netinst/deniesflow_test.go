package netinst

import (
	"net/netip"
	"testing"

	"edgespan/netinst/netstate"
)

// leftFlow is a TCP flow of the app of keepInput through a port that the network has left.
func leftFlow() netstate.Flow { return flowBy("192.0.2.10") }

// A connection is ended in the namespace of its app alone: an app without one, and a network that has left no port, have
// none to end.
func TestWhoseConnectionsAreReset(t *testing.T) {
	kind := func(k AttachKind) func(*Input) { return func(in *Input) { in.Adapters[0].Config.Spec.Kind = k } }
	for name, c := range map[string]struct {
		change func(*Input)
		want   string
	}{
		"a pair of links":        {kind(""), "app-web"},
		"the same, named":        {kind(Veth), "app-web"},
		"a tap device":           {kind(Tap), ""},
		"another program's":      {kind(External), ""},
		"the port is in use":     {func(in *Input) { in.Chosen = map[string]string{"uplink": "lte"} }, ""},
		"the address is not its": {func(in *Input) { in.Adapters[0].Lease.IP = ip("10.1.0.129") }, ""},
	} {
		in := keepInput(FlowsReset)
		c.change(&in)
		if got := Resets(in)(leftFlow()); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for name, in := range map[string]Input{"a switch": switchInput(web()), "a withdrawn one": clashing(keepInput(FlowsReset))} {
		if Resets(in) != nil {
			t.Errorf("%s has connections to reset", name)
		}
	}
}

// Flows with the same addresses belong to networks by their zones.
func TestWhichFlowsANetworkOwns(t *testing.T) {
	vlans := vlanInput()
	nw, _ := newNetwork(vlans)
	for name, c := range map[string]struct {
		in   Input
		zone uint16
		want bool
	}{
		"a local network":                              {input(web()), 0, true},
		"a local network, of another":                  {input(web()), Zone(1), false},
		"one whose subnet others may have":             {shared(web()), Zone(1), true},
		"one whose subnet others may have, of none":    {shared(web()), 0, false},
		"one whose subnet others may have, of another": {shared(web()), Zone(2), false},
		"a switch":            {switchInput(web()), Zone(1), true},
		"a switch, of none":   {switchInput(web()), 0, false},
		"a VLAN of a switch":  {vlans, nw.zoneOfVLAN(10), true},
		"a VLAN of no switch": {switchInput(web()), nw.zoneOfVLAN(10), false},
	} {
		f := flow(protoTCP, "10.1.0.128:5", "10.1.0.1:80")
		if f.Zone = c.zone; Owns(c.in)(f) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

// Every adapter of a switch may ask for an address, from and to the ports of DHCP together.
func TestWhatCountsAsAskingForAnAddress(t *testing.T) {
	for _, c := range []struct {
		proto    uint8
		src, dst string
		want     bool
	}{
		{protoUDP, "0.0.0.0:68", "255.255.255.255:67", true},
		{protoUDP, "0.0.0.0:68", "255.255.255.255:69", false},
		{protoUDP, "10.9.0.2:66", "10.9.0.3:67", false},
		{protoTCP, "10.9.0.2:68", "10.9.0.3:67", false},
		{protoUDP, "[fe80::2]:546", "[ff02::1:2]:547", true},
		{protoUDP, "[fe80::2]:546", "[fe80::3]:53", false},
		{protoUDP, "[fe80::2]:5", "[fe80::3]:547", false},
		{protoTCP, "[fe80::2]:546", "[fe80::3]:547", false},
	} {
		f := netstate.Flow{Proto: c.proto, Zone: Zone(1), Src: netip.MustParseAddrPort(c.src),
			Dst: netip.MustParseAddrPort(c.dst)}
		if denied := DeniesFlow(switchInput(adapter(appA, 0, 1, "10.1.0.128", "a")))(f); denied == c.want {
			t.Errorf("%d from %s to %s: denied %v", c.proto, c.src, c.dst, denied)
		}
	}
}
