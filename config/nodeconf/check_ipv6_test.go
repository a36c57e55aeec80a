package nodeconf

import "testing"

func TestIPv6OfNetworks(t *testing.T) {
	wrap := func(v string) string {
		return "ports: {wan: {ifName: eth0}}\nnetworkInstances: {$ni1: {ipv4: {subnet: 10.0.0.0/24}, ipv6: {" + v +
			"}}, $ni2: {ipv4: {subnet: 10.0.1.0/24}, ipv6: {subnet: \"2001:db8:0:2::/64\", mode: dhcpv6, nat: true}}}"
	}
	subnet := func(value, hint string) string {
		return "N1.ipv6.subnet: invalid value \"" + value + "\": " + hint +
			"must be an IPv6 subnet of /64, unicast and not link-local, such as fd00:1::/64"
	}
	required := "N1.ipv6.subnet: required: must be an IPv6 subnet of /64, unicast and not link-local, such as fd00:1::/64"
	checkSentences(t, wrap, []sentence{
		{"slaac", `subnet: "fd00:1::/64"`, ""},
		{"off", `mode: "off"`, ""},
		{"off keeps a subnet", `mode: "off", subnet: "2001:db8:0:2::/64"`, ""},
		{"none", ``, ""},
		{"no subnet", `nat: true`, required},
		{"too short", `subnet: "fd00:1::/56"`, subnet("fd00:1::/56", "")},
		{"IPv4", `subnet: 10.0.0.0/24`, subnet("10.0.0.0/24", "")},
		{"link-local", `subnet: "fe80::/64"`, subnet("fe80::/64", "")},
		{"multicast", `subnet: "ff02::/64"`, subnet("ff02::/64", "")},
		{"loopback", `subnet: "::/64"`, subnet("::/64", "")},
		{"host bits", `subnet: "fd00:1::1/64"`, `N1.ipv6.subnet: invalid value "fd00:1::1/64": fd00:1::/64 is meant`},
		{"another's", `subnet: "2001:db8:0:2::/64"`, `N2.ipv6.subnet: invalid value 2001:db8:0:2::/64, which overlaps ` +
			`2001:db8:0:2::/64 of N1.ipv6.subnet: must be a subnet that overlaps no other`},
		{"mode", `subnet: "fd00:1::/64", mode: static`,
			`N1.ipv6.mode: invalid value "static": must be slaac, dhcpv6, bridged or off`},
		{"that of a switch", `mode: bridged`,
			`N1.ipv6.mode: invalid value "bridged" for a local network: must be slaac, dhcpv6 or off`},
	})
}

func TestIPv6OfAdapters(t *testing.T) {
	wrap := func(v string) string {
		return "ports: {wan: {ifName: eth0}}\nnetworkInstances: {$ni1: {ipv4: {subnet: 10.0.0.0/24}, " +
			"ipv6: {subnet: \"fd00:1::/64\", mode: dhcpv6}}}\nappNetworks: {$app1: {adapters: {0: {networkInstance: $ni1, " +
			"attach: {kind: veth, netns: a}, ip6: \"fd00:1::7\"}, 1: {networkInstance: $ni1, attach: {kind: veth, netns: a}, " +
			v + "}}}}"
	}
	checkSentences(t, wrap, []sentence{
		{"one", `ip6: "fd00:1::8"`, ""},
		{"elsewhere", `ip6: "fd00:2::8"`, `A1.adapters.1.ip6: invalid value "fd00:2::8": must be a host address of the ` +
			`network's subnet fd00:1::/64`},
		{"the gateway's", `ip6: "fd00:1::1"`,
			`A1.adapters.1.ip6: invalid value fd00:1::1, the network's gateway: must be unique`},
		{"the routers'", `ip6: "fd00:1::"`, `A1.adapters.1.ip6: invalid value "fd00:1::": must be a host address of the ` +
			`network's subnet fd00:1::/64`},
		{"twice", `ip6: "fd00:1::7"`,
			`A1.adapters.1.ip6: duplicate value fd00:1::7, also at A1.adapters.0.ip6: must be unique`},
		{"IPv4", `ip6: 10.0.0.7`, `A1.adapters.1.ip6: invalid value "10.0.0.7": must be a unicast IPv6 address`},
	})
}

func TestIPv6OfSwitchNetworks(t *testing.T) {
	const others = ": invalid for a switch network: the segment's routers assign its addresses"
	checkSentences(t, func(v string) string { return "networkInstances: {$ni1: {type: switch, port: '', ipv6: {" + v + "}}}" },
		[]sentence{
			{"bridged", `mode: bridged`, ""},
			{"off", `mode: "off"`, ""},
			{"none", ``, ""},
			{"assigned", `mode: slaac, subnet: "fd00:1::/64"`,
				`N1.ipv6.mode: invalid value "slaac" for a switch network: must be bridged or off`},
			{"more", `mode: bridged, subnet: "fd00:1::/64", nat: true`, "N1.ipv6.nat" + others + "\nN1.ipv6.subnet" + others},
		})
}

func TestIPv6OfStaticRoutes(t *testing.T) {
	wrap := func(v string) string {
		return "ports: {wan: {ifName: eth0}}\nnetworkInstances: {$ni1: {ipv4: {subnet: 10.0.0.0/24}, " +
			"ipv6: {subnet: \"fd00:1::/64\"}, routes: {a: {" + v + "}}}, $ni2: {ipv4: {subnet: 10.0.1.0/24}}}"
	}
	const family = "must be an address of the destination's family"
	checkSentences(t, wrap, []sentence{
		{"by a neighbour", `destination: "2001:db8::/32", gateway: "fd00:9::1"`, ""},
		{"by a link-local neighbour", `destination: "::/0", gateway: "fe80::1", port: wan`, ""},
		{"on link", `destination: "2001:db8::/32", port: wan`, ""},
		{"host bits", `destination: "2001:db8::1/32"`, `N1.routes.a.destination: invalid value "2001:db8::1/32": ` +
			`2001:db8::/32, the network of it, or 2001:db8::1/128 is meant`},
		{"by IPv4", `destination: "2001:db8::/32", gateway: 192.0.2.1`,
			`N1.routes.a.gateway: invalid value "192.0.2.1" for 2001:db8::/32: ` + family},
		{"IPv4 by IPv6", `destination: 192.0.2.0/24, gateway: "fe80::1"`,
			`N1.routes.a.gateway: invalid value "fe80::1" for 192.0.2.0/24: ` + family},
		{"by an app", `destination: "2001:db8::/32", gateway: "fd00:1::7"`, `N1.routes.a.gateway: invalid value ` +
			`fd00:1::7, within the subnet fd00:1::/64: must be a neighbour of a port: an app sends IPv6 from its own address alone`},
		{"no neighbour's address", `destination: "2001:db8::/32", gateway: "ff02::1"`,
			`N1.routes.a.gateway: invalid value "ff02::1": must be a unicast IP address`},
		{"to itself", `destination: "fd00:1::/80"`, `N1.routes.a.destination: invalid value fd00:1::/80, within the subnet ` +
			`fd00:1::/64: must be a destination outside the network`},
	})
	checkSentences(t, func(v string) string {
		return "ports: {wan: {ifName: eth0}}\nnetworkInstances: {$ni1: {ipv4: {subnet: 10.0.0.0/24}, " + v + "}}"
	}, []sentence{
		{"without IPv6", `routes: {a: {destination: "2001:db8::/32"}}`, `N1.routes.a.destination: invalid value ` +
			`"2001:db8::/32" on a network without IPv6: must be an IPv4 prefix, or the network must have ipv6`},
		{"air-gapped", `port: "", ipv6: {subnet: "fd00:1::/64"}, routes: {a: {destination: "2001:db8::/32", gateway: ` +
			`"fe80::1"}}`, `N1.routes.a.destination: invalid for an air-gapped network: must be an IPv4 prefix with a gateway in ` +
			`its subnet`},
	})
}
