package doctor

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
)

func healthy() (netstate.Facts, Node) {
	net := func(n byte, subnet string) netinst.NetworkInstanceConfig {
		s := netip.MustParsePrefix(subnet)
		return netinst.NetworkInstanceConfig{UUID: uuid.UUID{15: n}, Port: "wan",
			IPv4: netinst.IPv4Config{Subnet: s, Gateway: s.Addr().Next()}}
	}
	f := netstate.Facts{
		Commands: map[string]bool{"dnsmasq": true, "iptables-restore": true}, Features: map[string]bool{"veth": true},
		Listeners: []netstate.Listener{
			{Proto: "udp", Addr: netip.MustParseAddr("127.0.0.53"), Port: 53, Who: "systemd-resolve (1)"},
			{Proto: "udp", Addr: netip.MustParseAddr("10.1.0.1"), Port: 53, Who: "dnsmasq (2)", Own: true},
		},
		Networkd: true, Foreign: map[string]bool{"ManageForeignRoutingPolicyRules": false, "ManageForeignRoutes": false},
		RPFilter: map[string]int{"all": 0, "eth0": 2, "eth1": 0},
		Flows:    netstate.FlowTable{Max: 262144, Count: 100, Established: 432000},
		Daemons:  []netstate.Daemon{{PID: 7, Here: true, RunDir: "/run/a"}, {PID: 8, RunDir: "/run/b"}},
		Iptables: netstate.Iptables{Version: "1.8.9", Mode: "nf_tables", Wait: true, RandomFully: true},
	}
	n := Node{
		Networks: []netinst.NetworkInstanceConfig{net(1, "10.1.0.0/24"), net(2, "10.2.0.0/24")},
		Ports: []netinst.PortStatus{
			{PortConfig: netinst.PortConfig{Label: "wan", IfName: "eth0", Uplink: true},
				Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}},
			{PortConfig: netinst.PortConfig{Label: "lte", IfName: "eth1", Uplink: true}},
		},
		Source: "file", File: "/etc/edgespan/node.yaml",
	}
	return f, n
}

func TestAHealthyNodeHasOneFineFindingOfEachCheck(t *testing.T) {
	got := Examine(healthy())
	if len(got) != len(checks) {
		t.Errorf("%d findings of %d checks", len(got), len(checks))
	}
	for _, f := range got {
		if f.Level != Fine || f.Fix != "" || f.Text == "" {
			t.Errorf("%+v", f)
		}
	}
}

// mapRule is a port map of network 1, which uses port wan.
func mapRule(protocol string, first, last uint16) AdapterRule {
	ports := netinst.PortRange{First: first, Last: last}
	return AdapterRule{Path: "appNetworks.X", Network: uuid.UUID{15: 1}, ACLRule: netinst.ACLRule{
		Action: netinst.MapPort, Protocol: protocol, Portmap: netinst.Portmap{Ports: ports, Target: ports}}}
}

func TestWhatNoPortMapTakesIsFine(t *testing.T) {
	for what, l := range map[string]netstate.Listener{
		"of another protocol": {Proto: "udp", Addr: netip.IPv4Unspecified(), Port: 22},
		"below the range":     {Proto: "tcp", Addr: netip.IPv4Unspecified(), Port: 19},
		"above the range":     {Proto: "tcp", Addr: netip.IPv4Unspecified(), Port: 31},
		"on lo":               {Proto: "tcp", Addr: netip.MustParseAddr("127.0.0.1"), Port: 22},
		"on another uplink":   {Proto: "tcp", Addr: netip.MustParseAddr("203.0.113.2"), Port: 22},
		"edgespan's own":      {Proto: "tcp", Addr: netip.IPv4Unspecified(), Port: 22, Own: true},
	} {
		f, n := healthy()
		n.Ports[1].Addresses = []netip.Prefix{netip.MustParsePrefix("203.0.113.2/24")}
		f.Listeners, n.Rules = []netstate.Listener{l}, []AdapterRule{mapRule("tcp", 20, 30)}
		if got := takenPorts(f, n); len(got) > 0 {
			t.Errorf("%s: %+v", what, got)
		}
	}
	f, n := healthy()
	f.Listeners = []netstate.Listener{{Proto: "tcp", Addr: netip.IPv4Unspecified(), Port: 22}}
	n.Rules = []AdapterRule{{Network: uuid.UUID{15: 1}, ACLRule: netinst.ACLRule{Action: netinst.Allow, Protocol: "tcp"}}}
	f.Features["xt_set"] = false // which no rule needs
	if got := append(takenPorts(f, n), features(f, n)...); len(got) > 0 {
		t.Errorf("without a map or a set: %+v", got)
	}
}

func TestEachCheckFindsItsConflictAndNamesAFix(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*netstate.Facts, *Node)
		check string
		level string
		text  string
		fix   string
	}{
		"no dnsmasq": {func(f *netstate.Facts, _ *Node) { f.Commands["dnsmasq"] = false }, "commands", Problem, "dnsmasq",
			"apt-get install dnsmasq-base"},
		"no iptables": {func(f *netstate.Facts, _ *Node) { f.Commands["iptables-restore"] = false }, "commands", Problem,
			"iptables-restore", "apt-get install iptables"},
		"an iptables that hangs": {func(f *netstate.Facts, _ *Node) {
			f.Iptables = netstate.Iptables{Fault: "iptables --version has not ended"}
		}, "iptables", Problem, "has not ended", "iptables --version"},
		"an iptables without -w": {func(f *netstate.Facts, _ *Node) { f.Iptables.Wait = false }, "iptables", Problem,
			"iptables 1.8.9 (nf_tables) can't wait", "apt-get install iptables"},
		"no random ports": {func(f *netstate.Facts, _ *Node) { f.Iptables.RandomFully = false }, "iptables", Fine,
			"without --random-fully", ""},
		"nobody asked": {func(f *netstate.Facts, _ *Node) { f.Iptables = netstate.Iptables{} }, "iptables", Fine,
			"a daemon asks", ""},
		"an older kernel": {func(f *netstate.Facts, _ *Node) { f.Flushable = true }, "guard", Warning,
			"older than Linux 6.9", "flush ruleset"},
		"no veth": {func(f *netstate.Facts, _ *Node) { f.Features["veth"] = false }, "kernel", Problem, "veth",
			"modprobe veth"},
		"a wildcard DNS server": {func(f *netstate.Facts, _ *Node) {
			f.Listeners = []netstate.Listener{{Proto: "udp", Addr: netip.IPv6Unspecified(), Port: 53, Who: "named (5)"}}
		}, "port-53", Problem, "named (5) listens on udp port 53", "10.1.0.1"},
		"a DNS server on a gateway": {func(f *netstate.Facts, _ *Node) {
			f.Listeners = []netstate.Listener{{Proto: "tcp", Addr: netip.MustParseAddr("10.2.0.1"), Port: 53}}
		}, "port-53", Problem, "another process listens on tcp port 53 of 10.2.0.1", "ss -lnp"},
		"an sshd whose port is mapped": {func(f *netstate.Facts, n *Node) {
			f.Listeners = []netstate.Listener{{Proto: "tcp", Addr: netip.IPv4Unspecified(), Port: 22, Who: "sshd (6)"}}
			n.Rules = []AdapterRule{mapRule("tcp", 20, 30)}
		}, "port-maps", Warning, "sshd (6) listens on tcp port 22 of 0.0.0.0, which appNetworks.X", "portmap.port"},
		"a program on the uplink's address": {func(f *netstate.Facts, n *Node) {
			f.Listeners = []netstate.Listener{{Proto: "udp", Addr: netip.MustParseAddr("192.0.2.2"), Port: 500}}
			n.Rules = []AdapterRule{mapRule("udp", 500, 500)}
		}, "port-maps", Warning, "another process listens on udp port 500 of 192.0.2.2", "ss -lnp"},
		"no sets for a rule that needs them": {func(f *netstate.Facts, n *Node) {
			f.Features["ip_set"] = false
			n.Rules = []AdapterRule{{ACLRule: netinst.ACLRule{Host: "example.com"}}}
		}, "kernel", Problem, "the kernel has no ip_set", "modprobe ip_set"},
		"a dnsmasq that was killed": {func(f *netstate.Facts, _ *Node) { f.AtLimit = []string{"ni-1: memory (3 times)"} },
			"limits", Warning, "reached a limit: ni-1: memory (3 times)", "networkInstances.<uuid>.limits"},
		"no cgroups": {func(f *netstate.Facts, _ *Node) { f.Unlimited = []string{"memory", "pids"} }, "limits", Warning,
			"cgroup2 lacks: memory, pids", "unified_cgroup_hierarchy"},
		"networkd by default": {func(f *netstate.Facts, _ *Node) { f.Foreign = nil }, "networkd", Problem,
			"ManageForeignRoutingPolicyRules and ManageForeignRoutes", `ManageForeignRoutes=no`},
		"networkd half set": {func(f *netstate.Facts, _ *Node) { f.Foreign["ManageForeignRoutes"] = true }, "networkd",
			Problem, "ManageForeignRoutes is on", `[Network]\nManageForeignRoutes=no`},
		"strict, two uplinks": {func(f *netstate.Facts, _ *Node) { f.RPFilter["all"] = 1 }, "rp-filter", Problem, "eth1",
			"sysctl -w net.ipv4.conf.eth1.rp_filter=2"},
		"strict, one uplink": {func(f *netstate.Facts, n *Node) { f.RPFilter["eth0"], n.Ports = 1, n.Ports[:1] },
			"rp-filter", Warning, "eth0", "eth0.rp_filter=2"},
		"a kernel without VLAN filtering": {func(_ *netstate.Facts, n *Node) {
			n.Unfiltered = []netinst.NetworkInstanceConfig{{DisplayName: "lan"}}
		}, "vlans", Problem, "network lan has VLANs, and the kernel has no VLAN filtering of bridges",
			"grep CONFIG_BRIDGE_VLAN_FILTERING"},
		"a kernel without VLANs": {func(_ *netstate.Facts, n *Node) {
			n.PortFaults = []PortFault{{"wan", "add link eth0.5: the kernel has no 802.1Q (module 8021q)"}}
		}, "ports", Problem, "port wan: add link eth0.5: the kernel has no 802.1Q", "modprobe 8021q"},
		"a port without an address": {func(_ *netstate.Facts, n *Node) { n.PortFaults = []PortFault{{"lte", "no server"}} },
			"ports", Problem, "port lte: no server", "edgespan explain port/lte"},
		"two ports in one subnet": {func(_ *netstate.Facts, n *Node) {
			n.Ports[1].Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.9/25")}
		}, "port-subnets", Warning, "ports wan and lte are both in 192.0.2.0/24", "arp_ignore=1"},
		"two ports of one address": {func(_ *netstate.Facts, n *Node) {
			n.Ports[1].Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24"), netip.MustParsePrefix("192.0.2.2/32")}
		}, "port-subnets", Warning, "ports wan and lte have the same address 192.0.2.2", "explain port/lte"},
		"a port that was forgotten": {func(_ *netstate.Facts, n *Node) { n.Drained = []string{"wan"} }, "drains", Warning,
			"port wan is drained until it is undrained", "edgespan port undrain wan"},
		"an upgraded dnsmasq": {func(f *netstate.Facts, _ *Node) { f.Outdated = []int{7, 9} }, "outdated", Warning,
			"2 dnsmasq processes run a program that was replaced", "for pid in 7 9; do kill $pid; sleep 5; done"},
		"forwarding off": {func(_ *netstate.Facts, n *Node) { n.Closed = []string{"eth0.7"} }, "ip-forward", Problem,
			"by port eth0.7 is not forwarded", "sysctl -w net.ipv4.conf.eth0/7.forwarding=1"},
		"two networks": {func(_ *netstate.Facts,
			n *Node) {
			n.Networks[1].IPv4.Subnet = netip.MustParsePrefix("10.1.0.128/25")
		}, "subnets", Problem, "10.1.0.128/25", n1 + ".ipv4.subnet"},
		"no DNS server": {func(_ *netstate.Facts, n *Node) {
			n.Networks[0].Port = "wan"
			n.Ports[0].Exists, n.Ports[0].Up, n.Ports[0].DefaultRoutes = true, true, []netstate.DefaultRoute{{}}
		}, "dns", Warning, "has no DNS server: none is configured, and none was learned from eth0", "ports.wan.dnsServers"},
		"too few flows": {func(f *netstate.Facts, n *Node) { f.Flows.Max, n.Networks[0].Sharers = 65536, 64 }, "flows",
			Warning, "may have 512 flows", "nf_conntrack_max=1048576"},
		"flows all but full": {func(f *netstate.Facts, _ *Node) { f.Flows.Count = 250000 }, "flows", Problem,
			"250000 flows are tracked, of 262144", "nf_conntrack_max=524288"},
		"no flows are tracked": {func(f *netstate.Facts, _ *Node) { f.Flows = netstate.FlowTable{} }, "flows", Fine, "enough",
			""},
		"one subnet twice": {func(_ *netstate.Facts, n *Node) {
			n.Networks[1].IPv4 = n.Networks[0].IPv4
		}, "subnets", Problem, "overlaps with 10.1.0.0/24 of network", "ipv4.subnet"},
		"one subnet twice, on purpose": {func(_ *netstate.Facts, n *Node) {
			n.Networks[1].IPv4 = n.Networks[0].IPv4
			n.Networks[1].IPv4.MayOverlap = true
		}, "subnets", Fine, "", ""},
		"a program on the gateway of a shared subnet": {func(f *netstate.Facts, n *Node) {
			n.Networks[1].IPv4.MayOverlap = true
			f.Listeners = []netstate.Listener{{Proto: "udp", Addr: n.Networks[1].IPv4.Gateway, Port: 53}}
		}, "port-53", Fine, "", ""},
		"an address": {func(_ *netstate.Facts, n *Node) {
			n.Host = []overlap.HostPrefix{{Prefix: netip.MustParsePrefix("10.2.0.9/24"), Link: "eth1", Address: true}}
		}, "subnets", Problem, "overlaps with 10.2.0.9/24 on eth1: it is withdrawn", "ipv4.subnet"},
		"a connected route": {func(_ *netstate.Facts, n *Node) {
			n.Host = []overlap.HostPrefix{{Prefix: netip.MustParsePrefix("10.1.0.0/16"), Link: "br0"}}
		}, "subnets", Problem, "overlaps with route 10.1.0.0/16 on br0", "ipv4.subnet"},
		"a route by a gateway": {func(_ *netstate.Facts, n *Node) {
			n.Host = []overlap.HostPrefix{{Prefix: netip.MustParsePrefix("10.1.0.0/16"), Link: "eth0",
				Via: netip.MustParseAddr("192.0.2.1")}}
		}, "subnets", Warning, "overlaps with route 10.1.0.0/16 via 192.0.2.1 on eth0", "ipv4.subnet"},
		"two daemons": {func(f *netstate.Facts, _ *Node) { f.Daemons[1].Here = true }, "daemons", Problem,
			"7 and 8", "kill 8"},
		"one run folder": {func(f *netstate.Facts, _ *Node) { f.Daemons[1].RunDir = "/run/a" }, "daemons", Problem,
			"share one run folder", "--run-dir"},
		"another config": {func(_ *netstate.Facts, n *Node) { n.Differs, n.Source = true, "apply" }, "config",
			Problem, "came from apply", "edgespan apply -f /etc/edgespan/node.yaml"},
		"a refused config": {func(_ *netstate.Facts, n *Node) { n.Refused = "read: faults" }, "config", Problem,
			"read: faults", "edgespan plan -f"},
		"a fact that can't be read": {func(f *netstate.Facts, _ *Node) { f.Unknown = []string{"/proc/net/udp: denied"} },
			"facts", Warning, "/proc/net/udp: denied", "as root"},
	} {
		t.Run(name, func(t *testing.T) {
			f, n := healthy()
			c.spoil(&f, &n)
			found := false
			for _, x := range Examine(f, n) {
				if x.Level != Fine && x.Check != c.check {
					t.Errorf("%+v is another check's", x)
				}
				found = found || x.Check == c.check && x.Level == c.level && strings.Contains(x.Text, c.text) &&
					strings.Contains(x.Fix, c.fix)
			}
			if !found {
				t.Errorf("not found in %+v", Examine(f, n))
			}
		})
	}
}

const n1 = "00000000-0000-0000-0000-000000000001"
