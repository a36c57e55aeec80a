package verdict

import (
	"net/netip"
	"testing"

	"edgespan/netinst"
)

// Adapters of a switch meet in a VLAN that both have, with or without a tag. An access port meets those in its own, a
// trunk all.
func TestVLANsOfASwitch(t *testing.T) {
	in := netinst.Input{Config: netinst.NetworkInstanceConfig{Type: netinst.Switch, Port: "lab",
		AccessPorts: []netinst.AccessPort{{Label: "desk", VLAN: 10}}}}
	for i, name := range []string{"ten", "tenth", "twenty", "none", "router"} {
		a := adapter(name, "0.0.0.0", rule("all"))
		a.Config.Spec.VLAN, a.ObservedAddresses = []int{10, 10, 20, 0, 0}[i], []netip.Addr{addr("10.9.0." + "12345"[i:i+1])}
		in.Adapters = append(in.Adapters, a)
	}
	in.Adapters[4].Config.Spec.Trunk = []int{10, 20}
	for _, name := range []string{"desk", "trunk"} {
		in.Ports = append(in.Ports, netinst.PortStatus{PortConfig: netinst.PortConfig{Label: name,
			IfName: netinst.IfName(name), Labels: []string{"lab"}}, Exists: true, Up: true})
	}
	w := New([]netinst.Input{in}, nil)
	for _, c := range []struct {
		p    Packet
		want BuiltIn
	}{
		{app("ten", "10.9.0.2", ICMP), ""}, {app("ten", "10.9.0.3", ICMP), OtherVLAN},
		{app("ten", "10.9.0.4", ICMP), OtherVLAN}, {app("none", "10.9.0.1", ICMP), OtherVLAN},
		{app("router", "10.9.0.3", ICMP), ""}, {app("twenty", "10.9.0.5", ICMP), ""}, {app("none", "10.9.0.5", ICMP), ""},
		{outside("desk", "10.9.0.9", "10.9.0.1", TCP, 80), ""}, {outside("desk", "10.9.0.9", "10.9.0.3", TCP, 80), OtherVLAN},
		{outside("desk", "10.9.0.9", "10.9.0.5", TCP, 80), ""}, {outside("desk", "10.9.0.9", "10.9.0.4", TCP, 80), OtherVLAN},
		{outside("trunk", "10.9.0.9", "10.9.0.3", TCP, 80), ""}, {outside("trunk", "10.9.0.9", "10.9.0.4", TCP, 80), ""},
	} {
		a := w.Evaluate(c.p)
		if a.Allowed() != (c.want == "") || !a.Allowed() && a.Decided().BuiltIn != c.want {
			t.Errorf("%+v: %+v, want %q", c.p, a, c.want)
		}
	}
}
