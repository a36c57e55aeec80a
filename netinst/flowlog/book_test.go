package flowlog

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/verdict"
)

const (
	tcp, udp, icmp = 6, 17, 1
)

func id(n int) uuid.UUID { return uuid.UUID{15: byte(n)} }

func key(app int) netinst.AdapterKey { return netinst.AdapterKey{AppUUID: id(app)} }

// adapter is one of an app, with rules.
func adapter(app int, ip string, acl ...netinst.ACLRule) netinst.Adapter {
	a := netinst.Adapter{Config: netinst.AppAdapterConfig{AppUUID: id(app), Activate: true}}
	a.Config.Spec.ACL = acl
	if ip != "" {
		a.Lease.IP = netip.MustParseAddr(ip)
	}
	return a
}

// inputs are a network with a log, with apps 1 and 2; one without, with app 3; two air-gapped ones of one subnet, with
// apps 4 and 5; and a switch, with app 6.
func inputs() []netinst.Input {
	ports := []netinst.PortStatus{{PortConfig: netinst.PortConfig{Label: "wan", IfName: "eth0"}, Exists: true, Up: true,
		Addresses: []netip.Prefix{netip.MustParsePrefix("198.51.100.2/24")}, DefaultRoutes: []netstate.DefaultRoute{{Gateway: netip.MustParseAddr("198.51.100.1")}}}}
	network := func(n int, subnet string, log, overlap bool, adapters ...netinst.Adapter) netinst.Input {
		p := netip.MustParsePrefix(subnet)
		in := netinst.Input{Owner: netstate.Owner{Number: n}, Config: netinst.NetworkInstanceConfig{UUID: id(100 + n),
			Type: netinst.Local, SpoofGuard: true, FlowLog: log,
			IPv4: netinst.IPv4Config{Subnet: p, Gateway: p.Addr().Next(), MayOverlap: overlap}}, Ports: ports,
			Adapters: adapters}
		if !overlap {
			in.Config.Port = "wan"
		}
		return in
	}
	web := netinst.ACLRule{Name: "web", Action: netinst.Allow, Direction: netinst.Egress, Protocol: "tcp",
		Ports: []netinst.PortRange{{First: 443, Last: 443}}}
	ping := netinst.ACLRule{Name: "ping", Action: netinst.Allow, Direction: netinst.Both, Protocol: "icmp"}
	all := netinst.ACLRule{Name: "all", Action: netinst.Allow, Direction: netinst.Both}
	mapped := netinst.ACLRule{Name: "ssh", Action: netinst.MapPort, Direction: netinst.Ingress, Protocol: "tcp",
		Portmap: netinst.Portmap{Ports: netinst.PortRange{First: 2222, Last: 2222},
			Target: netinst.PortRange{First: 22, Last: 22}}}
	sw := network(5, "10.9.0.0/24", true, false, adapter(6, "", all))
	sw.Config.Type, sw.Config.Port, sw.Config.IPv4 = netinst.Switch, "", netinst.IPv4Config{}
	sw.Adapters[0].ObservedAddresses = []netip.Addr{netip.MustParseAddr("10.1.0.2")}
	return []netinst.Input{
		network(1, "10.1.0.0/24", true, false, adapter(1, "10.1.0.2", web, ping, mapped), adapter(2, "10.1.0.3", all)),
		network(2, "10.2.0.0/24", false, false, adapter(3, "10.2.0.2", all)),
		network(3, "10.7.0.0/24", true, true, adapter(4, "10.7.0.2", all)),
		network(4, "10.7.0.0/24", true, true, adapter(5, "10.7.0.2", all)),
		sw,
	}
}

func flow(proto uint8, zone int, src, dst, replySrc, replyDst string) netstate.EndedFlow {
	f := netstate.EndedFlow{Flow: netstate.Flow{Proto: proto, Zone: uint16(zone), Src: netip.MustParseAddrPort(src),
		Dst: netip.MustParseAddrPort(dst)}, Out: netstate.Traffic{Packets: 3, Bytes: 300},
		In: netstate.Traffic{Packets: 2, Bytes: 200}, Start: time.Unix(1, 0), End: time.Unix(2, 0)}
	f.ReplySrc, f.ReplyDst = f.Dst, f.Src
	if replySrc != "" {
		f.ReplySrc = netip.MustParseAddrPort(replySrc)
	}
	if replyDst != "" {
		f.ReplyDst = netip.MustParseAddrPort(replyDst)
	}
	return f
}

func say(r Record) string {
	s := fmt.Sprintf("app %d %s %v > %v", r.Adapter.AppUUID[15], r.Direction, r.Local, r.Remote)
	if r.NAT.IsValid() {
		s += fmt.Sprint(" as ", r.NAT)
	}
	if r.Denied {
		s += " denied"
	}
	return s + fmt.Sprintf(" by %s%s, %d/%d out, %d/%d in", r.Rule, r.BuiltIn, r.Out.Packets, r.Out.Bytes, r.In.Packets,
		r.In.Bytes)
}

func TestRecordsOfEndedFlows(t *testing.T) {
	in := inputs()
	b := NewBook(verdict.New(in, []netip.Addr{netip.MustParseAddr("198.51.100.2")}), in)
	if b.Networks() != 4 {
		t.Errorf("%d networks have a log", b.Networks())
	}
	for what, x := range map[string]struct {
		f    netstate.EndedFlow
		want []string
	}{
		"out, translated": {flow(tcp, 0, "10.1.0.2:4000", "192.0.2.9:443", "", "198.51.100.2:61000"),
			[]string{"app 1 egress 10.1.0.2:4000 > 192.0.2.9:443 as 198.51.100.2:61000 by web, 3/300 out, 2/200 in"}},
		"ping": {flow(icmp, 0, "10.1.0.2:0", "192.0.2.9:0", "", "198.51.100.2:0"),
			[]string{"app 1 egress 10.1.0.2:0 > 192.0.2.9:0 as 198.51.100.2:0 by ping, 3/300 out, 2/200 in"}},
		"that a rule allows no more": {flow(udp, 0, "10.1.0.2:4000", "192.0.2.9:53", "", "198.51.100.2:4000"),
			[]string{"app 1 egress 10.1.0.2:4000 > 192.0.2.9:53 as 198.51.100.2:4000 denied by implicit-drop, " +
				"3/300 out, 2/200 in"}},
		"by a port map": {flow(tcp, 0, "192.0.2.9:5000", "198.51.100.2:2222", "10.1.0.2:22", ""),
			[]string{"app 1 ingress 10.1.0.2:22 > 192.0.2.9:5000 as 198.51.100.2:2222 by ssh, 2/200 out, 3/300 in"}},
		"between two apps": {flow(tcp, 0, "10.1.0.2:4000", "10.1.0.3:443", "", ""), []string{
			"app 1 egress 10.1.0.2:4000 > 10.1.0.3:443 by web, 3/300 out, 2/200 in",
			"app 2 ingress 10.1.0.3:443 > 10.1.0.2:4000 by all, 2/200 out, 3/300 in"}},
		"to the gateway": {flow(udp, 0, "10.1.0.2:4000", "10.1.0.1:53", "", ""),
			[]string{"app 1 egress 10.1.0.2:4000 > 10.1.0.1:53 by essentials, 3/300 out, 2/200 in"}},
		"of a network without log":   {flow(tcp, 0, "10.2.0.2:4000", "192.0.2.9:443", "", "198.51.100.2:61000"), nil},
		"of the node":                {flow(tcp, 0, "198.51.100.2:4000", "192.0.2.9:443", "", ""), nil},
		"of a stranger in this zone": {flow(tcp, 0, "10.7.0.2:4000", "10.7.0.3:80", "", ""), nil},
		"of one subnet of two": {flow(tcp, 20004, "10.7.0.2:4000", "10.7.0.9:80", "", ""),
			[]string{"app 5 egress 10.7.0.2:4000 > 10.7.0.9:80 denied by no-adapter, 3/300 out, 2/200 in"}},
		"of a switch with an app's address": {flow(tcp, 20005, "10.1.0.2:4000", "10.1.0.9:80", "", ""),
			[]string{"app 6 egress 10.1.0.2:4000 > 10.1.0.9:80 by all, 3/300 out, 2/200 in"}},
	} {
		var got []string
		for _, r := range b.Records(x.f) {
			got = append(got, say(r))
		}
		if fmt.Sprint(got) != fmt.Sprint(x.want) {
			t.Errorf("%s:\n got %q\nwant %q", what, got, x.want)
		}
	}
}

func TestRecordsOfDeniedPackets(t *testing.T) {
	in := inputs()
	in[0].Adapters[0].Lease.Number, in[4].Adapters[0].Lease.Number = 1, 3
	b := NewBook(verdict.New(in, nil), in)
	packet := func(chain string, proto uint8, src, dst string) netstate.DeniedPacket {
		return netstate.DeniedPacket{Chain: chain, Flow: flow(proto, 0, src, dst, "", "").Flow, Bytes: 60, At: time.Unix(2, 0)}
	}
	for what, x := range map[string]struct {
		p    netstate.DeniedPacket
		want string
	}{
		"out": {packet("ES1-1XE", udp, "10.1.0.2:4000", "192.0.2.9:53"),
			"app 1 egress 10.1.0.2:4000 > 192.0.2.9:53 denied by implicit-drop, 1/60 out, 0/0 in"},
		"in": {packet("ES1-1XI", tcp, "192.0.2.9:4000", "10.1.0.2:80"),
			"app 1 ingress 10.1.0.2:80 > 192.0.2.9:4000 denied by implicit-drop, 0/0 out, 1/60 in"},
		"that the rules would allow": {packet("ES1-1XE", tcp, "10.1.0.2:4000", "192.0.2.9:443"),
			"app 1 egress 10.1.0.2:4000 > 192.0.2.9:443 denied by , 1/60 out, 0/0 in"},
		"of a switch": {packet("ES5-3XE", tcp, "10.1.0.2:4000", "10.1.0.9:80"),
			"app 6 egress 10.1.0.2:4000 > 10.1.0.9:80 denied by , 1/60 out, 0/0 in"},
		"of a network without log": {packet("ES2-1XE", tcp, "10.2.0.2:4000", "192.0.2.9:443"), ""},
		"of no adapter":            {packet("ES1-9XE", tcp, "10.1.0.2:4000", "192.0.2.9:443"), ""},
		"of another program":       {packet("dropped", tcp, "10.1.0.2:4000", "192.0.2.9:443"), ""},
	} {
		got := ""
		if r, ok := b.Denied(x.p); ok {
			got = say(r)
		}
		if got != x.want {
			t.Errorf("%s:\n got %q\nwant %q", what, got, x.want)
		}
	}
}

func TestANetworkLosesOnlyItsOwnRecords(t *testing.T) {
	q := NewQueues[Record](200)
	for range 1000 {
		q.Put(id(1), Record{Network: id(1)}, 2)
	}
	for range 30 {
		q.Put(id(2), Record{Network: id(2)}, 2)
	}
	q.Lose(7)
	var got []string
	for list, lost := q.Take(); list != nil || lost > 0; list, lost = q.Take() {
		got = append(got, fmt.Sprintf("%d of %d, lost %d", len(list), list[0].Network[15], lost))
	}
	if want := "[100 of 1, lost 907 30 of 2, lost 0]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	for range 100 {
		q.Put(id(1), Record{Network: id(1)}, 1000)
	}
	if list, lost := q.Take(); len(list) != minShare || lost != 100-minShare {
		t.Errorf("one of 1000 networks keeps %d and loses %d", len(list), lost)
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, rules := range []int{10, 1000} {
		b.Run(fmt.Sprint(rules, "rules"), func(b *testing.B) {
			in := inputs()
			var acl []netinst.ACLRule
			for n := range rules - 1 {
				acl = append(acl, netinst.ACLRule{Name: fmt.Sprint(n), Action: netinst.Allow, Direction: netinst.Egress,
					Protocol: "tcp", IP: netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, byte(n >> 8), byte(n)}), 32)})
			}
			in[0].Adapters[0].Config.Spec.ACL = append(acl, in[0].Adapters[0].Config.Spec.ACL...)
			book := NewBook(verdict.New(in, nil), in)
			f := flow(tcp, 0, "10.1.0.2:4000", "192.0.2.9:443", "", "198.51.100.2:61000")
			b.ReportAllocs()
			for b.Loop() {
				if len(book.Records(f)) != 1 {
					b.Fatal("no record")
				}
			}
		})
	}
}
