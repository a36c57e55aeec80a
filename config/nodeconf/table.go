package nodeconf

import "slices"

var schema = compile(table)

// table is the schema of docs/configuration.md. A field that is not built yet stands here
// too, with what of it is refused, so that no one takes it for a typing error.
var table = slices.Concat(sysTable, portTable, networkTable, appTable)

var sysTable = []Entry{
	{Path: "sysParams", Type: Mapping, Description: "Parameters of the daemon itself."},
	{
		Path: "sysParams.managedConfig", Type: Boolean, Default: "false", Unsupported: []string{"true"},
		Description: "Whether a controller rules this node's config.",
	},
	{
		Path: "sysParams.logLevel", Type: String, Default: "info", Enum: []string{"debug", "info", "warn", "error"},
		Description: "The least level of a message that is logged.",
	},
	{
		Path: "sysParams.watchdogSeconds", Type: Integer, Default: "60", Min: 0, Max: 3600,
		Description: "Seconds without progress after which the daemon stops feeding its watchdog; 0 for never.",
	},
}

var portTable = []Entry{
	{Path: "ports", Type: Mapping, Description: "The host's interfaces that networks may use, by label. Other interfaces are never touched."},
	{Path: "ports.<label>", Type: Mapping, Description: "One port. uplink, freeuplink and all are no labels: they stand for sets of ports."},
	{
		Path: "ports.<label>.ifName", Type: String, Word: wordIfName, Required: true,
		Description: "The interface's name on the host; es followed by a digit is ours.",
	},
	{Path: "ports.<label>.uplink", Type: Boolean, Default: "false", Description: "Whether the port leads out; the word uplink stands for all such ports."},
	{
		Path: "ports.<label>.cost", Type: Integer, Default: "0", Min: 0, Max: 255,
		Description: "What using the port costs: of several ports that work the cheapest is taken, and freeuplink stands for uplinks of cost 0.",
	},
	{
		Path: "ports.<label>.labels", Type: StringList, Word: wordLabel,
		Description: "Shared labels: each stands for all ports that have it.",
	},
	{
		Path: "ports.<label>.addressing", Type: String, Default: "external", Enum: []string{"external", "static", "dhcp"}, Unsupported: []string{"static", "dhcp"},
		Description: "Who gives the port its address; external: someone else, we only look.",
	},
	{Path: "ports.<label>.address", Type: String, Unsupported: []string{anyOther}, Word: wordAny, Description: "The port's address where addressing is static."},
	{
		Path: "ports.<label>.gateway", Type: String, Word: wordIPv4,
		Description: "Default gateway in place of the one in the kernel's main table.",
	},
	{Path: "ports.<label>.dnsServers", Type: StringList, Word: wordServer, Description: "DNS servers that are reached through the port."},
	{Path: "ports.<label>.ntpServers", Type: StringList, Word: wordIPv4, Description: "NTP servers that networks on this port hand out (DHCP option 42)."},
	{Path: "ports.<label>.mtu", Type: Integer, Min: 68, Max: 65535, Description: "Bytes of the largest packet; absent: as found on the interface."},
}

var networkTable = []Entry{
	{Path: "networkInstances", Type: Mapping, Description: "The networks, by UUID; at most 999."},
	{Path: "networkInstances.<uuid>", Type: Mapping, Description: "One network."},
	{Path: "networkInstances.<uuid>.displayName", Type: String, Word: wordDisplay, Description: "A name for people."},
	{
		Path: "networkInstances.<uuid>.type", Type: String, Default: "local", Enum: []string{"local", "switch", "vpn"}, Unsupported: []string{"vpn"},
		Description: "local is a NAT network with DHCP and DNS of its own; switch is a bridge that joins its apps and, where it has a port, what is behind that port.",
	},
	{
		Path: "networkInstances.<uuid>.activate", Type: Boolean, Default: "true",
		Description: "Whether adapters may connect; false leaves bridge, DHCP and DNS only.",
	},
	{
		Path: "networkInstances.<uuid>.port", Type: String, Word: wordNetPort, Default: "uplink",
		Description: `The way out; "" is an air-gapped network: its apps reach each other, DHCP and the network's own names, and nothing else. A switch network takes one port's own label, and that interface into its bridge: no other network may use it, and it must not hold addresses of the host.`,
	},
	{Path: "networkInstances.<uuid>.ipv4", Type: Mapping, Description: "The IPv4 side."},
	{
		Path: "networkInstances.<uuid>.ipv4.subnet", Type: String, Word: wordSubnet, Required: true, When: "type=local",
		Description: "The network's addresses. Subnets of two networks never overlap. After a change of it an app keeps its old address until it asks again, at the latest after half of its lease of one hour; a new DHCP request, or taking its link down and up, gives it the new one at once.",
	},
	{
		Path: "networkInstances.<uuid>.ipv4.gateway", Type: String, Word: wordIPv4,
		Description: "The node's own address on the network; default: the first host address of the subnet.",
	},
	{
		Path: "networkInstances.<uuid>.ipv4.dhcpRange", Type: String, Word: wordRange,
		Description: "Where generated addresses come from, both ends included; default: the upper half of the subnet without its broadcast address.",
	},
	{Path: "networkInstances.<uuid>.ipv6", Type: Mapping, Unsupported: []string{anyOther}, Description: "The IPv6 side: subnet, mode, nat."},
	{Path: "networkInstances.<uuid>.dns", Type: Mapping, Description: "What the network's DNS server answers."},
	{Path: "networkInstances.<uuid>.dns.domain", Type: String, Word: wordHostname, Description: "The domain that apps' names also have."},
	{Path: "networkInstances.<uuid>.dns.servers", Type: StringList, Word: wordServer, Description: "Whom it asks, in place of the port's DNS servers."},
	{Path: "networkInstances.<uuid>.dns.hosts", Type: Mapping, Description: "Static names."},
	{Path: "networkInstances.<uuid>.dns.hosts.<host>", Type: StringList, Word: wordIP, Required: true, Description: "The addresses of one name."},
	{
		Path: "networkInstances.<uuid>.ntpServers", Type: StringList, Word: wordIPv4,
		Description: "NTP servers that DHCP hands out (option 42), in place of the port's.",
	},
	{
		Path: "networkInstances.<uuid>.mtu", Type: Integer, Min: 1280, Max: 65535,
		Description: "Bytes of the largest packet; not above the port's; absent: the port's, else 1500.",
	},
	{Path: "networkInstances.<uuid>.flowLog", Type: Boolean, Default: "false", Unsupported: []string{"true"}, Description: "Whether flows are recorded."},
	{
		Path: "networkInstances.<uuid>.spoofGuard", Type: Boolean, Default: "true",
		Description: "Whether an adapter may send only from its own MAC and IP address.",
	},
	{Path: "networkInstances.<uuid>.routes", Type: Mapping, Description: "More routes of the network."},
	{Path: "networkInstances.<uuid>.routes.<name>", Type: Mapping, Description: "One route; without gateway and port it leads straight out of the network's port."},
	{
		Path: "networkInstances.<uuid>.routes.<name>.destination", Type: String, Word: wordPrefix, Required: true,
		Description: "Where the route leads; no destination twice, none within the network's own subnet.",
	},
	{Path: "networkInstances.<uuid>.routes.<name>.gateway", Type: String, Word: wordIPv4, Description: "The next hop. While it is on no subnet of the port, the route is left out and the network's status has a warning."},
	{Path: "networkInstances.<uuid>.routes.<name>.port", Type: String, Word: wordLabelRef, Description: "The port, where it is another than the network's."},
	{
		Path: "networkInstances.<uuid>.routes.<name>.cost", Type: Integer, Default: "0", Min: 0, Max: 255, Unsupported: []string{anyOther},
		Description: "Of two routes to one destination the cheaper is taken.",
	},
	{Path: "networkInstances.<uuid>.probe", Type: Mapping, Unsupported: []string{anyOther}, Description: "How uplinks are probed."},
	{Path: "networkInstances.<uuid>.vpn", Type: Mapping, Unsupported: []string{anyOther}, Description: "The tunnel of a network of type vpn."},
}

var appTable = []Entry{
	{Path: "appNetworks", Type: Mapping, Description: "The apps, by UUID."},
	{Path: "appNetworks.<uuid>", Type: Mapping, Description: "All adapters of one app."},
	{
		Path: "appNetworks.<uuid>.displayName", Type: String, Word: wordDisplay,
		Description: "A name for people; as a host name it is also the app's name in DNS, else the UUID is. No two apps of a network share one.",
	},
	{Path: "appNetworks.<uuid>.activate", Type: Boolean, Default: "true", Description: "Whether the app's adapters are connected."},
	{Path: "appNetworks.<uuid>.adapters", Type: Mapping, Description: "The adapters, by index from 0."},
	{Path: "appNetworks.<uuid>.adapters.<index>", Type: Mapping, Description: "One adapter."},
	{
		Path: "appNetworks.<uuid>.adapters.<index>.networkInstance", Type: String, Word: wordUUID, Required: true,
		Description: "The network; one without config is accepted with a warning, and the app waits for it.",
	},
	{
		Path: "appNetworks.<uuid>.adapters.<index>.mac", Type: String, Word: wordMAC,
		Description: "The app's MAC address, on the node only once, and none that is generated for another link; absent: generated from the UUIDs and kept.",
	},
	{
		Path: "appNetworks.<uuid>.adapters.<index>.ip", Type: String, Word: wordIPv4,
		Description: "The app's address: in the subnet, outside dhcpRange; absent: taken from dhcpRange and kept.",
	},
	{Path: "appNetworks.<uuid>.adapters.<index>.ip6", Type: String, Word: wordAny, Unsupported: []string{anyOther}, Description: "The app's IPv6 address."},
	{
		Path: "appNetworks.<uuid>.adapters.<index>.vlan", Type: Integer, Default: "0", Min: 0, Max: 4094, Unsupported: []string{anyOther},
		Description: "The VLAN of an adapter of a switch network.",
	},
	{Path: "appNetworks.<uuid>.adapters.<index>.attach", Type: Mapping, Description: "How the adapter reaches the app."},
	{
		Path: "appNetworks.<uuid>.adapters.<index>.attach.kind", Type: String, Enum: []string{"veth", "tap", "external"}, Required: true,
		Description: "veth makes a pair of links and moves one into a network namespace; tap makes a persistent tap device for a virtual machine that runs as root; external takes a link that something else makes into the bridge whenever it is there, and never deletes it.",
	},
	{
		Path: "appNetworks.<uuid>.adapters.<index>.attach.netns", Type: String, Word: wordNetns, Required: true, When: "attach.kind=veth",
		Description: "The app's network namespace: a name below /run/netns, or an absolute path. One that does not exist yet is waited for.",
	},
	{
		Path: "appNetworks.<uuid>.adapters.<index>.attach.ifName", Type: String, Word: wordIfName,
		Description: "The link's name on the app's side of a veth, once in a namespace; default: eth<index>.",
	},
	{
		Path: "appNetworks.<uuid>.adapters.<index>.attach.hostIfName", Type: String, Word: wordIfName, Required: true, When: "attach.kind=external",
		Description: "The link's name on the host's side, once on the node and no port's; tap: absent, ours to choose; never allowed for veth.",
	},
	{
		Path: "appNetworks.<uuid>.adapters.<index>.acl", Type: Mapping,
		Description: "What the adapter may send and receive, by rule name. A packet that no rule allows is dropped.",
	},
	{Path: aclPath, Type: Mapping, Description: "One rule; the first that matches decides."},
	{
		Path: aclPath + ".order", Type: Integer, Min: 0, Max: 65535,
		Description: "The rule's place, each number once; rules without it come after all that have it, by name.",
	},
	{
		Path: aclPath + ".direction", Type: String, Default: "both", Enum: []string{"egress", "ingress", "both"},
		Description: "Who begins: egress is the app. Replies always pass.",
	},
	{
		Path: aclPath + ".action", Type: String, Default: "allow", Enum: []string{"allow", "drop", "limit", "portmap"}, Unsupported: []string{"limit", "portmap"},
		Description: "What becomes of the packet.",
	},
	{Path: aclPath + ".match", Type: Mapping, Description: "Which packets; every part given must match."},
	{
		Path: aclPath + ".match.ip", Type: String, Word: wordPrefixOrIP,
		Description: "The remote end. The node's own addresses need a rule that names them: neither 0.0.0.0/0 nor an absent ip covers them.",
	},
	{Path: aclPath + ".match.host", Type: String, Word: wordAny, Unsupported: []string{anyOther}, Description: "The remote end by name."},
	{Path: aclPath + ".match.protocol", Type: StringOrInt, Word: wordProtocol, Description: "The protocol above IP; absent or 0: any."},
	{Path: aclPath + ".match.port", Type: StringOrInt, Word: wordPorts, Description: "The remote ports; with protocol tcp or udp only."},
	{Path: aclPath + ".match.localPort", Type: StringOrInt, Word: wordPorts, Description: "The adapter's own ports; with protocol tcp or udp only."},
	{Path: aclPath + ".match.portLabel", Type: String, Word: wordLabelRef, Description: "The port of the host that the packet leaves by (egress) or comes in by (ingress). Between adapters, and to the node itself, a packet passes none."},
	{Path: aclPath + ".match.set", Type: String, Word: wordAny, Unsupported: []string{anyOther}, Description: "A named set of addresses that the remote end is in."},
	{Path: aclPath + ".limit", Type: Mapping, Unsupported: []string{anyOther}, Description: "The rate of action limit."},
	{Path: aclPath + ".portmap", Type: Mapping, Unsupported: []string{anyOther}, Description: "The ports of action portmap."},
}

const aclPath = "appNetworks.<uuid>.adapters.<index>.acl.<name>"
