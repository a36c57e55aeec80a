package nodeconf

import (
	"strings"
	"testing"
)

func TestNetworksOfOneSubnet(t *testing.T) {
	wrap := func(v string) string {
		return "ports: {wan: {ifName: eth0, address: 192.0.2.9/24, addressing: static}}\nnetworkInstances: {" + v + "}"
	}
	const shared = `port: "", ipv4: {subnet: 10.1.0.0/24, mayOverlap: true}`
	const other = "N2.ipv4.subnet: invalid value 10.1.0.0/24, which overlaps 10.1.0.0/24 of N1.ipv4.subnet: " +
		"must be a subnet that overlaps no other"
	checkSentences(t, wrap, []sentence{
		{"two", "$ni1: {" + shared + "}, $ni2: {" + shared + "}", ""},
		{"one and an ordinary one", "$ni1: {" + shared + "}, $ni2: {ipv4: {subnet: 10.1.0.0/25}}", ""},
		{"an ordinary one and one", "$ni1: {ipv4: {subnet: 10.1.0.0/25}}, $ni2: {" + shared + "}", ""},
		{"two ordinary ones beside it", "$ni1: {ipv4: {subnet: 10.1.0.0/24}}, $ni2: {ipv4: {subnet: 10.1.0.0/24}}, " +
			"$ni3: {" + shared + "}", other},
		{"false is as absent", `$ni1: {ipv4: {subnet: 10.1.0.0/24}}, $ni2: {ipv4: {subnet: 10.1.0.0/24, mayOverlap: false}}`,
			other},
		{"gateways outside of each other's subnets", "$ni1: {ipv4: {subnet: 10.1.0.0/16}}, $ni2: {port: \"\", ipv4: {subnet: " +
			"10.1.9.0/24, gateway: 10.1.9.1, mayOverlap: true}}",
			"N2.ipv4.gateway: the gateway 10.1.9.1 is not 10.1.0.1 of N1.ipv4.subnet, whose subnet overlaps: must be the same " +
				"gateway, or be outside of the other's subnet"},
		{"a gateway that is an app's address elsewhere", "$ni1: {ipv4: {subnet: 10.1.9.0/24, gateway: 10.1.9.7}}, $ni2: " +
			"{port: \"\", ipv4: {subnet: 10.1.0.0/16, mayOverlap: true}}",
			"N2.ipv4.subnet: the gateway 10.1.0.1 is not 10.1.9.7 of N1.ipv4.subnet, whose subnet overlaps: must be the same " +
				"gateway, or be outside of the other's subnet"},
		{"one gateway in two subnets", "$ni1: {ipv4: {subnet: 10.1.0.0/16}}, $ni2: {port: \"\", ipv4: {subnet: 10.1.0.0/24, " +
			"mayOverlap: true}}", ""},
		{"with a port", "$ni1: {ipv4: {subnet: 10.1.0.0/24, mayOverlap: true}}, $ni2: {port: wan, ipv4: {subnet: " +
			"10.1.0.0/24, mayOverlap: true}, routes: {a: {destination: 10.9.0.0/24, gateway: 192.0.2.1}}, flows: reset}", ""},
		{"with what tells networks by subnets", "$ni1: {port: wan, ipv4: {subnet: 10.1.0.0/24, mayOverlap: true}, " +
			"flows: drain, share: true, routes: {a: {destination: 10.9.0.0/24, gateway: 10.1.0.9}}}",
			"N1.flows: invalid with ipv4.mayOverlap: must be reset\n" +
				"N1.routes.a.gateway: invalid with ipv4.mayOverlap: must be a gateway outside of the subnet: apps are no routers " +
				"there\nN1.share: invalid with ipv4.mayOverlap: must be false"},
		{"without a port, with what needs one", "$ni1: {" + shared + ", flows: keep, routes: {a: {destination: 10.9.0.0/24, " +
			"gateway: 10.1.0.9}}}",
			"N1.flows: invalid with ipv4.mayOverlap: must be reset\n" +
				"N1.routes.a.gateway: invalid with ipv4.mayOverlap: must be a gateway outside of the subnet: apps are no routers " +
				"there"},
		{"in the subnet of a port", `$ni1: {port: "", ipv4: {subnet: 192.0.2.0/24, mayOverlap: true}}`,
			"ports.wan.address: invalid value 192.0.2.9/24, which overlaps 192.0.2.0/24 of N1.ipv4.subnet: must be outside of " +
				"every network's subnet"},
		{"subnets of IPv6 are not scarce", "$ni1: {" + shared + `, ipv6: {subnet: "fd00:1::/64"}}, $ni2: {` + shared +
			`, ipv6: {subnet: "fd00:1::/64"}}`,
			"N2.ipv6.subnet: invalid value fd00:1::/64, which overlaps fd00:1::/64 of N1.ipv6.subnet: must be a subnet that " +
				"overlaps no other"},
		{"not of a switch", `$ni1: {type: switch, port: "", ipv4: {mayOverlap: true}}`,
			"N1.ipv4: invalid for a switch network: only type local has it"},
	})
}

// A port map of another network leads no app out of such a network.
func TestAPortMapIsNoWayOutOfANetworkOfOneSubnet(t *testing.T) {
	const ni1, ni2 = "10000000-0000-4000-8000-000000000001", "10000000-0000-4000-8000-000000000002"
	_, cfg, err := Read([]byte(`ports: {wan: {ifName: eth0}}
networkInstances:
  ` + ni1 + `: {port: wan, ipv4: {subnet: 10.1.0.0/24}}
  ` + ni2 + `: {port: "", ipv4: {subnet: 10.1.0.0/24, mayOverlap: true}}
appNetworks:
  a0000000-0000-4000-8000-000000000001:
    adapters:
      0: {networkInstance: ` + ni1 + `, attach: {kind: veth, netns: a}, acl: {m: {action: portmap, direction: ingress,
        match: {protocol: tcp}, portmap: {port: 80}}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, ni := range cfg.Networks {
		if ni.Mapped == ni.IPv4.MayOverlap {
			t.Errorf("%s: mapped %v", ni.UUID, ni.Mapped)
		}
	}
}

// A port map would have to say which of several apps with one address it leads to.
func TestAPortMapLeadsToNoNetworkOfOneSubnet(t *testing.T) {
	const ni1, app = "10000000-0000-4000-8000-000000000001", "a0000000-0000-4000-8000-000000000001"
	_, _, err := Read([]byte(`ports: {wan: {ifName: eth0}}
networkInstances: {` + ni1 + `: {port: wan, ipv4: {subnet: 10.1.0.0/24, mayOverlap: true}}}
appNetworks: {` + app + `: {adapters: {0: {networkInstance: ` + ni1 + `, attach: {kind: veth, netns: a},
  acl: {m: {action: portmap, direction: ingress, match: {protocol: tcp}, portmap: {port: 80}}}}}}}
`))
	want := "appNetworks." + app + ".adapters.0.acl.m.action: invalid value portmap on a network whose subnet others may " +
		"have: must be an adapter of a local network with a port and without ipv4.mayOverlap"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
