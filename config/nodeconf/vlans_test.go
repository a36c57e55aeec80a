package nodeconf

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edgespan/netinst"
)

const vlanPorts = "ports: {a: {ifName: eth0, labels: x}, b: {ifName: eth1, labels: 'x,desks'}, c: {ifName: eth2}}\n"

func TestVLANsOfASwitch(t *testing.T) {
	wrap := func(v string) string {
		network, adapter, _ := strings.Cut(v, "|")
		return vlanPorts + "networkInstances: {$ni1: {type: switch, port: x" + network +
			"}}\nappNetworks: {$app1: {adapters: {0: {networkInstance: $ni1, attach: {kind: veth, netns: a}" + adapter + "}}}}"
	}
	checkSentences(t, wrap, []sentence{
		{"access and trunk", `, vlanAccessPorts: {b: 20}|, vlan: 10, trunk: "30,20"`, ""},
		{"the first and the last VLAN", ", vlanAccessPorts: {a: 1, b: 4094}|, vlan: 1", ""},
		{"no VLANs", ", vlanAccessPorts: {a: 0, b: 4095}|, vlan: 4095, trunk: '1,4095,x'", `
			A1.adapters.0.trunk: invalid value "1", "4095", "x": must be VLANs of 2 to 4094, at most 16, separated by commas
			A1.adapters.0.vlan: invalid value 4095: must be a whole number of 0 to 4094
			N1.vlanAccessPorts.a: invalid value 0: must be a whole number of 1 to 4094
			N1.vlanAccessPorts.b: invalid value 4095: must be a whole number of 1 to 4094`},
		{"a VLAN with and without a tag", `|, vlan: 10, trunk: "20,10"`,
			"A1.adapters.0.trunk: invalid value 10, also at A1.adapters.0.vlan: must be other VLANs than the one without a tag"},
		{"a VLAN twice", `|, trunk: "20,20"`,
			`A1.adapters.0.trunk: duplicate item "20": must be VLANs of 2 to 4094, at most 16, separated by commas`},
		{"access ports that are none", ", vlanAccessPorts: {c: 10, d: 10, uplink: 10}|", `
			N1.vlanAccessPorts.c: no port of this network has the label: must be a label of a port that port names
			N1.vlanAccessPorts.d: no port of this network has the label: must be a label of a port that port names
			N1.vlanAccessPorts.uplink: invalid key: must be 1 to 64 letters, digits, '.', '_' and '-', but not uplink, ` +
			`freeuplink or all`},
		{"two VLANs of one access port", ", vlanAccessPorts: {desks: 10, b: 20}|",
			"N1.vlanAccessPorts.desks: a second VLAN of ports.b, also at N1.vlanAccessPorts.b: must be one for each port"},
	})
}

func TestVLANsElsewhere(t *testing.T) {
	got := faultsOf(vlanPorts + "networkInstances: {" + ni1 + ": {port: a, ipv4: {subnet: 10.0.0.0/24}, vlanAccessPorts: " +
		"{a: 10}}}\nappNetworks: {" + app1 + ": {adapters: {0: {networkInstance: " + ni1 +
		", attach: {kind: veth, netns: a}, vlan: 10, trunk: '20'}}}}")
	want := "appNetworks." + app1 + ".adapters.0.trunk: invalid on a local network: only an adapter of a switch network has it\n" +
		"appNetworks." + app1 + ".adapters.0.vlan: invalid value 10 on a local network: only an adapter of a switch network " +
		"has it\nnetworkInstances." + ni1 + ".vlanAccessPorts: invalid for a local network: only type switch has it"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The kernel gives a VLAN of an interface to the port that is this VLAN, and not to the bridge that has the interface.
func TestAVLANIsOfAPortOrOfASwitch(t *testing.T) {
	doc := func(id int) string {
		return strings.Replace(vlanPorts, "c: {", fmt.Sprintf("v: {ifName: v, vlan: {parent: eth0, id: %d}}, c: {", id), 1) +
			"networkInstances: {" + ni1 + ": {type: switch, port: x, vlanAccessPorts: {b: 10}}}"
	}
	want := "ports.v.vlan.id: invalid value 10, a VLAN of networkInstances." + ni1 + ", which has eth0 too: must be a VLAN " +
		"that no adapter or access port of that network has"
	if got := faultsOf(doc(10)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := faultsOf(doc(11)); got != "" {
		t.Error(got)
	}
}

func TestANetworkKnowsItsVLANs(t *testing.T) {
	adapters := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("%d: {networkInstance: %s, attach: {kind: veth, netns: a%d}, vlan: %d}", i, ni1, i, i))
		}
		return vlanPorts + "networkInstances: {" + ni1 + ": {type: switch, port: x, vlanAccessPorts: {b: 4000}}}\nappNetworks: {" +
			app1 + ": {adapters: {" + strings.Join(list, ", ") + "}}}"
	}
	_, cfg, err := Read([]byte(adapters(4)))
	if err != nil {
		t.Fatal(err)
	}
	ni := cfg.Networks[uuid.MustParse(ni1)]
	if want := []int{2, 3, 4000}; !slices.Equal(ni.VLANs, want) ||
		!slices.Equal(ni.AccessPorts, []netinst.AccessPort{{Label: "b", VLAN: 4000}}) {
		t.Errorf("VLANs %v, access ports %v, want VLANs %v", ni.VLANs, ni.AccessPorts, want)
	}
	if got := faultsOf(adapters(netinst.MaxVLANs + 1)); got != "" { // VLANs 2 to 32, and 4000
		t.Error(got)
	}
	want := "networkInstances." + ni1 + ": too many VLANs of its adapters and access ports (33): must be at most 32"
	if got := faultsOf(adapters(netinst.MaxVLANs + 2)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
