package netinst

import (
	"net/netip"
	"testing"

	"edgespan/netinst/netstate"
)

func TestValidateOfASwitchNetwork(t *testing.T) {
	open := ACLRule{Name: "all", Direction: Both, Action: Allow}
	web := ACLRule{Name: "web", Direction: Ingress, Action: Allow, Protocol: "tcp", LocalPort: []PortRange{{80, 80}}}
	a := adapter(appA, 0, 1, "10.1.0.128", "a", open)
	b := adapter(appB, 0, 2, "10.1.0.129", "b", web)
	known := func(x Adapter, addrs ...netip.Addr) Adapter { x.ObservedAddresses = addrs; return x }
	flow := func(src, dst string, port uint16) netstate.Flow {
		return netstate.Flow{Proto: protoTCP, Zone: 20001, Src: netip.AddrPortFrom(ip(src), 4000),
			Dst: netip.AddrPortFrom(ip(dst), port)}
	}
	elsewhere := flow("10.9.0.2", "10.9.0.3", 22)
	elsewhere.Zone = 20002
	asked := flow("0.0.0.0", "255.255.255.255", 67)
	asked.Proto, asked.Src = protoUDP, netip.AddrPortFrom(ip("0.0.0.0"), 68)
	both := []Adapter{known(a, ip("10.9.0.2")), known(b, ip("10.9.0.3"), ip("10.9.0.4"))}
	for name, c := range map[string]struct {
		adapters []Adapter
		flow     netstate.Flow
		denied   bool
	}{
		"both ends allow":                               {both, flow("10.9.0.2", "10.9.0.3", 80), false},
		"the receiver denies":                           {both, flow("10.9.0.2", "10.9.0.4", 22), true},
		"the sender denies":                             {both, flow("10.9.0.3", "192.0.2.1", 80), true},
		"from outside to an app that denies":            {both, flow("192.0.2.1", "10.9.0.3", 22), true},
		"between two that are no apps":                  {both, flow("192.0.2.1", "192.0.2.2", 22), false},
		"an unknown sender where an unknown app denies": {[]Adapter{a, b}, flow("10.9.0.2", "192.0.2.1", 80), true},
		"unknown ends where every app allows":           {[]Adapter{a}, flow("10.9.0.2", "192.0.2.1", 80), false},
		"a flow of another network":                     {both, elsewhere, false},
		"DHCP":                                          {[]Adapter{b}, asked, false},
		"no adapter is left":                            {nil, flow("10.9.0.2", "10.9.0.3", 22), false},
	} {
		if got := DeniesFlow(switchInput(c.adapters...))(c.flow); got != c.denied {
			t.Errorf("%s: denied %v, want %v", name, got, c.denied)
		}
	}
	// An adapter whose IPv4 addresses alone are known may have any of IPv6.
	six := DeniesFlow(switchInput(both...))
	if f := flow("2001:db8::2", "2001:db8::3", 22); !six(f) {
		t.Error("a flow of IPv6 that may be of an app that denies is left")
	}
	asked = flow("fe80::2", "ff02::1:2", 547)
	if asked.Proto, asked.Src = protoUDP, netip.AddrPortFrom(ip("fe80::2"), 546); six(asked) {
		t.Error("DHCPv6 is denied")
	}
	local := input(a)
	f := flow("10.1.0.200", "192.0.2.1", 80)
	if f.Zone = 0; !DeniesFlow(local)(f) {
		t.Error("a flow of an address that nobody has is left")
	}
	if f.Zone = 20002; DeniesFlow(local)(f) {
		t.Error("a local network takes a switch network's flow away")
	}
}

func TestASwitchNetworkThatPassesIPv6(t *testing.T) {
	in := switchInput(web())
	in.Config.Port, in.Config.IPv6 = "lab", IPv6Config{Mode: Bridged}
	in.Ports = append(in.Ports, PortStatus{PortConfig: PortConfig{Label: "lab", IfName: "eth1"}, Exists: true, Up: true})
	golden(t, "switch_ipv6", describe(DesiredState(in)))
	golden(t, "host_switch_ipv6", HostState([]HostNetwork{{Number: 1, Switch: true, Bridged6: true},
		{Number: 2, Switch: true}}).String())
}
