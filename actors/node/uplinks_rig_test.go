package node

import (
	"context"
	"net/netip"
	"strings"
	"sync"

	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
)

// wanAndLTE are two uplinks that lead out: one with a gateway, and one without neighbours.
func wanAndLTE() (wan, lte netstate.Interface) {
	return netstate.Interface{Name: "uplink0", Up: true, MTU: 1500,
			Addresses:     []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")},
			DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))}},
		netstate.Interface{Name: "ppp0", Up: true, MTU: 1492,
			Addresses:     []netip.Prefix{netip.MustParsePrefix("203.0.113.2/32")},
			DefaultRoutes: []netstate.DefaultRoute{{Metric: 100}}}
}

// setUplinks gives the host both uplinks. Probes of DNS by a port in dead end with its value, which is an error.
func (r *rig) setUplinks() (dead *sync.Map) {
	r.Helper()
	r.host.SetInterfaces(wanAndLTE())
	dead = &sync.Map{}
	r.host.SetProbes(func(id probe.ID) error {
		if err, no := dead.Load(id.Port); no && id.Method == probe.DNS {
			return err.(error)
		}
		return nil
	})
	return dead
}

// silent is how a shot ends that nothing answers.
var silent = context.DeadlineExceeded

// withLTE adds the port lte to a config that has wan.
func withLTE(doc string) string {
	return strings.Replace(doc, "networkInstances:",
		"  lte: {ifName: ppp0, uplink: true, cost: 10, dnsServers: 198.51.100.54}\nnetworkInstances:", 1)
}
