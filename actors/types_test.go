package actors

import (
	"strings"
	"testing"
	"time"

	"edgespan/netinst/netstate"
)

// portsOf lists the links of a network that run, by name.
func (r *rig) portsOf(n int) string {
	var names []string
	for _, id := range r.host.State(n).IDs() {
		if id.Kind == netstate.KindPort {
			names = append(names, id.Name)
		}
	}
	return strings.Join(names, " ")
}

func (r *rig) adapterError(app int) string {
	for _, a := range r.node.apps() {
		if a.ID == appID(app) {
			return a.Status.(appStatus).Adapters[0].Error
		}
	}
	return "no such app"
}

func TestANetworkIsDeactivatedAndActivatedUnderItsApps(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		on := doc(1, 2)
		off := strings.Replace(on, "type: local,", "type: local, activate: false,", 1)
		r.apply(on)
		r.ready(time.Second, "app/"+appID(1), "app/"+appID(2))
		r.apply(off)
		r.settle(time.Second)
		if got := r.portsOf(1); got != "es1" {
			t.Errorf("links %q run on a network that is not activated", got)
		}
		if got := r.adapterError(1); got != `network instance "net1" is not activated` {
			t.Errorf("the app says %q", got)
		}
		r.ready(time.Second, "ni/"+niID(1))
		r.stop()
		r.start()
		r.settle(time.Second)
		if got := r.portsOf(1); got != "es1" {
			t.Errorf("links %q run after a restart", got)
		}
		r.apply(on)
		r.ready(2*time.Second, "app/"+appID(1), "app/"+appID(2))
	})
}

func TestASwitchNetworkIsABridgeWithoutServices(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		local := doc(1, 2)
		sw := strings.Replace(local, `type: local, port: wan, ipv4: {subnet: 10.1.0.0/24}, dns: {domain: edge}`, `type: switch, port: ""`, 1)
		r.apply(local)
		r.ready(time.Second, "app/"+appID(1), "app/"+appID(2))
		// A network may become one under its apps, and a local one again.
		for _, d := range []string{sw, local, sw} {
			r.apply(d)
			r.settle(time.Second)
			r.ready(time.Second, "ni/"+niID(1), "app/"+appID(1), "app/"+appID(2))
			if got := r.portsOf(1); got != "es1 es1a1 es1a2" {
				t.Errorf("links %q run", got)
			}
		}
		for _, id := range r.host.State(1).IDs() {
			if id.Kind == netstate.KindProcess || id.Kind == netstate.KindAddress || id.Kind == netstate.KindRule || id.Kind == netstate.KindRoute {
				t.Errorf("a switch network has %s", id)
			}
		}
		r.apply(doc(0, 0))
		r.settle(time.Second)
		if left := r.host.State(1); len(left) > 0 || len(r.host.State(0)) > 0 {
			t.Errorf("left:\n%s%s", left, r.host.State(0))
		}
	})
}
