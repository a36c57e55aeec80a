package netinst

import (
	"net/netip"
	"testing"

	"edgespan/netinst/netstate"
)

// What happens to a tracked flow when its app's map is another one now.
func TestWhichFlowsAMapLeavesAlone(t *testing.T) {
	at := netip.MustParseAddrPort
	in := input(adapter(appA, 0, 1, "10.1.0.128", "web",
		ACLRule{Name: "udp", Direction: Ingress, Action: MapPort, Protocol: "udp", IP: prefix("198.51.100.0/24"),
			Portmap: Portmap{Ports: PortRange{9000, 9010}, Target: PortRange{7000, 7010}}},
		ACLRule{Name: "tcp", Direction: Ingress, Action: MapPort, Protocol: "tcp",
			Portmap: Portmap{Ports: PortRange{9000, 9010}, Target: PortRange{7000, 7010}}}),
		adapter(appB, 0, 2, "10.1.0.7", "db", ACLRule{Name: "all", Direction: Both, Action: Allow}))
	lte := uplink()
	lte.Label, lte.IfName, lte.Cost, lte.Addresses = "lte", "wwan0", 5, []netip.Prefix{prefix("203.0.113.2/24")}
	in.Ports = append(in.Ports, lte)
	forgotten := DeniesFlow(in)
	for _, x := range []struct {
		why             string
		proto           uint8
		src, dst, reply string
		want            bool
	}{
		{"as the map leads it", 17, "198.51.100.9:5", "192.0.2.10:9002", "10.1.0.128:7002", false},
		{"from before the map", 17, "198.51.100.9:5", "192.0.2.10:9002", "192.0.2.10:9002", true},
		{"to the node itself, of a client that the map does not name", 17, "192.0.2.9:5", "192.0.2.10:9002",
			"192.0.2.10:9002", false},
		{"to the node itself, beside the range", 17, "198.51.100.9:5", "192.0.2.10:9011", "192.0.2.10:9011", false},
		{"to another port of the app", 17, "198.51.100.9:5", "192.0.2.10:9002", "10.1.0.128:7003", true},
		{"to another app, which allows all", 17, "198.51.100.9:5", "192.0.2.10:9002", "10.1.0.7:7002", true},
		{"of no map any more, to an app that allows all", 17, "198.51.100.9:5", "192.0.2.10:53", "10.1.0.7:53", true},
		{"of no map any more, over TCP", 6, "198.51.100.9:5", "192.0.2.10:53", "10.1.0.7:53", false},
		{"of no map any more, over TCP, to an app that only has maps", 6, "198.51.100.9:5", "192.0.2.10:53",
			"10.1.0.128:53", true},
		{"through a port that is left, over TCP", 6, "198.51.100.9:5", "203.0.113.2:53", "10.1.0.7:53", true},
		{"over TCP as the map leads it", 6, "192.0.2.9:5", "192.0.2.10:9010", "10.1.0.128:7010", false},
		{"of the node's own program, over TCP, from before the map", 6, "192.0.2.9:5", "192.0.2.10:9010", "192.0.2.10:9010",
			false},
		{"from an app that may not send, to the map", 6, "10.1.0.128:5", "192.0.2.10:9010", "10.1.0.7:7010", true},
		{"from an app that may, to the map", 6, "10.1.0.7:5", "192.0.2.10:9010", "10.1.0.128:7010", false},
		{"translated by another program, to an app that allows all", 6, "198.51.100.9:5", "203.0.113.50:53", "10.1.0.7:53",
			false},
		{"translated by another program, to what is no app", 17, "198.51.100.9:5", "192.0.2.10:9020", "172.17.0.2:80", false},
		{"straight to the app", 6, "10.1.0.7:5", "10.1.0.128:7010", "10.1.0.128:7010", true},
	} {
		f := netstate.Flow{Proto: x.proto, Src: at(x.src), Dst: at(x.dst), ReplySrc: at(x.reply), ReplyDst: at(x.src)}
		if got := forgotten(f); got != x.want {
			t.Errorf("%s: forgotten %v, want %v", x.why, got, x.want)
		}
	}
}

// A map leads each of its ports to the one at the same place of the other range, and accepts nothing else.
func TestWhereAMapLeads(t *testing.T) {
	m := Portmap{Ports: PortRange{9000, 9010}, Target: PortRange{7000, 7010}}
	rule := ACLRule{Name: "m", Direction: Ingress, Action: MapPort, Protocol: "tcp", Portmap: m}
	for port, want := range map[uint16]uint16{9000: 7000, 9002: 7002, 9010: 7010, 8999: 0, 9011: 0, 7000: 0, 0: 0} {
		if got, in := m.target(port); got != want || in != (want != 0) {
			t.Errorf("port %d: %d, %v", port, got, in)
		}
		for _, local := range []uint16{0, 7000, 7002, 7010, 7011} {
			p := packet{proto: protoTCP, remote: netip.MustParseAddrPort("192.0.2.9:5"),
				local: netip.AddrPortFrom(ip("10.1.0.128"), local), mapped: port}
			if got := rule.maps(p); got != (want != 0 && local == want) {
				t.Errorf("to port %d by %d: accepted %v", local, port, got)
			}
		}
	}
}
