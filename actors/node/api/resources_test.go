package api

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/netinst"
	"edgespan/netinst/probe"
)

// The specs on the wire are as they always were, to the byte.
func TestSpecsOnTheWire(t *testing.T) {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	network := netinst.NetworkInstanceConfig{
		DisplayName: "demo", Type: netinst.Local, Port: "wan", MTU: 1400, SpoofGuard: true, Generation: 3,
		IPv4: netinst.IPv4Config{Subnet: prefix("10.1.0.0/24"), Gateway: addr("10.1.0.1"), DHCPFirst: addr("10.1.0.128"),
			DHCPLast: addr("10.1.0.254")},
		DNS: netinst.DNSConfig{Domain: "demo.lan", Servers: []netip.Addr{addr("9.9.9.9"), addr("1.1.1.1")},
			Hosts: map[netinst.Hostname][]netip.Addr{"printer": {addr("10.1.0.9")}}},
		NTPServers: []netip.Addr{addr("192.0.2.1")},
		Routes: []netinst.StaticRoute{{Name: "lab", Destination: prefix("10.9.0.0/16"), Gateway: addr("192.0.2.9")},
			{Name: "link", Destination: prefix("10.8.0.0/16"), Port: "lan"}},
	}
	probed := netinst.NetworkInstanceConfig{Type: netinst.Local, Probe: probe.Config{Method: probe.ICMP,
		Targets: []string{"192.0.2.9", "a.example"}, Interval: 500 * time.Millisecond, FailAfter: 4, MaxLoss: 20}}
	app := appnet.AppNetworkConfig{DisplayName: "web", Activate: true,
		Adapters: map[int]netinst.AdapterSpec{
			0: {NetworkInstance: uuid.MustParse("10000000-0000-4000-8000-000000000001"), Kind: netinst.Veth, Netns: "web",
				IfName: "eth0", MAC: "02:00:00:00:00:01", IP: addr("10.1.0.5"), ACL: []netinst.ACLRule{
					{Name: "out", Direction: netinst.Egress, Action: netinst.Allow, IP: prefix("0.0.0.0/0"), Protocol: "tcp",
						Ports: []netinst.PortRange{{First: 80, Last: 81}}, PortLabel: "wan"}, {Name: "in"}}},
			1: {Kind: netinst.Tap},
		}}
	cluster := netinst.NetworkInstanceConfig{Type: netinst.Switch, Members: []netinst.IfName{"lan0"},
		Tunnels: []netinst.Tunnel{{Name: "b", VNI: 7, Local: addr("192.0.2.1"), Port: 4789, MTU: 1450, Isolated: true}}}
	for name, c := range map[string]struct {
		spec any
		want string
	}{
		"a network": {
			networkSpec(network),
			`{"activate":true,"displayName":"demo","dns":{"domain":"demo.lan","hosts":{"printer":"10.1.0.9"},` +
				`"servers":"9.9.9.9,1.1.1.1"},"generation":3,"ipv4":{"dhcpRange":"10.1.0.128-10.1.0.254",` +
				`"gateway":"10.1.0.1","subnet":"10.1.0.0/24"},"mtu":1400,"ntpServers":"192.0.2.1","port":"wan",` +
				`"routes":{"lab":{"cost":0,"destination":"10.9.0.0/16","gateway":"192.0.2.9","port":""},` +
				`"link":{"cost":0,"destination":"10.8.0.0/16","gateway":"","port":"lan"}},"spoofGuard":true,"type":"local"}`,
		},
		"one without anything": {
			networkSpec(netinst.NetworkInstanceConfig{Type: netinst.Local}),
			`{"activate":true,"displayName":"","dns":{"domain":"","hosts":{},"servers":""},"generation":0,` +
				`"ipv4":{"dhcpRange":"invalid IP-invalid IP","gateway":"","subnet":""},"mtu":0,"ntpServers":"",` +
				`"port":"","routes":{},"spoofGuard":false,"type":"local"}`,
		},
		"one that is probed by its own rules": {
			networkSpec(probed),
			`{"activate":true,"displayName":"","dns":{"domain":"","hosts":{},"servers":""},"generation":0,` +
				`"ipv4":{"dhcpRange":"invalid IP-invalid IP","gateway":"","subnet":""},"mtu":0,"ntpServers":"",` +
				`"port":"","probe":{"failAfter":4,"holdMs":10000,"intervalMs":500,"maxLatencyMs":0,"maxLoss":20,"method":"icmp",` +
				`"quorum":1,"recoverAfter":3,"target":"192.0.2.9,a.example","timeoutMs":800},"routes":{},` +
				`"spoofGuard":false,"type":"local"}`,
		},
		"a switch": {
			networkSpec(netinst.NetworkInstanceConfig{Type: netinst.Switch, Inactive: true}),
			`{"activate":false,"displayName":"","generation":0,"mtu":0,"port":"","spoofGuard":false,` +
				`"type":"switch"}`,
		},
		"a switch with all that a switch may have": {
			networkSpec(netinst.NetworkInstanceConfig{Type: netinst.Switch, ForwardLLDP: true, Port: "lans",
				IPv6:        netinst.IPv6Config{Mode: netinst.Bridged},
				AccessPorts: []netinst.AccessPort{{Label: "lan1", VLAN: 20}}}),
			`{"activate":true,"displayName":"","generation":0,"ipv6":{"mode":"bridged","nat":false},"mtu":0,` +
				`"port":"lans","spoofGuard":false,"forwardLLDP":true,"type":"switch","vlanAccessPorts":{"lan1":20}}`,
		},
		"a switch of a cluster": {
			networkSpec(cluster),
			`{"activate":true,"displayName":"","generation":0,"members":["lan0"],"mtu":0,"port":"",` +
				`"spoofGuard":false,"tunnels":[{"isolated":true,"local":"192.0.2.1","mtu":1450,"port":4789,` +
				`"remote":"","to":"b","vni":7}],"type":"switch"}`,
		},
		"an app": {
			appSpec(app),
			`{"activate":true,"adapters":{"0":{"acl":[{"action":"allow","direction":"egress",` +
				`"match":{"ip":"0.0.0.0/0","localPort":"","port":"80:81","portLabel":"wan","protocol":"tcp"},` +
				`"name":"out"},{"action":"","direction":"","match":{"ip":"","localPort":"","port":"","portLabel":"",` +
				`"protocol":""},"name":"in"}],"attach":{"ifName":"eth0","kind":"veth","netns":"web"},"ip":"10.1.0.5",` +
				`"mac":"02:00:00:00:00:01","networkInstance":"10000000-0000-4000-8000-000000000001"},"1":{"acl":[],` +
				`"attach":{"hostIfName":"","kind":"tap"},"ip":"","mac":"",` +
				`"networkInstance":"00000000-0000-0000-0000-000000000000"}},"displayName":"web"}`,
		},
	} {
		got, err := json.Marshal(c.spec)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, c.want)
		}
	}
}
