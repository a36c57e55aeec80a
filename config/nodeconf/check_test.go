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
			"N1.ipv4.subnet: is missing: an IPv4 subnet of /8 to /30, unicast and neither loopback nor link-local is required"},
		{"an empty subnet", `subnet: ""`,
			`N1.ipv4.subnet: is "": an IPv4 subnet of /8 to /30, unicast and neither loopback nor link-local is allowed`},
		{"the smallest subnet", "subnet: 10.0.0.0/30", ""},
		{"too small", "subnet: 10.0.0.0/31",
			`N1.ipv4.subnet: is "10.0.0.0/31": an IPv4 subnet of /8 to /30, unicast and neither loopback nor link-local is allowed`},
		{"not masked", "subnet: 10.0.0.5/24", `N1.ipv4.subnet: is "10.0.0.5/24": 10.0.0.0/24 is meant`},
		{"loopback", "subnet: 127.1.0.0/16",
			`N1.ipv4.subnet: is "127.1.0.0/16": an IPv4 subnet of /8 to /30, unicast and neither loopback nor link-local is allowed`},
		{"link-local", "subnet: 169.254.1.0/24",
			`N1.ipv4.subnet: is "169.254.1.0/24": an IPv4 subnet of /8 to /30, unicast and neither loopback nor link-local is allowed`},
		{"multicast", "subnet: 224.0.0.0/24",
			`N1.ipv4.subnet: is "224.0.0.0/24": an IPv4 subnet of /8 to /30, unicast and neither loopback nor link-local is allowed`},
		{"IPv6", "subnet: 2001:db8::/64",
			`N1.ipv4.subnet: is "2001:db8::/64": an IPv4 subnet of /8 to /30, unicast and neither loopback nor link-local is allowed`},
		{"gateway elsewhere", "subnet: 10.0.0.0/24, gateway: 10.0.1.1",
			`N1.ipv4.gateway: is "10.0.1.1": a host address of 10.0.0.0/24 is allowed: 10.0.0.1 to 10.0.0.254`},
		{"gateway the network", "subnet: 10.0.0.0/24, gateway: 10.0.0.0",
			`N1.ipv4.gateway: is "10.0.0.0": a host address of 10.0.0.0/24 is allowed: 10.0.0.1 to 10.0.0.254`},
		{"gateway the broadcast", "subnet: 10.0.0.0/24, gateway: 10.0.0.255",
			`N1.ipv4.gateway: is "10.0.0.255": a host address of 10.0.0.0/24 is allowed: 10.0.0.1 to 10.0.0.254`},
		{"gateway in dhcpRange", "subnet: 10.0.0.0/24, gateway: 10.0.0.9, dhcpRange: 10.0.0.9-10.0.0.20",
			"N1.ipv4.gateway: is 10.0.0.9, in the dhcpRange 10.0.0.9-10.0.0.20: a gateway outside dhcpRange is allowed"},
		{"gateway in the default dhcpRange", "subnet: 10.0.0.0/24, gateway: 10.0.0.254",
			"N1.ipv4.gateway: is 10.0.0.254, in the dhcpRange 10.0.0.128-10.0.0.254: a gateway outside dhcpRange is allowed"},
		{"dhcpRange with the default gateway", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.1-10.0.0.20",
			"N1.ipv4.dhcpRange: is 10.0.0.1-10.0.0.20, with the gateway 10.0.0.1 in it: a range without the gateway is allowed"},
		{"dhcpRange of one address", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.5-10.0.0.5", ""},
		{"dhcpRange backwards", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.9-10.0.0.5",
			`N1.ipv4.dhcpRange: is "10.0.0.9-10.0.0.5": "first-last", two IPv4 addresses in order is allowed`},
		{"dhcpRange half", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.9",
			`N1.ipv4.dhcpRange: is "10.0.0.9": "first-last", two IPv4 addresses in order is allowed`},
		{"dhcpRange beyond", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.9-10.0.1.5",
			`N1.ipv4.dhcpRange: is "10.0.0.9-10.0.1.5": a range of 10.0.0.0/24 is allowed: 10.0.0.1 to 10.0.0.254`},
		{"dhcpRange with the broadcast", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.9-10.0.0.255",
			`N1.ipv4.dhcpRange: is "10.0.0.9-10.0.0.255": a range of 10.0.0.0/24 is allowed: 10.0.0.1 to 10.0.0.254`},
		{"dhcpRange from the network address", "subnet: 10.0.0.0/24, dhcpRange: 10.0.0.0-10.0.0.9",
			`N1.ipv4.dhcpRange: is "10.0.0.0-10.0.0.9": a range of 10.0.0.0/24 is allowed: 10.0.0.1 to 10.0.0.254`},
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
	const labels = "all, freeuplink, lan, uplink or wan is allowed"
	checkSentences(t, wrap, []sentence{
		{"all fields", `displayName: "größe; \"x\"", type: local, activate: true, port: wan, dns: {domain: Lab.Edge, servers: 192.0.2.53, hosts: {a.b: "10.0.0.9,2001:db8::1"}}, ntpServers: 192.0.2.1, mtu: 1400, flowLog: false, spoofGuard: false, ipv6: {}, routes: {a: {destination: 192.0.2.0/24, gateway: 10.0.0.9, port: lan, cost: 0}}`, ""},
		{"no subnet at all", `ipv4: {}`, `
			N1.ipv4: is given twice: each key once is allowed`},
		{"later fields", "type: vpn, ipv6: {mode: slaac}, flowLog: true, probe: {method: icmp}, vpn: {x: 1}", `
			N1.flowLog: not supported yet
			N1.ipv6: not supported yet
			N1.probe: not supported yet
			N1.type: not supported yet
			N1.vpn: not supported yet`},
		{"not activated", "activate: false", ""},
		{"a type that is none", "type: bridge", `N1.type: is "bridge": local or switch is allowed`},
		{"air-gapped", `port: "", dns: {domain: x, hosts: {a: 10.0.0.9}}, ntpServers: 10.0.0.9, routes: {a: {destination: 192.0.2.0/24, gateway: 10.0.0.9}}`, ""},
		{"air-gapped with a way out",
			`port: "", dns: {servers: 192.0.2.53}, routes: {a: {destination: 192.0.2.0/24, gateway: 192.0.2.1}, b: {destination: 192.0.3.0/24, port: wan}, c: {destination: 192.0.4.0/24}, d: {destination: 192.0.5.0/24, gateway: 10.0.0.9, port: wan}}`, `
			N1.dns.servers: is of an air-gapped network: a network with a port may ask other servers
			N1.routes.a.gateway: is of an air-gapped network: an address of its subnet 10.0.0.0/24 is allowed
			N1.routes.b.port: is of an air-gapped network: a gateway in its subnet is allowed, and no port
			N1.routes.c.gateway: is of an air-gapped network: an address of its subnet 10.0.0.0/24 is allowed
			N1.routes.d.port: is of an air-gapped network: a gateway in its subnet is allowed, and no port`},
		{"an unknown port", "port: lte", `N1.port: is "lte", which no port has: ` + labels},
		{"MTU above the port's", "port: wan, mtu: 1401", "N1.mtu: is 1401: at most 1400 is allowed by ports.wan.mtu"},
		{"MTU above a shared label's", "port: lan, mtu: 1401", "N1.mtu: is 1401: at most 1400 is allowed by ports.wan.mtu"},
		{"MTU", "mtu: 1279", "N1.mtu: is 1279: a whole number of 1280 to 65535 is allowed"},
		{"display names", `displayName: "` + strings.Repeat("ä", 65) + `"`, `N1.displayName: is "` + strings.Repeat("ä", 40) +
			`…": at most 64 printable characters is allowed`},
		{"DNS", `dns: {domain: "-x", servers: dns.example, hosts: {"a_b": 10.0.0.1, ok: "", A: 10.0.0.1, a: 10.0.0.2}}`, `
			N1.dns.domain: is "-x": a host name of at most 253 characters, in labels of 1 to 63 letters, digits and inner hyphens is allowed
			N1.dns.hosts.a: is the same key as "A": each key once is allowed
			N1.dns.hosts.a_b: is no key here: a host name of at most 253 characters, in labels of 1 to 63 letters, digits and inner hyphens is allowed
			N1.dns.hosts.ok: has "": IP addresses are allowed, at most 16, separated by commas
			N1.dns.servers: has "dns.example": unicast IP addresses are allowed, at most 16, separated by commas`},
		{"an absent host", `dns: {hosts: {a: {"$absent": true}}}`, ""},
		{"routes", "routes: {a: {destination: 10.0.0.128/25}, b: {destination: 192.0.2.9/24, cost: 1}, c: {gateway: " +
			"1.2.3.4, port: lte}, d: {destination: 0.0.0.0/0}, e: {destination: 0.0.0.0/0}}", `
			N1.routes.a.destination: is 10.0.0.128/25, within the subnet 10.0.0.0/24: a destination outside the network is allowed
			N1.routes.b.cost: not supported yet
			N1.routes.b.destination: is "192.0.2.9/24": 192.0.2.0/24, the network of it, or 192.0.2.9/32 is meant
			N1.routes.c.destination: is missing: an IPv4 prefix such as 10.0.0.0/24 is required
			N1.routes.c.port: is "lte", which no port has: ` + labels + `
			N1.routes.e.destination: is 0.0.0.0/0, as N1.routes.d.destination: one route for each destination is allowed`},
	})
	checkSentences(t, asIs, []sentence{
		{"a switch network",
			"ports: {wan: {ifName: eth0}, lan: {ifName: eth1}}\nnetworkInstances: {$ni1: {type: switch, port: lan, mtu: " +
				"1400}, $ni2: {type: switch, port: \"\"}, $ni3: {ipv4: {subnet: 10.0.0.0/24}, port: wan}}", ""},
		{"a switch network with parts of a local one",
			"networkInstances: {$ni1: {type: switch, port: \"\", ipv4: {subnet: 10.0.0.0/24}, dns: {}, ntpServers: 192.0.2.1, " +
				"routes: {}}}", `
			N1.dns: is of a switch network: type local has it
			N1.ipv4: is of a switch network: type local has it
			N1.ntpServers: is of a switch network: type local has it
			N1.routes: is of a switch network: type local has it`},
		{"a switch network on several ports",
			"ports: {wan: {ifName: eth0, labels: x}}\nnetworkInstances: {$ni1: {type: switch}, $ni2: {type: switch, port: x}}", `
			N1.port: is "uplink": a port's own label, or "" for none, is allowed for a switch network
			N2.port: is "x": a port's own label, or "" for none, is allowed for a switch network`},
		{"a switch network on others' ports",
			"ports: {wan: {ifName: eth0, uplink: true}, lan: {ifName: eth1}}\nnetworkInstances: {$ni1: {type: switch, port: " +
				"lan}, $ni2: {type: switch, port: wan}, $ni3: {ipv4: {subnet: 10.0.0.0/24}, routes: {r: {destination: " +
				"192.0.2.0/24, port: lan}}}}", `
			N1.port: is "lan", which N3.routes.r.port stands for too: a port that no other network uses is allowed for a switch network
			N2.port: is "wan", which N3.port stands for too: a port that no other network uses is allowed for a switch network`},
		{"overlapping subnets",
			"networkInstances: {$ni1: {ipv4: {subnet: 10.0.0.0/16}}, $ni2: {ipv4: {subnet: 10.0.3.0/24}}}",
			"N2.ipv4.subnet: is 10.0.3.0/24, which overlaps 10.0.0.0/16 of N1.ipv4.subnet: a subnet of its own is allowed"},
		{"a network without anything", "networkInstances: {$ni1: {}}",
			"N1.ipv4.subnet: is missing: an IPv4 subnet of /8 to /30, unicast and neither loopback nor link-local is required"},
		{"a network of the wrong type", "networkInstances: {$ni1: x}", "N1: is a string: a mapping is allowed"},
		{"keys that are no UUID",
			"networkInstances: {lan: {ipv4: {subnet: x}}, 00000000-0000-0000-0000-000000000000: {ipv4: {subnet: 10.0.0.0/24}}}",
			`
			networkInstances.00000000-0000-0000-0000-000000000000: is no key here: a UUID of 8-4-4-4-12 hexadecimal digits, not all 0 is allowed
			networkInstances.lan: is no key here: a UUID of 8-4-4-4-12 hexadecimal digits, not all 0 is allowed
			networkInstances.lan.ipv4.subnet: is "x": an IPv4 subnet of /8 to /30, unicast and neither loopback nor link-local is allowed`},
	})
}

func TestAtMost999Networks(t *testing.T) {
	for n, want := range map[int]string{999: "", 1000: "networkInstances: has 1000 networks: at most 999 are allowed"} {
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
			"A1.adapters.0.ip6: not supported yet\nA1.adapters.0.vlan: not supported yet"},
		{"ip elsewhere", "ip: 10.0.1.5",
			`A1.adapters.0.ip: is "10.0.1.5": a host address of the network's subnet 10.0.0.0/24 is allowed`},
		{"ip the broadcast", "ip: 10.0.0.255",
			`A1.adapters.0.ip: is "10.0.0.255": a host address of the network's subnet 10.0.0.0/24 is allowed`},
		{"ip the gateway", "ip: 10.0.0.1",
			"A1.adapters.0.ip: is 10.0.0.1, the network's gateway: an address of its own is allowed"},
		{"ip in dhcpRange", "ip: 10.0.0.200",
			"A1.adapters.0.ip: is 10.0.0.200, in the network's dhcpRange 10.0.0.128-10.0.0.254: an address outside dhcpRange " +
				"is allowed"},
		{"ip with a prefix", "ip: 10.0.0.5/24", `A1.adapters.0.ip: is "10.0.0.5/24": a unicast IPv4 address is allowed`},
		{"a multicast MAC", "mac: 03:00:00:00:00:01",
			`A1.adapters.0.mac: is "03:00:00:00:00:01": a unicast MAC address such as 02:00:00:00:00:01 is allowed`},
		{"no MAC", "mac: 00:00:00:00:00:00",
			`A1.adapters.0.mac: is "00:00:00:00:00:00": a unicast MAC address such as 02:00:00:00:00:01 is allowed`},
		{"a long MAC", "mac: 02:00:00:00:00:01:02:03",
			`A1.adapters.0.mac: is "02:00:00:00:00:01:02:03": a unicast MAC address such as 02:00:00:00:00:01 is allowed`},
	})
	checkSentences(t, asIs, []sentence{
		{"a port as an app's link",
			"ports: {wan: {ifName: eth0}}\nnetworkInstances: {$ni1: {ipv4: {subnet: 10.0.0.0/24}}}\nappNetworks: {$app1: " +
				"{adapters: {0: {networkInstance: $ni1, attach: {kind: external, hostIfName: eth0}}}}}",
			"A1.adapters.0.attach.hostIfName: is eth0, as ports.wan.ifName: an interface that is no port is allowed"},
		{"ip on a switch network",
			"networkInstances: {$ni1: {type: switch, port: \"\"}}\nappNetworks: {$app1: {adapters: {0: {networkInstance: " +
				"$ni1, ip: 10.0.0.9, attach: {kind: veth, netns: a}}}}}",
			"A1.adapters.0.ip: is on a switch network: no address is given there; those that the app uses are reported"},
	})
	wrap = func(v string) string {
		return twoNetworks + "appNetworks: {$app1: {adapters: {" + v + "}}}"
	}
	checkSentences(t, wrap, []sentence{
		{"nothing in it", "0: {}", `
			A1.adapters.0.attach.kind: is missing: veth, tap or external is required
			A1.adapters.0.networkInstance: is missing: a UUID of 8-4-4-4-12 hexadecimal digits, not all 0 is required`},
		{"no namespace", "0: {networkInstance: $ni1, attach: {kind: veth}}",
			`A1.adapters.0.attach.netns: is missing: a name of 1 to 255 letters, digits, '.', '_' and '-', or a clean absolute path is required`},
		{"taps and links of others",
			"0: {networkInstance: $ni1, attach: {kind: tap}}, 1: {networkInstance: $ni1, attach: {kind: tap, hostIfName: " +
				"vm0}}, 2: {networkInstance: $ni1, attach: {kind: external, hostIfName: vnet0}}", ""},
		{"parts of other kinds",
			"0: {networkInstance: $ni1, attach: {kind: tap, netns: a, ifName: x}}, 1: {networkInstance: $ni1, attach: {kind: " +
				"veth, netns: a, hostIfName: vm0}}, 2: {networkInstance: $ni1, attach: {kind: external}}", `
			A1.adapters.0.attach.ifName: is not of kind tap: kind veth has it
			A1.adapters.0.attach.netns: is not of kind tap: kind veth has it
			A1.adapters.1.attach.hostIfName: is not of kind veth: kinds tap and external have it
			A1.adapters.2.attach.hostIfName: is missing: an interface name of 1 to 15 letters, digits, '.', '_' and '-' is required`},
		{"links that are somebody else's",
			"0: {networkInstance: $ni1, attach: {kind: tap, hostIfName: es1a1}}, 1: {networkInstance: $ni1, attach: {kind: " +
				"external, hostIfName: vm0}}, 2: {networkInstance: $ni2, attach: {kind: tap, hostIfName: vm0}}, 3: " +
				"{networkInstance: $ni2, attach: {kind: external, hostIfName: lo}}", `
			A1.adapters.0.attach.hostIfName: is "es1a1": an interface that is neither lo nor ours is allowed: no es followed by a digit
			A1.adapters.2.attach.hostIfName: is vm0, as A1.adapters.1.attach.hostIfName: a link of its own is allowed
			A1.adapters.3.attach.hostIfName: is "lo": an interface that is neither lo nor ours is allowed: no es followed by a digit`},
		{"attach of the wrong type", "0: {networkInstance: $ni1, attach: veth}",
			"A1.adapters.0.attach: is a string: a mapping is allowed"},
		{"no UUID", "0: {networkInstance: lan, attach: {kind: veth, netns: a}}",
			`A1.adapters.0.networkInstance: is "lan": a UUID of 8-4-4-4-12 hexadecimal digits, not all 0 is allowed`},
		{"indexes", "-1: {networkInstance: $ni1, attach: {kind: veth, netns: a}}, 01: {networkInstance: $ni1, attach: " +
			"{kind: veth, netns: b}}", `
			A1.adapters.-1: is no key here: an index of 0 to 999 is allowed
			A1.adapters.01: is no key here: an index of 0 to 999 is allowed`},
		{"one index quoted and bare", `0: {networkInstance: $ni1, attach: {kind: veth, netns: a}}, "0": {}`,
			"A1.adapters.0: is given twice: each key once is allowed"},
		{"one name in one namespace",
			"0: {networkInstance: $ni1, attach: {kind: veth, netns: a, ifName: x}}, 1: {networkInstance: $ni2, attach: {kind: " +
				"veth, netns: /var/run/netns/a, ifName: x}}",
			`A1.adapters.1.attach.ifName: is x in "/var/run/netns/a", as A1.adapters.0.attach: a name of its own in its network namespace is allowed`},
		{"two adapters in one namespace by default names",
			"0: {networkInstance: $ni1, attach: {kind: veth, netns: a}}, 1: {networkInstance: $ni1, attach: {kind: veth, " +
				"netns: a}}", ""},
		{"paths that are none",
			"0: {networkInstance: $ni1, attach: {kind: veth, netns: /a/../b}}, 1: {networkInstance: $ni1, attach: {kind: " +
				"veth, netns: ..}}, 2: {networkInstance: $ni1, attach: {kind: veth, netns: a/b}}", `
			A1.adapters.0.attach.netns: is "/a/../b": a name of 1 to 255 letters, digits, '.', '_' and '-', or a clean absolute path is allowed
			A1.adapters.1.attach.netns: is "..": a name of 1 to 255 letters, digits, '.', '_' and '-', or a clean absolute path is allowed
			A1.adapters.2.attach.netns: is "a/b": a name of 1 to 255 letters, digits, '.', '_' and '-', or a clean absolute path is allowed`},
		{"equal MACs on two networks",
			"0: {networkInstance: $ni1, mac: 02:00:00:00:00:AB, attach: {kind: veth, netns: a}}, 1: {networkInstance: $ni2, " +
				"mac: 02:00:00:00:00:ab, attach: {kind: veth, netns: a}}",
			"A1.adapters.1.mac: is 02:00:00:00:00:ab, as A1.adapters.0.mac: a MAC address of its own is allowed"},
		{"equal addresses on one network",
			"0: {networkInstance: $ni1, ip: 10.0.0.5, attach: {kind: veth, netns: a}}, 1: {networkInstance: $ni1, ip: " +
				"10.0.0.5, attach: {kind: veth, netns: a}}",
			"A1.adapters.1.ip: is 10.0.0.5, as A1.adapters.0.ip: an address of its own is allowed"},
	})
}

// A generated MAC is told to apps and to their licences: it stays, and a config that
// gives it to another adapter is refused.
func TestAMACThatIsGeneratedForAnotherLinkIsRefused(t *testing.T) {
	k := netinst.AdapterKey{AppUUID: uuid.MustParse(app1), UnderlayIndex: 1}
	generated, host := netinst.LinkMACs(k, uuid.MustParse(ni2))
	bridge := netinst.BridgeMAC(uuid.MustParse(ni2))
	wrap := func(mac string) string {
		return twoNetworks + "appNetworks: {$app1: {adapters: {0: {networkInstance: $ni1, mac: '" + mac +
			"', attach: {kind: veth, netns: a}}, 1: {networkInstance: $ni2, attach: {kind: veth, netns: a}}}}}"
	}
	const own = ": a MAC address of its own is allowed"
	checkSentences(t, wrap, []sentence{
		{"an adapter's", generated, "A1.adapters.0.mac: is " + generated +
			", the generated MAC address of A1.adapters.1, which has none configured" + own},
		{"a host side's", strings.ToUpper(host), "A1.adapters.0.mac: is " + host +
			", the generated MAC address of the host's side of A1.adapters.1" + own},
		{"a bridge's", bridge, "A1.adapters.0.mac: is " + bridge +
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
			"A2.displayName: is web, the name of A1 on network $ni1 too: a name of its own on each network is allowed"},
		{"equal names that are no host names", "$app1: {displayName: a b, adapters: {" + one +
			"}}, $app2: {displayName: a b, adapters: {" + two + "}}", ""},
		{"equal names on two networks", "$app1: {displayName: web, adapters: {" + one +
			"}}, $app2: {displayName: web, adapters: {0: {networkInstance: $ni2, attach: {kind: veth, netns: b}}}}", ""},
		{"two apps in one namespace", "$app1: {adapters: {" + one +
			"}}, $app2: {adapters: {0: {networkInstance: $ni2, attach: {kind: veth, netns: a}}}}",
			`A2.adapters.0.attach.netns: is eth0 in "a", as A1.adapters.0.attach: a name of its own in its network namespace is allowed`},
	})
}

// Such a config may stand on a node: it is no fault, and the adapter says so too.
func TestANamespaceByTheNumberOfAProcessIsAWarning(t *testing.T) {
	for netns, want := range map[string]string{
		"/proc/77/ns/net":      `A1.adapters.0.attach.netns: invalid value "/proc/77/ns/net", which another process may get: the adapter fails until it is a name below /run/netns (ip netns attach NAME PID)`,
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
	want := expand.Replace("A1.adapters.0.networkInstance: is $ni1, which has no config: the app waits for it")
	if got := c.Warnings[0].Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if a := c.Apps[uuid.MustParse(app1)].Adapters[0]; a.IfName != "eth0" || a.Hostname != app1 {
		t.Errorf("got %+v", a)
	}
}

func aclDoc(v string) string {
	return "ports: {eth: {ifName: eth0, labels: wan}}\n" + twoNetworks +
		"appNetworks: {$app1: {adapters: {0: {networkInstance: $ni1, attach: {kind: veth, netns: a}, acl: {" + v + "}}}}}"
}

func TestACL(t *testing.T) {
	const ports = `a port of 1 to 65535, a range such as "80-90" or a list such as "80,443" of at most 15, a range counting as two is allowed`
	checkSentences(t, aclDoc, []sentence{
		{"no-ops of later fields", `a: {limit: {}, portmap: {}, match: {host: "", set: "", portLabel: ""}}`, ""},
		{"later fields", `a: {action: limit, limit: {rate: 10/s}}, b: {action: portmap, portmap: {port: 80}}, c: {match: {host: x, set: y}}`, `
			A1.adapters.0.acl.a.action: not supported yet
			A1.adapters.0.acl.a.limit: not supported yet
			A1.adapters.0.acl.b.action: not supported yet
			A1.adapters.0.acl.b.portmap: not supported yet
			A1.adapters.0.acl.c.match.host: not supported yet
			A1.adapters.0.acl.c.match.set: not supported yet`},
		{"a port", `a: {match: {portLabel: eth}}, b: {match: {portLabel: wan}}, c: {match: {portLabel: uplink}}`, ""},
		{"a port that nothing is", `a: {match: {portLabel: lan}}, b: {match: {portLabel: "a b"}}, c: {match: {portLabel: 7}}`,
			`
			A1.adapters.0.acl.a.match.portLabel: is "lan", which no port has: all, eth, freeuplink, uplink or wan is allowed
			A1.adapters.0.acl.b.match.portLabel: is "a b": a port's label, a shared label, uplink, freeuplink or all is allowed
			A1.adapters.0.acl.c.match.portLabel: is a number: a string is allowed`},
		{"words that are none", "a: {action: accept, direction: in}", `
			A1.adapters.0.acl.a.action: is "accept": allow or drop is allowed
			A1.adapters.0.acl.a.direction: is "in": egress, ingress or both is allowed`},
		{"equal orders", "a: {order: 5}, b: {order: 5}",
			"A1.adapters.0.acl.b.order: is 5, as A1.adapters.0.acl.a.order: an order of its own is allowed"},
		{"ports of no protocol",
			"a: {match: {port: 80}}, b: {match: {protocol: icmp, localPort: 80}}, c: {match: {protocol: 6, port: 80}}", `
			A1.adapters.0.acl.a.match.port: needs a protocol that has ports: protocol tcp or udp is allowed beside it
			A1.adapters.0.acl.b.match.localPort: needs a protocol that has ports: protocol tcp or udp is allowed beside it`},
		{"protocols", "a: {match: {protocol: sctp}}, b: {match: {protocol: 256}}, c: {match: {protocol: 132}}", `
			A1.adapters.0.acl.a.match.protocol: is "sctp": tcp, udp, icmp or a number of 0 to 255 is allowed
			A1.adapters.0.acl.b.match.protocol: is 256: tcp, udp, icmp or a number of 0 to 255 is allowed`},
		{"ports", `a: {match: {protocol: tcp, port: 0}}, b: {match: {protocol: tcp, port: "90-80"}}, c: {match: {protocol: tcp, port: "1-2,3-4,5-6,7-8,9-10,11-12,13-14,15"}}, d: {match: {protocol: tcp, port: "1-2,3-4,5-6,7-8,9-10,11-12,13-14,15-16"}}, e: {match: {protocol: tcp, port: true}}`, `
			A1.adapters.0.acl.a.match.port: is 0: ` + ports + `
			A1.adapters.0.acl.b.match.port: is "90-80": ` + ports + `
			A1.adapters.0.acl.d.match.port: is "1-2,3-4,5-6,7-8,9-10,11-12,13-14,15-16": ` + ports + `
			A1.adapters.0.acl.e.match.port: is a boolean: a string or a whole number is allowed`},
		{"addresses", "a: {match: {ip: 10.0.0.1}}, b: {match: {ip: 10.0.0.1/8}}, c: {match: {ip: 2001:db8::/32}}, d: " +
			"{match: {ip: 0.0.0.0/0}}", `
			A1.adapters.0.acl.b.match.ip: is "10.0.0.1/8": 10.0.0.0/8, the network of it, or 10.0.0.1/32 is meant
			A1.adapters.0.acl.c.match.ip: is "2001:db8::/32": an IPv4 prefix such as 10.0.0.0/24, or an IPv4 address is allowed`},
	})
}

func TestACLOrder(t *testing.T) {
	doc := aclDoc(`z: {order: 1}, b: {}, a: {}, y: {order: 0}, gone: {order: 0, "$absent": true}, web: {order: 7, match: {protocol: 6, port: "80-90, 443", ip: 10.0.0.9, portLabel: wan}}`)
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
	const warning = "is both beside match.port, the port of the remote end: taken as egress: write egress, and a rule " +
		"of ingress with match.localPort for what may come in"
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
