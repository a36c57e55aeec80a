package node

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// A network follows its ports: it leaves one that is up and leads nowhere, and returns later.
func TestANetworkLeavesAPortThatLeadsNowhere(t *testing.T) {
	onRig(t, func(r *rig) {
		wan := netstate.Interface{Name: "uplink0", Up: true, MTU: 1500,
			Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}}
		lte := netstate.Interface{
			Name: "ppp0", Up: true, MTU: 1492, Addresses: []netip.Prefix{netip.MustParsePrefix("203.0.113.2/32")},
			DefaultRoutes: []netstate.DefaultRoute{{Metric: 100}},
		}
		good := wan
		good.DefaultRoutes = []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))}
		two := strings.Replace(doc(1, 0), "networkInstances:",
			"  lte: {ifName: ppp0, uplink: true, cost: 10, dnsServers: 198.51.100.54}\nnetworkInstances:", 1)
		two = strings.Replace(two, "port: wan", "port: uplink", 1)
		r.host.SetInterfaces(good, lte)
		r.apply(two)
		r.ready(5*time.Second, "ni/"+niID(1))
		is := func(what, port, route, explained string) {
			t.Helper()
			r.settle(time.Second)
			s, _ := r.node.d.topics.NetworkStatus.Get("", niID(1))
			o := r.host.State(1)[netstate.Route{Table: 20001, Dst: "0.0.0.0/0"}.ID()]
			if s.State != netinst.Present || s.Port != port || o == nil || o.Text() != route {
				t.Errorf("%s: %s by port %q, the route is %v, want %q by %q", what, s.State, s.Port, o, route, port)
			}
			if x := r.explain("ni", niID(1)); !strings.HasSuffix(x.Summary, explained) {
				t.Errorf("%s: explained as %q", what, x.Summary)
			}
		}
		is("both lead out", "wan", "unicast via 192.0.2.1 dev uplink0", ", uplink port wan via 192.0.2.1")
		r.host.SetInterfaces(wan, lte)
		is("one has lost its default route", "lte", "unicast dev ppp0",
			", uplink port lte without gateway, not port wan: uplink wan (uplink0) has no default route")
		wan.Addresses = nil
		r.host.SetInterfaces(wan, lte)
		is("and its address", "lte", "unicast dev ppp0", ", not port wan: uplink wan (uplink0) has no IPv4 address")
		r.host.SetInterfaces(good, lte)
		is("it has both again", "wan", "unicast via 192.0.2.1 dev uplink0", ", uplink port wan via 192.0.2.1")
		good.Up = false
		r.host.SetInterfaces(good, lte)
		is("it has no carrier", "lte", "unicast dev ppp0", ", not port wan: interface uplink0 is down")
	})
}
