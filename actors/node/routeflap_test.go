package node

import (
	"context"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
)

// Of two routes to one destination by fixed ports, the better one is left when its port fails or is drained, and
// returned to after the port's hold-down, as the network's own port is.
func TestRoutesToOneDestinationKeepTheHoldDown(t *testing.T) {
	onRig(t, func(r *rig) {
		dead := r.setUplinks()
		r.apply(strings.Replace(withLTE(doc(1, 0)),
			"dns: {domain", "routes: {a: {destination: 10.99.0.0/16, port: wan, gateway: 192.0.2.1}, "+
				"b: {destination: 10.99.0.0/16, port: lte, cost: 1}}, dns: {domain", 1))
		r.ready(5*time.Second, "ni/"+niID(1))
		by := func() string {
			o := r.host.State(1)[netstate.Route{Table: 20001, Dst: "10.99.0.0/16"}.ID()]
			if o == nil {
				return "none"
			}
			return o.Text()
		}
		is := func(when, want string) {
			t.Helper()
			if got := by(); !strings.HasSuffix(got, want) {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		r.settle(30 * time.Second)
		is("both work", "dev uplink0")
		moves, before := 0, by()
		for range 12 { // a port that flaps
			for _, up := range []bool{false, true} {
				if up {
					dead.Delete("wan")
				} else {
					dead.Store("wan", silent)
				}
				r.settle(5 * time.Second)
				if now := by(); now != before {
					moves, before = moves+1, now
				}
			}
		}
		if moves > 1 {
			t.Errorf("%d moves in 2 minutes", moves)
		}
		r.settle(11 * time.Second)
		is("its hold-down is over", "dev uplink0")
		if _, err := r.node.Drain(context.Background(), "wan", nodeapi.DrainOptions{For: time.Minute, By: "eve"}); err != nil {
			t.Fatal(err)
		}
		r.settle(time.Second)
		is("it is drained", "dev ppp0")
		r.settle(time.Minute)
		is("the drain is over", "dev uplink0")
	})
}

// What a probe has found counts for a network that begins to need it, and for a bridge manager that comes back.
func TestANetworkKnowsWhatOthersHaveProbed(t *testing.T) {
	onRig(t, func(r *rig) {
		dead := r.probedUplinks(1)
		seldom := func(nets int) string {
			return strings.ReplaceAll(withProbedUplinks(nets), "dns: {domain", "probe: {intervalMs: 300000}, dns: {domain")
		}
		r.apply(seldom(1))
		dead.Store("wan", context.DeadlineExceeded)
		r.settle(10 * time.Minute)
		r.goesBy(1, "wan is dead", "lte")
		r.apply(seldom(2))
		r.settle(2 * time.Second)
		r.goesBy(2, "network 1 knows that wan is dead", "lte")
	})
}
