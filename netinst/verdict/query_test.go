package verdict

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"edgespan/netinst"
)

func TestPacketsOfAQuery(t *testing.T) {
	list := testInputs()
	list[0].Config.DNS = netinst.DNSConfig{Domain: "edge.test",
		Hosts: map[netinst.Hostname][]netip.Addr{"printer": {addr("192.0.2.9"), addr("192.0.2.8")}}}
	list[0].Adapters[1].Config.Spec.Hostname = "db"
	w := New(list, nil)
	for what, x := range map[string]struct {
		q    Query
		want string
	}{
		"an address":           {Query{Remote: "8.8.8.8"}, "app 10.1.0.10>8.8.8.8"},
		"an app":               {Query{Remote: "db"}, "app 10.1.0.10>10.1.0.20"},
		"an app in its domain": {Query{Remote: "DB.edge.test."}, "app 10.1.0.10>10.1.0.20"},
		"a name":               {Query{Remote: "printer"}, "app 10.1.0.10>192.0.2.8 app 10.1.0.10>192.0.2.9"},
		"from an app":          {Query{Remote: "db", Incoming: true}, "app 10.1.0.20>10.1.0.10"},
		"from another network": {Query{Remote: "10.2.0.10", Incoming: true}, "app 10.2.0.10>10.1.0.10"},
		"from the node":        {Query{Remote: "192.0.2.2", Incoming: true}, "node 192.0.2.2>10.1.0.10"},
		"from outside":         {Query{Remote: "8.8.8.8", Incoming: true}, "outside wan 8.8.8.8>10.1.0.10"},
		"from a static route":  {Query{Remote: "198.51.100.1", Incoming: true}, "outside bare 198.51.100.1>10.1.0.10"},
		"by a port":            {Query{Remote: "db", Incoming: true, Port: "lan"}, "outside lan 10.1.0.20>10.1.0.10"},
		"by no port":           {Query{Remote: "db", Incoming: true, Port: "dsl"}, "port dsl"},
		"nobody's name":        {Query{Remote: "nobody"}, `"nobody"`},
		"IPv6, without it":     {Query{Remote: "2001:db8::1"}, "app invalid IP>2001:db8::1"},
		"into a switch": {Query{Adapter: key("left"), Remote: "10.9.0.77", Incoming: true},
			"outside bare 10.9.0.77>10.9.0.1"},
		"an adapter that is not there": {Query{Adapter: key("x"), Remote: "8.8.8.8"}, "app invalid IP>8.8.8.8"},
	} {
		if x.q.Adapter == (netinst.AdapterKey{}) {
			x.q.Adapter = key("web")
		}
		x.q.Proto = ICMP
		packets, err := w.Packets(x.q)
		var got []string
		for _, p := range packets {
			text := strings.TrimSpace(string(p.From) + " " + p.Port)
			got = append(got, fmt.Sprintf("%s %s>%s", text, p.Src, p.Dst))
			if p.ICMPType != EchoRequest && p.Dst.Is4() || p.From == App && w.AddressOf(p.Adapter) != p.Src && p.Src.IsValid() {
				t.Errorf("%s: %+v", what, p)
			}
		}
		if err != nil {
			got = append(got, strings.Split(err.Error(), ":")[0])
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%s: %s, want %s", what, strings.Join(got, " "), x.want)
		}
	}
}
