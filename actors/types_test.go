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
