package nodeconf

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
)

func TestIPv4OfANetwork(t *testing.T) {
	wrap := func(v string) string { return "networkInstances: {$ni1: {ipv4: {" + v + "}}}" }
	checkSentences(t, wrap, []sentence{
		{"no subnet", "gateway: 10.0.0.1",
			"N1.ipv4.subnet: required: must be an IPv4 subnet of /8 to /30, unicast and neither loopback nor link-local"},
		{"an empty subnet", `subnet: ""`,
			`N1.ipv4.subnet: invalid value "": must be an IPv4 subnet of /8 to /30, unicast and neither loopback nor ` +
				`link-local`},
		{"the smallest subnet", "subnet: 10.0.0.0/30", ""},
		{"too small", "subnet: 10.0.0.0/31",
			`N1.ipv4.subnet: invalid value "10.0.0.0/31": must be an IPv4 subnet of /8 to /30, unicast and neither ` +
				`loopback nor link-local`},
		{"not masked", "subnet: 10.0.0.5/24", `N1.ipv4.subnet: invalid value "10.0.0.5/24": 10.0.0.0/24 is meant`},
		{"loopback", "subnet: 127.1.0.0/16",
			`N1.ipv4.subnet: invalid value "127.1.0.0/16": must be an IPv4 subnet of /8 to /30, unicast and neither ` +
				`loopback nor link-local`},
		{"link-local", "subnet: 169.254.1.0/24",
			`N1.ipv4.subnet: invalid value "169.254.1.0/24": must be an IPv4 subnet of /8 to /30, unicast and neither ` +
				`loopback nor link-local`},
		{"multicast", "subnet: 224.0.0.0/24",
			`N1.ipv4.subnet: invalid value "224.0.0.0/24": must be an IPv4 subnet of /8 to /30, unicast and neither ` +
				`loopback nor link-local`},
		{"IPv6", "subnet: 2001:db8::/64",
			`N1.ipv4.subnet: invalid value "2001:db8::/64": must be an IPv4 subnet of /8 to /30, unicast and neither ` +
				`loopback nor link-local`},
		{"gateway elsewhere", "subnet: 10.0.0.0/24, gateway: 10.0.1.1",
			`N1.ipv4.gateway: invalid value "10.0.1.1": must be a host address of 10.0.0.0/24: 10.0.0.1 to 10.0.0.254`},
		{"gateway the network", "subnet: 10.0.0.0/24, gateway: 10.0.0.0",
			`N1.ipv4.gateway: invalid value "10.0.0.0": must be a host address of 10.0.0.0/24: 10.0.0.1 to 10.0.0.254`},
		{"gateway the broadcast", "subnet: 10.0.0.0/24, gateway: 10.0.0.255",
			`N1.ipv4.gateway: invalid value "10.0.0.255": must be a host address of 10.0.0.0/24: 10.0.0.1 to 10.0.0.254`},
		{"gateway in dhcpRange", "subnet: 10.0.0.0/24, gateway: 10.0.0.9, dhcpRange: 10.0.0.9-10.0.0.20",
			"N1.ipv4.gateway: invalid value 10.0.0.9, in the dhcpRange 10.0.0.9-10.0.0.20: must be a gateway outside dhcpRange"},
		{"gateway in the default dhcpRange", "subnet: 10.0.0.0/24, gateway: 10.0.0.254",
			"N1.ipv4.gateway: invalid value 10.0.0.254, in the dhcpRange 10.0.0.128-10.0.0.254: must be a gateway outside " +
				"dhcpRange"},
		{"dhcpRange with the default gateway", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.1-10.0.0.20",
			"N1.ipv4.dhcpRange: invalid value 10.0.0.1-10.0.0.20, with the gateway 10.0.0.1 in it: must be a range without " +
				"the gateway"},
		{"dhcpRange of one address", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.5-10.0.0.5", ""},
		{"dhcpRange backwards", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.9-10.0.0.5",
			`N1.ipv4.dhcpRange: invalid value "10.0.0.9-10.0.0.5": must be "first-last", two IPv4 addresses in order`},
		{"dhcpRange half", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.9",
			`N1.ipv4.dhcpRange: invalid value "10.0.0.9": must be "first-last", two IPv4 addresses in order`},
		{"dhcpRange beyond", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.9-10.0.1.5",
			`N1.ipv4.dhcpRange: invalid value "10.0.0.9-10.0.1.5": must be a range of 10.0.0.0/24: 10.0.0.1 to 10.0.0.254`},
		{"dhcpRange with the broadcast", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.9-10.0.0.255",
			`N1.ipv4.dhcpRange: invalid value "10.0.0.9-10.0.0.255": must be a range of 10.0.0.0/24: 10.0.0.1 to 10.0.0.254`},
		{"dhcpRange from the network address", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.0-10.0.0.9",
			`N1.ipv4.dhcpRange: invalid value "10.0.0.0-10.0.0.9": must be a range of 10.0.0.0/24: 10.0.0.1 to 10.0.0.254`},
	})
}

func TestIPv4Defaults(t *testing.T) {
	for subnet, want := range map[string]string{
		"10.0.0.0/24":    "10.0.0.1 10.0.0.128-10.0.0.254",
		"10.0.0.0/30":    "10.0.0.1 10.0.0.2-10.0.0.2",
		"10.0.0.128/25":  "10.0.0.129 10.0.0.192-10.0.0.254",
		"10.0.0.0/8":     "10.0.0.1 10.128.0.0-10.255.255.254",
		"192.168.8.0/23": "192.168.8.1 192.168.9.0-192.168.9.254",
	} {
		_, c, err := Read([]byte("networkInstances: {" + ni1 + ": {ipv4: {subnet: " + subnet + "}}}"))
		if err != nil {
			t.Fatal(err)
		}
		v4 := c.Networks[uuid.MustParse(ni1)].IPv4
		if got := fmt.Sprintf("%s %s-%s", v4.Gateway, v4.DHCPFirst, v4.DHCPLast); got != want {
			t.Errorf("%s: got %s, want %s", subnet, got, want)
		}
	}
}

func TestNetworks(t *testing.T) {
	wrap := func(v string) string {
		return "ports: {wan: {ifName: eth0, mtu: 1400, labels: lan}}\nnetworkInstances: {$ni1: {ipv4: {subnet: 10.0.0.0/24}, " + v + "}}"
	}
	const labels = "must be all, freeuplink, lan, uplink or wan"
	checkSentences(t, wrap, []sentence{
		{"all fields", `displayName: "größe; \"x\"", type: local, activate: true, port: wan, dns: {domain: Lab.Edge, ` +
			`servers: 192.0.2.53, hosts: {a.b: "10.0.0.9,2001:db8::1"}}, ntpServers: 192.0.2.1, mtu: 1400, flowLog: false, ` +
			`spoofGuard: false, ipv6: {}, routes: {a: {destination: 192.0.2.0/24, gateway: 10.0.0.9, port: lan, cost: 0}, ` +
			`b: {destination: 192.0.2.0/24, gateway: 10.0.0.8, port: lan, cost: 255}}`, ""},
		{"no subnet at all", `ipv4: {}`, `
			N1.ipv4: duplicate key (2 times)`},
		{"later fields", "type: vpn, ipv6: {mode: slaac}, flowLog: true, vpn: {x: 1}", `
			N1.ipv6.subnet: required: must be an IPv6 subnet of /64, unicast and not link-local, such as fd00:1::/64
			N1.vpn.method: required: must be wireguard or ipsec
			N1.vpn.x: unknown field: must be address, dnsOutside, ipsec, method, mtu, nat or wireguard`},
		{"not activated", "activate: false", ""},
		{"a type that is none", "type: bridge", `N1.type: invalid value "bridge": must be local, switch or vpn`},
		{"air-gapped", `port: "", dns: {domain: x, hosts: {a: 10.0.0.9}}, ntpServers: 10.0.0.9, routes: {a: ` +
			`{destination: 192.0.2.0/24, gateway: 10.0.0.9}}`, ""},
		{"air-gapped with a way out",
			`port: "", dns: {servers: 192.0.2.53}, routes: {a: {destination: 192.0.2.0/24, gateway: 192.0.2.1}, b: ` +
				`{destination: 192.0.3.0/24, port: wan}, c: {destination: 192.0.4.0/24}, d: {destination: 192.0.5.0/24, ` +
				`gateway: 10.0.0.9, port: wan}}`, `
			N1.dns.servers: invalid for an air-gapped network: only a network with a port can ask other servers
			N1.routes.a.gateway: invalid for an air-gapped network: must be an address of its subnet 10.0.0.0/24
			N1.routes.b.port: invalid for an air-gapped network: must be a gateway in its subnet, and no port
			N1.routes.c.gateway: invalid for an air-gapped network: must be an address of its subnet 10.0.0.0/24
			N1.routes.d.port: invalid for an air-gapped network: must be a gateway in its subnet, and no port`},
		{"an unknown port", "port: lte", `N1.port: invalid value "lte", which no port has: ` + labels},
		{"MTU above the port's", "port: wan, mtu: 1401",
			"N1.mtu: invalid value 1401: must be at most 1400, by ports.wan.mtu"},
		{"MTU above a shared label's", "port: lan, mtu: 1401",
			"N1.mtu: invalid value 1401: must be at most 1400, by ports.wan.mtu"},
		{"MTU", "mtu: 1279", "N1.mtu: invalid value 1279: must be a whole number of 1280 to 65535"},
		{"display names", `displayName: "` + strings.Repeat("ä", 65) + `"`, `N1.displayName: invalid value "` +
			strings.Repeat("ä", 40) +
			`…": must be at most 64 printable characters`},
		{"DNS", `dns: {domain: "-x", servers: dns.example, hosts: {"a_b": 10.0.0.1, ok: "", A: 10.0.0.1, a: 10.0.0.2}}`, `
			N1.dns.domain: invalid value "-x": must be a host name of at most 253 characters, in labels of 1 to 63 ` +
			`letters, digits and inner hyphens
			N1.dns.hosts.a: duplicate key, same as "A": must be unique
			N1.dns.hosts.a_b: invalid key: must be a host name of at most 253 characters, in labels of 1 to 63 letters, ` +
			`digits and inner hyphens
			N1.dns.hosts.ok: invalid value "": must be IP addresses, at most 16, separated by commas
			N1.dns.servers: invalid value "dns.example": must be unicast IP addresses, at most 16, separated by commas`},
		{"an absent host", `dns: {hosts: {a: {"$absent": true}}}`, ""},
		{"routes", "routes: {a: {destination: 10.0.0.128/25}, b: {destination: 192.0.2.9/24, cost: 256}, c: {gateway: " +
			"1.2.3.4, port: lte}, d: {destination: 0.0.0.0/0}, e: {destination: 0.0.0.0/0}}", `
			N1.routes.a.destination: invalid value 10.0.0.128/25, within the subnet 10.0.0.0/24: must be a destination ` +
			`outside the network
			N1.routes.b.cost: invalid value 256: must be a whole number of 0 to 255
			N1.routes.b.destination: invalid value "192.0.2.9/24": 192.0.2.0/24, the network of it, or 192.0.2.9/32 is meant
			N1.routes.c.destination: required: must be a prefix such as 10.0.0.0/24 or 2001:db8::/32
			N1.routes.c.port: invalid value "lte", which no port has: ` + labels + `
			N1.routes.e.destination: duplicate value 0.0.0.0/0, also at N1.routes.d.destination: must be unique: one route ` +
			`for each destination and cost`},
	})
	checkSentences(t, asIs, []sentence{
		{"a switch network",
			"ports: {wan: {ifName: eth0}, lan: {ifName: eth1}}\nnetworkInstances: {$ni1: {type: switch, port: lan, mtu: " +
				"1400}, $ni2: {type: switch, port: \"\"}, $ni3: {ipv4: {subnet: 10.0.0.0/24}, port: wan}}", ""},
		{"a switch network with parts of a local one",
			"networkInstances: {$ni1: {type: switch, port: \"\", ipv4: {subnet: 10.0.0.0/24}, dns: {}, ntpServers: 192.0.2.1, " +
				"probe: {}, routes: {}}}", `
			N1.dns: invalid for a switch network: only type local has it
			N1.ipv4: invalid for a switch network: only type local has it
			N1.ntpServers: invalid for a switch network: only type local has it
			N1.probe: invalid for a switch network: only type local has it
			N1.routes: invalid for a switch network: only type local has it`},
		{"a switch network on several ports",
			"ports: {wan: {ifName: eth0, labels: x}, lan: {ifName: eth1, labels: x}}\n" +
				"networkInstances: {$ni2: {type: switch, port: x, forwardLLDP: true}}", ""},
		{"a switch network on ports that none names",
			"ports: {wan: {ifName: eth0, labels: x}}\nnetworkInstances: {$ni1: {type: switch}, $ni2: {type: switch, port: x}}", `
			N1.port: invalid value "uplink": for a switch network must be a port's own label, a shared label, or "" for none`},
		{"a local network with LLDP", "networkInstances: {$ni1: {port: \"\", ipv4: {subnet: 10.0.0.0/24}, forwardLLDP: true}}",
			"N1.forwardLLDP: invalid for a local network: only type switch has it"},
		{"a switch network on others' ports",
			"ports: {wan: {ifName: eth0, uplink: true}, lan: {ifName: eth1, labels: x}}\nnetworkInstances: {$ni1: {type: " +
				"switch, port: x}, $ni2: {type: switch, port: wan}, $ni3: {ipv4: {subnet: 10.0.0.0/24}, routes: {r: " +
				"{destination: 192.0.2.0/24, port: lan}}}}", `
			N1.port: invalid value "x", which N3.routes.r.port uses too: for a switch network must be a port that no ` +
				`other network uses
			N2.port: invalid value "wan", which N3.port uses too: for a switch network must be a port that no other ` +
				`network uses`},
		{"overlapping subnets",
			"networkInstances: {$ni1: {ipv4: {subnet: 10.0.0.0/16}}, $ni2: {ipv4: {subnet: 10.0.3.0/24}}}",
			"N2.ipv4.subnet: invalid value 10.0.3.0/24, which overlaps 10.0.0.0/16 of N1.ipv4.subnet: must be a subnet that " +
				"overlaps no other"},
		{"a network without anything", "networkInstances: {$ni1: {}}",
			"N1.ipv4.subnet: required: must be an IPv4 subnet of /8 to /30, unicast and neither loopback nor link-local"},
		{"a network of the wrong type", "networkInstances: {$ni1: x}", "N1: invalid type string: must be a mapping"},
		{"keys that are no UUID",
			"networkInstances: {lan: {ipv4: {subnet: x}}, 00000000-0000-0000-0000-000000000000: {ipv4: {subnet: 10.0.0.0/24}}}",
			`
			networkInstances.00000000-0000-0000-0000-000000000000: invalid key: must be a UUID of 8-4-4-4-12 hexadecimal ` +
				`digits, not all 0
			networkInstances.lan: invalid key: must be a UUID of 8-4-4-4-12 hexadecimal digits, not all 0
			networkInstances.lan.ipv4.subnet: invalid value "x": must be an IPv4 subnet of /8 to /30, unicast and neither ` +
				`loopback nor link-local`},
	})
}

func TestAtMost999Networks(t *testing.T) {
	for n, want := range map[int]string{999: "", 1000: "networkInstances: too many networks (1000): must be at most 999"} {
		var b strings.Builder
		b.WriteString("networkInstances:\n")
		for i := range n {
			fmt.Fprintf(&b, "  %08d-0000-4000-8000-000000000000: {ipv4: {subnet: 10.%d.%d.0/24}}\n", i, i/250, i%250)
		}
		if got := faultsOf(b.String()); got != want {
			t.Errorf("%d networks: got %q, want %q", n, got, want)
		}
	}
}

const twoNetworks = "networkInstances: {$ni1: {ipv4: {subnet: 10.0.0.0/24}}, $ni2: {ipv4: {subnet: 10.0.1.0/24}}}\n"

func TestAdapters(t *testing.T) {
	wrap := func(v string) string {
		return twoNetworks + "appNetworks: {$app1: {adapters: {0: {networkInstance: $ni1, attach: {kind: veth, netns: a}, " +
			v + "}}}}"
	}
	checkSentences(t, wrap, []sentence{
		{"no-ops of later fields", `mac: "", ip: "", ip6: "", vlan: 0, acl: {}`, ""},
		{"later fields", "ip6: 2001:db8::1, vlan: 5",
			"A1.adapters.0.ip6: invalid on a network whose ipv6.mode is not dhcpv6: the app makes its address by itself\n" +
				"A1.adapters.0.vlan: invalid value 5 on a local network: only an adapter of a switch network has it"},
		{"ip elsewhere", "ip: 10.0.1.5",
			`A1.adapters.0.ip: invalid value "10.0.1.5": must be a host address of the network's subnet 10.0.0.0/24`},
		{"ip the broadcast", "ip: 10.0.0.255",
			`A1.adapters.0.ip: invalid value "10.0.0.255": must be a host address of the network's subnet 10.0.0.0/24`},
		{"ip the gateway", "ip: 10.0.0.1",
			"A1.adapters.0.ip: invalid value 10.0.0.1, the network's gateway: must be unique"},
		{"ip in dhcpRange", "ip: 10.0.0.200",
			"A1.adapters.0.ip: invalid value 10.0.0.200, in the network's dhcpRange 10.0.0.128-10.0.0.254: " +
				"must be an address outside dhcpRange"},
		{"ip with a prefix", "ip: 10.0.0.5/24",
			`A1.adapters.0.ip: invalid value "10.0.0.5/24": must be a unicast IPv4 address`},
		{"a multicast MAC", "mac: 03:00:00:00:00:01",
			`A1.adapters.0.mac: invalid value "03:00:00:00:00:01": must be a unicast MAC address such as 02:00:00:00:00:01`},
		{"no MAC", "mac: 00:00:00:00:00:00",
			`A1.adapters.0.mac: invalid value "00:00:00:00:00:00": must be a unicast MAC address such as 02:00:00:00:00:01`},
		{"a long MAC", "mac: 02:00:00:00:00:01:02:03",
			`A1.adapters.0.mac: invalid value "02:00:00:00:00:01:02:03": must be a unicast MAC address such as ` +
				`02:00:00:00:00:01`},
	})
	checkSentences(t, asIs, []sentence{
		{"a port as an app's link",
			"ports: {wan: {ifName: eth0}}\nnetworkInstances: {$ni1: {ipv4: {subnet: 10.0.0.0/24}}}\nappNetworks: {$app1: " +
				"{adapters: {0: {networkInstance: $ni1, attach: {kind: external, hostIfName: eth0}}}}}",
			"A1.adapters.0.attach.hostIfName: duplicate value eth0, also at ports.wan.ifName: must be an interface that is " +
				"not a port"},
		{"ip on a switch network",
			"networkInstances: {$ni1: {type: switch, port: \"\"}}\nappNetworks: {$app1: {adapters: {0: {networkInstance: " +
				"$ni1, ip: 10.0.0.9, attach: {kind: veth, netns: a}}}}}",
			"A1.adapters.0.ip: invalid on a switch network: the app chooses its addresses there, and they are reported"},
	})
	wrap = func(v string) string {
		return twoNetworks + "appNetworks: {$app1: {adapters: {" + v + "}}}"
	}
	checkSentences(t, wrap, []sentence{
		{"nothing in it", "0: {}", `
			A1.adapters.0.attach.kind: required: must be veth, tap or external
			A1.adapters.0.networkInstance: required: must be a UUID of 8-4-4-4-12 hexadecimal digits, not all 0`},
		{"no namespace", "0: {networkInstance: $ni1, attach: {kind: veth}}",
			`A1.adapters.0.attach.netns: required: must be a name of 1 to 255 letters, digits, '.', '_' and '-', or a ` +
				`clean absolute path`},
		{"taps and links of others",
			"0: {networkInstance: $ni1, attach: {kind: tap}}, 1: {networkInstance: $ni1, attach: {kind: tap, hostIfName: " +
				"vm0}}, 2: {networkInstance: $ni1, attach: {kind: external, hostIfName: vnet0}}", ""},
		{"parts of other kinds",
			"0: {networkInstance: $ni1, attach: {kind: tap, netns: a, ifName: x}}, 1: {networkInstance: $ni1, attach: {kind: " +
				"veth, netns: a, hostIfName: vm0}}, 2: {networkInstance: $ni1, attach: {kind: external}}", `
			A1.adapters.0.attach.ifName: invalid for kind tap: kind veth has it
			A1.adapters.0.attach.netns: invalid for kind tap: kind veth has it
			A1.adapters.1.attach.hostIfName: invalid for kind veth: kinds tap and external have it
			A1.adapters.2.attach.hostIfName: required: must be an interface name of 1 to 15 letters, digits, '.', '_' and '-'`},
		{"links that are somebody else's",
			"0: {networkInstance: $ni1, attach: {kind: tap, hostIfName: es1a1}}, 1: {networkInstance: $ni1, attach: {kind: " +
				"external, hostIfName: vm0}}, 2: {networkInstance: $ni2, attach: {kind: tap, hostIfName: vm0}}, 3: " +
				"{networkInstance: $ni2, attach: {kind: external, hostIfName: lo}}", `
			A1.adapters.0.attach.hostIfName: invalid value "es1a1": must be an interface other than lo and those of ` +
				`edgespan (es or evpn followed by a digit)
			A1.adapters.2.attach.hostIfName: duplicate value vm0, also at A1.adapters.1.attach.hostIfName: must be unique
			A1.adapters.3.attach.hostIfName: invalid value "lo": must be an interface other than lo and those of edgespan ` +
				`(es or evpn followed by a digit)`},
		{"attach of the wrong type", "0: {networkInstance: $ni1, attach: veth}",
			"A1.adapters.0.attach: invalid type string: must be a mapping"},
		{"no UUID", "0: {networkInstance: lan, attach: {kind: veth, netns: a}}",
			`A1.adapters.0.networkInstance: invalid value "lan": must be a UUID of 8-4-4-4-12 hexadecimal digits, not all 0`},
		{"indexes", "-1: {networkInstance: $ni1, attach: {kind: veth, netns: a}}, 01: {networkInstance: $ni1, attach: " +
			"{kind: veth, netns: b}}", `
			A1.adapters.-1: invalid key: must be an index of 0 to 999
			A1.adapters.01: invalid key: must be an index of 0 to 999`},
		{"one index quoted and bare", `0: {networkInstance: $ni1, attach: {kind: veth, netns: a}}, "0": {}`,
			"A1.adapters.0: duplicate key (2 times)"},
		{"one name in one namespace",
			"0: {networkInstance: $ni1, attach: {kind: veth, netns: a, ifName: x}}, 1: {networkInstance: $ni2, attach: {kind: " +
				"veth, netns: /var/run/netns/a, ifName: x}}",
			`A1.adapters.1.attach.ifName: duplicate value x in "/var/run/netns/a", also at A1.adapters.0.attach: must be ` +
				`unique in its network namespace`},
		{"two adapters in one namespace by default names",
			"0: {networkInstance: $ni1, attach: {kind: veth, netns: a}}, 1: {networkInstance: $ni1, attach: {kind: veth, " +
				"netns: a}}", ""},
		{"paths that are none",
			"0: {networkInstance: $ni1, attach: {kind: veth, netns: /a/../b}}, 1: {networkInstance: $ni1, attach: {kind: " +
				"veth, netns: ..}}, 2: {networkInstance: $ni1, attach: {kind: veth, netns: a/b}}", `
			A1.adapters.0.attach.netns: invalid value "/a/../b": must be a name of 1 to 255 letters, digits, '.', '_' and ` +
				`'-', or a clean absolute path
			A1.adapters.1.attach.netns: invalid value "..": must be a name of 1 to 255 letters, digits, '.', '_' and '-', ` +
				`or a clean absolute path
			A1.adapters.2.attach.netns: invalid value "a/b": must be a name of 1 to 255 letters, digits, '.', '_' and '-', ` +
				`or a clean absolute path`},
		{"equal MACs on two networks",
			"0: {networkInstance: $ni1, mac: 02:00:00:00:00:AB, attach: {kind: veth, netns: a}}, 1: {networkInstance: $ni2, " +
				"mac: 02:00:00:00:00:ab, attach: {kind: veth, netns: a}}",
			"A1.adapters.1.mac: duplicate value 02:00:00:00:00:ab, also at A1.adapters.0.mac: must be unique"},
		{"equal addresses on one network",
			"0: {networkInstance: $ni1, ip: 10.0.0.5, attach: {kind: veth, netns: a}}, 1: {networkInstance: $ni1, ip: " +
				"10.0.0.5, attach: {kind: veth, netns: a}}",
			"A1.adapters.1.ip: duplicate value 10.0.0.5, also at A1.adapters.0.ip: must be unique"},
	})
}

// A generated MAC is told to apps and to their licences: it stays, and a config that
// gives it to another adapter is refused.
func TestAMACThatIsGeneratedForAnotherLinkIsRefused(t *testing.T) {
	k := netinst.AdapterKey{AppUUID: uuid.MustParse(app1), Index: 1}
	generated, host := netinst.LinkMACs(k, uuid.MustParse(ni2))
	bridge := netinst.BridgeMAC(uuid.MustParse(ni2))
	wrap := func(mac string) string {
		return twoNetworks + "appNetworks: {$app1: {adapters: {0: {networkInstance: $ni1, mac: '" + mac +
			"', attach: {kind: veth, netns: a}}, 1: {networkInstance: $ni2, attach: {kind: veth, netns: a}}}}}"
	}
	const own = ": must be unique"
	checkSentences(t, wrap, []sentence{
		{"an adapter's", generated, "A1.adapters.0.mac: invalid value " + generated +
			", the generated MAC address of A1.adapters.1, which has none configured" + own},
		{"a host side's", strings.ToUpper(host), "A1.adapters.0.mac: invalid value " + host +
			", the generated MAC address of the host's side of A1.adapters.1" + own},
		{"a bridge's", bridge, "A1.adapters.0.mac: invalid value " + bridge +
			", the generated MAC address of the bridge of networkInstances.$ni2" + own},
		{"another", "02:00:00:00:00:01", ""},
	})
	// Its own it may spell out, and one that is generated for nobody any more too.
	wrap = func(macs string) string {
		return twoNetworks +
			"appNetworks: {$app1: {adapters: {0: {networkInstance: $ni1, attach: {kind: veth, netns: a}}, 1: " +
			"{networkInstance: $ni2, attach: {kind: veth, netns: a}, " + macs + "}}}}"
	}
	checkSentences(t, wrap, []sentence{{"its own", "mac: '" + generated + "'", ""}})
	wrap = func(mac string) string {
		return twoNetworks + "appNetworks: {$app2: {adapters: {0: {networkInstance: $ni2, mac: '" + mac +
			"', attach: {kind: veth, netns: a}}}}}"
	}
	checkSentences(t, wrap, []sentence{{"nobody's", generated, ""}})
}

func TestApps(t *testing.T) {
	wrap := func(v string) string { return twoNetworks + "appNetworks: {" + v + "}" }
	one := "0: {networkInstance: $ni1, attach: {kind: veth, netns: a}}"
	two := "0: {networkInstance: $ni1, attach: {kind: veth, netns: b}}, 1: {networkInstance: $ni2, attach: {kind: veth, " +
		"netns: b}}"
	checkSentences(t, wrap, []sentence{
		{"an app without adapters", "$app1: {}", ""},
		{"equal names on one network", "$app1: {displayName: Web, adapters: {" + one +
			"}}, $app2: {displayName: web, adapters: {" + two + "}}",
			"A2.displayName: invalid value web, the name of A1 on network $ni1 too: must be unique on each network"},
		{"equal names that are no host names", "$app1: {displayName: a b, adapters: {" + one +
			"}}, $app2: {displayName: a b, adapters: {" + two + "}}", ""},
		{"equal names on two networks", "$app1: {displayName: web, adapters: {" + one +
			"}}, $app2: {displayName: web, adapters: {0: {networkInstance: $ni2, attach: {kind: veth, netns: b}}}}", ""},
		{"two apps in one namespace", "$app1: {adapters: {" + one +
			"}}, $app2: {adapters: {0: {networkInstance: $ni2, attach: {kind: veth, netns: a}}}}",
			`A2.adapters.0.attach.netns: duplicate value eth0 in "a", also at A1.adapters.0.attach: must be unique in its ` +
				`network namespace`},
	})
}

// Such a config may stand on a node: it is no fault, and the adapter says so too.
func TestANamespaceByTheNumberOfAProcessIsAWarning(t *testing.T) {
	for netns, want := range map[string]string{
		"/proc/77/ns/net": `A1.adapters.0.attach.netns: invalid value "/proc/77/ns/net", which another process can ` +
			`get: the adapter fails until it is a name below /run/netns (ip netns attach NAME PID)`,
		"/run/docker/netns/77": "",
		"proc":                 "",
	} {
		_, c, err := Read([]byte(expand.Replace(twoNetworks +
			"appNetworks: {$app1: {adapters: {0: {networkInstance: $ni1, attach: {kind: veth, netns: " + netns + "}}}}}")))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range c.Warnings {
			got = append(got, w.Error())
		}
		if strings.Join(got, "\n") != expand.Replace(want) {
			t.Errorf("%s: got %q, want %q", netns, got, want)
		}
	}
}

// What a tap can't take is a warning of a config that stands; apply refuses it (actors).
func TestAnMTUThatNoTapTakesIsAWarning(t *testing.T) {
	for _, c := range []struct{ mtu, adapters, want string }{
		{"65521", "0: {networkInstance: $ni1, attach: {kind: tap}}", ""},
		{"65535", "0: {networkInstance: $ni1, attach: {kind: veth, netns: a}}", ""},
		{"65535", "0: {networkInstance: $ni2, attach: {kind: tap}}", ""},
		{"65522", "1: {networkInstance: $ni1, attach: {kind: tap}}, 0: {networkInstance: $ni1, attach: {kind: tap}}",
			"N1.mtu: invalid value 65522: must be at most 65521, as much as the tap of A1.adapters.0.attach takes"},
	} {
		networks := "networkInstances: {$ni1: {ipv4: {subnet: 10.0.0.0/24}, mtu: " + c.mtu +
			"}, $ni2: {ipv4: {subnet: 10.0.1.0/24}}}\n"
		_, cfg, err := Read([]byte(expand.Replace(networks + "appNetworks: {$app1: {adapters: {" + c.adapters + "}}}")))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range cfg.Warnings {
			got = append(got, w.Error())
		}
		if strings.Join(got, "\n") != expand.Replace(c.want) {
			t.Errorf("mtu %s, %s: got %q, want %q", c.mtu, c.adapters, got, c.want)
		}
	}
}

func TestANetworkWithoutConfigIsAWarning(t *testing.T) {
	_, c, err := Read([]byte(expand.Replace("appNetworks: {$app1: {adapters: {0: {networkInstance: $ni1, attach: {kind: " +
		"veth, netns: a}}}}}")))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 1 {
		t.Fatalf("got %v", c.Warnings)
	}
	want := expand.Replace("A1.adapters.0.networkInstance: invalid value $ni1, which has no config: the app waits for it")
	if got := c.Warnings[0].Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if a := c.Apps[uuid.MustParse(app1)].Adapters[0]; a.IfName != "eth0" || a.Hostname != app1 {
		t.Errorf("got %+v", a)
	}
}

func aclDoc(v string) string {
	return "ports: {eth: {ifName: eth0, labels: wan, uplink: true}, dmz: {ifName: eth1}}\n" + twoNetworks +
		"appNetworks: {$app1: {adapters: {0: {networkInstance: $ni1, attach: {kind: veth, netns: a}, acl: {" + v + "}}}}}"
}

func TestACL(t *testing.T) {
	const ports = `must be a port of 1 to 65535, a range such as "80-90" or a list such as "80,443" of at most 15, a ` +
		`range counting as two`
	const rates = `a whole number of 1 to 10000 packets a second, minute or hour, such as "10/s", "10/m" or "10/h"`
	const mapped = `a port of 1 to 65535 or a range such as "8000-8010"`
	checkSentences(t, aclDoc, []sentence{
		{"no-ops of later fields", `a: {limit: {}, portmap: {}, match: {host: "", set: "", portLabel: ""}}`, ""},
		{"port maps", `a: {action: portmap, portmap: {port: 80}, match: {protocol: tcp}}, b: {action: portmap, portmap: ` +
			`{port: 80, targetPort: 81}, match: {protocol: udp, portLabel: wan}}, c: {action: portmap, portmap: {port: ` +
			`"81-90", targetPort: "1081-1090"}, match: {protocol: tcp, ip: 192.0.2.0/24}}, d: {action: portmap, portmap: ` +
			`{port: "90"}, match: {protocol: tcp, ip: 198.51.100.0/24}}`, ""},
		{"port maps that are none", `a: {action: portmap}, b: {action: portmap, portmap: {port: "80,81"}, match: ` +
			`{protocol: icmp}}, c: {action: portmap, portmap: {port: 80-90, targetPort: 80}, match: {protocol: tcp, port: ` +
			`7, localPort: 7}, direction: egress}, d: {portmap: {port: 80}}`, `
			A1.adapters.0.acl.a.match.protocol: invalid value "" of a port map: must be tcp or udp
			A1.adapters.0.acl.a.portmap.port: required: must be ` + mapped + `
			A1.adapters.0.acl.b.match.protocol: invalid value "icmp" of a port map: must be tcp or udp
			A1.adapters.0.acl.b.portmap.port: invalid value "80,81": must be ` + mapped + `
			A1.adapters.0.acl.c.direction: invalid value "egress" of a port map: must be ingress
			A1.adapters.0.acl.c.match.localPort: invalid for a port map: portmap.targetPort is the app's port
			A1.adapters.0.acl.c.match.port: invalid for a port map: the port of a client is its own choice
			A1.adapters.0.acl.c.portmap.targetPort: has 1 ports for 11: must be as many as portmap.port has
			A1.adapters.0.acl.d.portmap.port: maps nothing: must be used with action portmap`},
		{"port maps of one port", `a: {action: portmap, portmap: {port: "80-85"}, match: {protocol: tcp}}, b: {action: ` +
			`portmap, portmap: {port: 85, targetPort: 1}, match: {protocol: tcp, portLabel: wan}}`,
			`A1.adapters.0.acl.b.portmap.port: conflicts with A1.adapters.0.acl.a.portmap.port on port eth: must be a port ` +
				`that no other map has`},
		{"a port map without a port", `a: {action: portmap, portmap: {port: 80}, match: {protocol: tcp, portLabel: dmz}}`,
			`A1.adapters.0.acl.a.action: invalid value portmap on none of the network's ports: must be an adapter of a ` +
				`local network with a port`},
		{"a set that is none", `c: {match: {set: y}}`, `
			A1.adapters.0.acl.c.match.set: invalid value "y", not a set of the network: must be in ` +
			`networkInstances.<uuid>.sets, which is empty`},
		{"a port", `a: {match: {portLabel: eth}}, b: {match: {portLabel: wan}}, c: {match: {portLabel: uplink}}`, ""},
		{"a port that nothing is", `a: {match: {portLabel: lan}}, b: {match: {portLabel: "a b"}}, c: {match: {portLabel: 7}}`,
			`
			A1.adapters.0.acl.a.match.portLabel: invalid value "lan", which no port has: must be all, dmz, eth, freeuplink, ` +
				`uplink or wan
			A1.adapters.0.acl.b.match.portLabel: invalid value "a b": must be a port's label, a shared label, uplink, ` +
				`freeuplink or all
			A1.adapters.0.acl.c.match.portLabel: invalid type number: must be a string`},
		{"words that are none", "a: {action: accept, direction: in}", `
			A1.adapters.0.acl.a.action: invalid value "accept": must be allow, drop, limit or portmap
			A1.adapters.0.acl.a.direction: invalid value "in": must be egress, ingress or both`},
		{"limits", "a: {action: limit, limit: {rate: 10/s}}, b: {action: limit, limit: {rate: 1/h, burst: 24}}", ""},
		{"limits that are none", `a: {action: limit}, b: {action: limit, limit: {rate: 0/s}}, c: {action: limit, limit: ` +
			`{rate: 10/d, burst: 0}}, d: {limit: {rate: 10/s}}, e: {action: drop, limit: {burst: 7}}, f: {action: limit, ` +
			`limit: {rate: 1/h, burst: 25}}`, `
			A1.adapters.0.acl.a.limit.rate: required: must be ` + rates + `
			A1.adapters.0.acl.b.limit.rate: invalid value "0/s": must be ` + rates + `
			A1.adapters.0.acl.c.limit.burst: invalid value 0: must be a whole number of 1 to 10000
			A1.adapters.0.acl.c.limit.rate: invalid value "10/d": must be ` + rates + `
			A1.adapters.0.acl.d.limit.rate: limits nothing: must be used with action limit
			A1.adapters.0.acl.e.limit.burst: limits nothing: must be used with action limit
			A1.adapters.0.acl.f.limit.burst: invalid value 25: must be at most 24, the packets of a day at this rate`},
		{"equal orders", "a: {order: 5}, b: {order: 5}",
			"A1.adapters.0.acl.b.order: duplicate value 5, also at A1.adapters.0.acl.a.order: must be unique"},
		{"ports of no protocol",
			"a: {match: {port: 80}}, b: {match: {protocol: icmp, localPort: 80}}, c: {match: {protocol: 6, port: 80}}", `
			A1.adapters.0.acl.a.match.port: needs a protocol that has ports: must be used with protocol tcp or udp
			A1.adapters.0.acl.b.match.localPort: needs a protocol that has ports: must be used with protocol tcp or udp`},
		{"protocols", "a: {match: {protocol: sctp}}, b: {match: {protocol: 256}}, c: {match: {protocol: 132}}", `
			A1.adapters.0.acl.a.match.protocol: invalid value "sctp": must be tcp, udp, icmp or a number of 0 to 255
			A1.adapters.0.acl.b.match.protocol: invalid value 256: must be tcp, udp, icmp or a number of 0 to 255`},
		{"ports", `a: {match: {protocol: tcp, port: 0}}, b: {match: {protocol: tcp, port: "90-80"}}, c: {match: ` +
			`{protocol: tcp, port: "1-2,3-4,5-6,7-8,9-10,11-12,13-14,15"}}, d: {match: {protocol: tcp, port: ` +
			`"1-2,3-4,5-6,7-8,9-10,11-12,13-14,15-16"}}, e: {match: {protocol: tcp, port: true}}`, `
			A1.adapters.0.acl.a.match.port: invalid value 0: ` + ports + `
			A1.adapters.0.acl.b.match.port: invalid value "90-80": ` + ports + `
			A1.adapters.0.acl.d.match.port: invalid value "1-2,3-4,5-6,7-8,9-10,11-12,13-14,15-16": ` + ports + `
			A1.adapters.0.acl.e.match.port: invalid type boolean: must be a string or a whole number`},
		{"addresses", "a: {match: {ip: 10.0.0.1}}, b: {match: {ip: 10.0.0.1/8}}, c: {match: {ip: 2001:db8::/32}}, d: " +
			"{match: {ip: 0.0.0.0/0}}, e: {match: {ip: \"2001:db8::1/32\"}}", `
			A1.adapters.0.acl.b.match.ip: invalid value "10.0.0.1/8": 10.0.0.0/8, the network of it, or 10.0.0.1/32 is meant
			A1.adapters.0.acl.e.match.ip: invalid value "2001:db8::1/32": 2001:db8::/32, the network of it, or ` +
			`2001:db8::1/128 is meant`},
	})
}

func TestACLOrder(t *testing.T) {
	doc := aclDoc(`z: {order: 1}, b: {}, a: {}, y: {order: 0}, gone: {order: 0, "$absent": true}, web: {order: 7, ` +
		`match: {protocol: 6, port: "80-90, 443", ip: 10.0.0.9, portLabel: wan}}`)
	_, c, err := Read([]byte(expand.Replace(doc)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var web netinst.ACLRule
	for _, r := range c.Apps[uuid.MustParse(app1)].Adapters[0].ACL {
		names = append(names, r.Name)
		if r.Name == "web" {
			web = r
		}
	}
	if diff := cmp.Diff([]string{"y", "z", "web", "a", "b"}, names); diff != "" {
		t.Error(diff)
	}
	got := fmt.Sprintf("%s %s %s %s %v %s", web.Direction, web.Action, web.IP, web.Protocol, web.Ports, web.PortLabel)
	if want := "egress allow 10.0.0.9/32 tcp [80:90 443] wan"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The port of the remote end alone lets nobody in.
func TestARuleThatAllowsByTheRemotePortIsOfEgress(t *testing.T) {
	const warning = "invalid value both with match.port, the port of the remote end: taken as egress: write egress, and " +
		"a rule " +
		"of ingress with match.localPort for incoming traffic"
	for rule, want := range map[string]struct {
		direction netinst.Direction
		warning   string
	}{
		"{match: {protocol: tcp, port: 443}}":                               {netinst.Egress, ""},
		"{direction: both, match: {protocol: tcp, port: 443}}":              {netinst.Egress, warning},
		"{direction: egress, match: {protocol: tcp, port: 443}}":            {netinst.Egress, ""},
		"{direction: ingress, match: {protocol: tcp, port: 443}}":           {netinst.Ingress, ""}, // said in as many words
		"{direction: both, match: {protocol: tcp, port: 5, localPort: 6}}":  {netinst.Both, ""},
		"{direction: both, match: {protocol: tcp, localPort: 6}}":           {netinst.Both, ""},
		"{match: {protocol: tcp}}":                                          {netinst.Both, ""},
		"{action: drop, match: {protocol: tcp, port: 25}}":                  {netinst.Both, ""},
		"{action: drop, direction: both, match: {protocol: udp, port: 25}}": {netinst.Both, ""},
	} {
		_, c, err := Read([]byte(expand.Replace(aclDoc("r: " + rule))))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Apps[uuid.MustParse(app1)].Adapters[0].ACL[0].Direction; got != want.direction {
			t.Errorf("%s is of %s, want %s", rule, got, want.direction)
		}
		got := ""
		for _, w := range c.Warnings {
			if strings.HasSuffix(config.FormatPath(w.Path), "acl.r.direction") {
				got = w.Problem + ": " + w.Expectation
			}
		}
		if got != want.warning {
			t.Errorf("%s warns %q", rule, got)
		}
	}
}

func TestMoreAdaptersThanABridgeHasPortsAreWarnedOf(t *testing.T) {
	for n, want := range map[int]int{1023: 0, 1024: 1} {
		for _, active := range []bool{true, false} {
			var b strings.Builder
			fmt.Fprintf(&b, "networkInstances: {10000000-0000-4000-8000-000000000001: {type: switch, port: "+
				"\"\"}}\nappNetworks:\n")
			for i := range n {
				fmt.Fprintf(&b, "  %08d-0000-4000-8000-000000000000: {activate: %v, adapters: {0: {networkInstance: "+
					"10000000-0000-4000-8000-000000000001, attach: {kind: tap}}}}\n", i, active)
			}
			_, cfg, err := Read([]byte(b.String()))
			if err != nil {
				t.Fatal(err)
			}
			if got := len(cfg.Warnings); got != want && active || !active && got != 0 {
				t.Errorf("%d adapters, active %v: %v", n, active, cfg.Warnings)
			}
		}
	}
}
