package node

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// The limits of adapters follow the machine's limit of tracked flows, also where nothing else changes; an event about
// the host's interfaces alone, as of their DNS servers, leaves them as they are.
func TestTheLimitsOfAdaptersFollowTheMachines(t *testing.T) {
	onRig(t, func(r *rig) {
		wan := netstate.Interface{Name: "uplink0", Up: true, MTU: 1500,
			Addresses:     []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")},
			DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.1"))}}
		r.host.SetInterfaces(wan)
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(10*time.Second, "ni/"+niID(1), "app/"+appID(1))
		limited := func(when string, want int) {
			t.Helper()
			chain := netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: "ES1-1L"}
			c, _ := r.state(1)[chain.ID()].(netstate.Chain)
			if !strings.Contains(strings.Join(c.Rules, "\n"), fmt.Sprintf("--connlimit-above %d ", want)) {
				t.Errorf("%s: the limit is not %d: %q", when, want, c.Rules)
			}
			if d, err := r.node.Diff(context.Background(), ""); err != nil || len(d) > 0 {
				t.Errorf("%s: %+v, %v", when, d, err)
			}
		}
		limited("unknown", netinst.DefaultMaxFlows)
		for _, max := range []int{16384, 32768} {
			r.host.SetMaxTracked(max)
			r.settle(5 * time.Second)
			limited("known", max/2/16)
			wan.DNS = append(wan.DNS, netstate.DNSSource{})
			r.host.SetInterfaces(wan)
			r.settle(5 * time.Second)
			limited("with another DNS server", max/2/16)
			r.host.Resync()
			r.settle(5 * time.Second)
			limited("read again", max/2/16)
		}
	})
}
