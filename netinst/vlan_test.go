package netinst

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

// vlanInput is a switch with a trunk port, an access port, an adapter in a VLAN, one in none, and one that is a trunk.
func vlanInput() Input {
	open := ACLRule{Name: "all", Direction: Both, Action: Allow}
	a, b := adapter(appA, 0, 1, "10.1.0.128", "a", open), adapter(appA, 1, 2, "10.1.0.129", "a")
	c := adapter(appB, 0, 3, "10.1.0.130", "b", open)
	a.Config.Spec.VLAN, c.Config.Spec.VLAN, c.Config.Spec.Trunk = 10, 30, []int{10, 50}
	in := switchInput(a, b, c)
	in.Config.Port, in.Config.VLANs = "lab", []int{10, 20, 30, 50}
	in.Config.AccessPorts = []AccessPort{{"eth2", 20}}
	for _, name := range []string{"eth1", "eth2"} {
		in.Ports = append(in.Ports, PortStatus{PortConfig: PortConfig{Label: name, IfName: IfName(name),
			Labels: []string{"lab"}}, Exists: true, Up: true, LinkMTU: 1500})
	}
	return in
}

func TestASwitchWithVLANs(t *testing.T) {
	in := vlanInput()
	golden(t, "switch_vlans", describe(DesiredState(in)))
	in.Config.IPv6 = IPv6Config{Mode: Bridged}
	six := DesiredState(in)
	in.Config.IPv6 = IPv6Config{}
	four := DesiredState(in)
	var more []string
	for _, id := range six.State.IDs() {
		if w := six.State[id]; strings.HasPrefix(id.Name, "bridge/") && !netstate.Same(w, four.State[id]) {
			more = append(more, fmt.Sprintf("== %s\n%s", id, w.Text()))
		}
	}
	golden(t, "switch_vlans_ipv6", strings.Join(more, "\n")+"\n")
}

// One VLAN is as good as none: with the native one alone, nothing is filtered.
func TestTheNativeVLANAloneChangesNothing(t *testing.T) {
	in := vlanInput()
	for i := range in.Adapters {
		in.Adapters[i].Config.Spec.VLAN, in.Adapters[i].Config.Spec.Trunk = 0, nil
	}
	in.Config.VLANs, in.Config.AccessPorts = nil, nil
	without := describe(DesiredState(in))
	in.Config.AccessPorts = []AccessPort{{"eth2", netstate.NativeVLAN}}
	if got := describe(DesiredState(in)); got != without {
		t.Errorf("with an access port of the native VLAN:\n%s", got)
	}
	if strings.Contains(without, "vlan") {
		t.Errorf("without VLANs:\n%s", without)
	}
	in.Config.VLANs = []int{netstate.NativeVLAN}
	for i := range in.Adapters {
		in.Adapters[i].Config.Spec.VLAN = netstate.NativeVLAN
	}
	if got := describe(DesiredState(in)); got != without {
		t.Errorf("with adapters in the native VLAN:\n%s", got)
	}
}

// Each VLAN has a zone of its own, which no other VLAN of the node has, and which only few changes of VLANs change.
func TestZonesOfVLANs(t *testing.T) {
	seen := map[uint16]string{}
	for _, n := range []int{1, 2, 998, 999} {
		nw := network{n: n}
		for i := range MaxVLANs {
			nw.vlans = append(nw.vlans, 2+i*zonesPerSwitch/8)
		}
		for _, vid := range append([]int{1}, nw.vlans...) {
			zone := nw.zoneOfVLAN(vid)
			if other, twice := seen[zone]; twice {
				t.Errorf("VLAN %d of network %d has the zone of %s", vid, n, other)
			}
			seen[zone] = fmt.Sprintf("VLAN %d of network %d", vid, n)
			if got, own := nw.vlanOfZone(zone); got != vid || !own {
				t.Errorf("zone %d of network %d is of VLAN %d, %v", zone, n, got, own)
			}
		}
		if _, own := nw.vlanOfZone(Zone(n) + 1); own {
			t.Errorf("network %d has the zone of another", n)
		}
	}
	few, more := network{n: 1, vlans: []int{10, 20, 30}}, network{n: 1, vlans: []int{5, 10, 11, 20, 30, 4094}}
	for _, vid := range few.vlans {
		if few.zoneOfVLAN(vid) != more.zoneOfVLAN(vid) {
			t.Errorf("the zone of VLAN %d depends on others", vid)
		}
	}
	all := network{n: 1}
	for vid := range 100 { // more than a config may have
		all.vlans = append(all.vlans, vid+2)
	}
	if got := all.zoneOfVLAN(101); got != Zone(1) {
		t.Errorf("a VLAN too many has zone %d", got)
	}
}

// A flow meets the rules of the adapters in its VLAN.
func TestValidateOfASwitchWithVLANs(t *testing.T) {
	in := vlanInput()
	nw, _ := newNetwork(in)
	for vid, denied := range map[int]bool{1: true, 10: false, 20: false, 30: false} { // adapter 2, in VLAN 1, has no rules
		f := netstate.Flow{Proto: protoTCP, Zone: nw.zoneOfVLAN(vid), Src: netip.MustParseAddrPort("10.9.0.2:4000"),
			Dst: netip.MustParseAddrPort("10.9.0.3:80")}
		if got := DeniesFlow(in)(f); got != denied {
			t.Errorf("a flow in VLAN %d: denied %v, want %v", vid, got, denied)
		}
	}
}

func TestVLANsNeedASwitchOfTheNodeAlone(t *testing.T) {
	in := vlanInput()
	cs := []AppAdapterConfig{in.Adapters[0].Config, in.Adapters[1].Config, in.Adapters[2].Config}
	local, cluster := in.Config, in.Config
	local.Type, local.IPv4 = Local, input().Config.IPv4
	cluster.Members = []IfName{"eth7"}
	for name, c := range map[string]struct {
		config NetworkInstanceConfig
		failed int
	}{"a switch": {in.Config, 0}, "a local network": {local, 2}, "a cluster": {cluster, 2}} {
		if got := Allocate(c.config, cs, nil); len(got.Errors) != c.failed || len(got.Leases) != 3-c.failed {
			t.Errorf("%s: %+v", name, got)
		}
	}
	in.Config.Members = cluster.Members
	if s := DesiredState(in).State.String(); strings.Contains(s, "vlan") {
		t.Errorf("the bridge of a cluster has VLANs:\n%s", s)
	}
}

// A trunk sends through the same guards with a tag as without one.
func TestTheGuardsOfATrunkReadTheTag(t *testing.T) {
	s := DesiredState(vlanInput()).State
	rules := func(name string) []string {
		c, _ := s[netstate.ID{Kind: netstate.KindChain, Name: "bridge/edgespan/ES1-" + name}].(netstate.Chain)
		return c.Rules
	}
	plain, tags := rules("3F"), rules("3T")
	at := slices.IndexFunc(plain, func(r string) bool { return strings.HasPrefix(r, "meta mark set") })
	if at != 2 || !slices.Equal(tagged(plain[at+1:]), tags) {
		t.Errorf("untagged:\n%s\ntagged:\n%s", strings.Join(plain, "\n"), strings.Join(tags, "\n"))
	}
	for _, r := range plain[:at] {
		if !strings.HasPrefix(r, "ether type vlan vlan id 10 ") && !strings.HasPrefix(r, "ether type vlan vlan id 50 ") {
			t.Errorf("it may send by %s", r)
		}
	}
	if strings.Contains(strings.Join(append(rules("1F"), rules("2F")...), "\n"), "vlan") {
		t.Error("an access port may send tagged frames")
	}
}

// Two adapters reach each other in a VLAN that both have, tagged or not.
func TestWhichAdaptersShareAVLAN(t *testing.T) {
	in := func(vlan int, trunk ...int) AdapterSpec { return AdapterSpec{VLAN: vlan, Trunk: trunk} }
	for _, c := range []struct {
		a, b AdapterSpec
		want bool
	}{
		{in(0), in(0), true}, {in(0), in(netstate.NativeVLAN), true}, {in(10), in(10), true}, {in(0), in(10), false},
		{in(10), in(20), false}, {in(30, 10, 50), in(10), true}, {in(30, 10, 50), in(50), true}, {in(30, 10), in(20), false},
		{in(30, 10), in(20, 10), true}, {in(30, 10), in(20, 30), true}, {in(30, 10), in(20, 40), false},
	} {
		if a, b := c.a.SharesVLAN(c.b), c.b.SharesVLAN(c.a); a != c.want || b != c.want {
			t.Errorf("%+v and %+v: %v, %v", c.a, c.b, a, b)
		}
	}
}

// The native VLAN has the zone of its network, which needs no bits of a mark.
func TestTheMarkOfAVLAN(t *testing.T) {
	nw, _ := newNetwork(vlanInput())
	for vid, want := range map[int]string{netstate.NativeVLAN: "meta mark set meta mark & 0xffff0000",
		10: "meta mark set meta mark & 0xffff0000 | 0x5212"} {
		if got := nw.markOf(vid); got != want {
			t.Errorf("VLAN %d: %s, want %s", vid, got, want)
		}
	}
}
