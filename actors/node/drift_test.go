package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/stateloop"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

const observeDrift = "sysParams: {drift: observe}\n"

// numbered returns the number of network 1; numbers depend on the order in which networks ask for one.
func (r *rig) numbered() (n int) {
	r.Helper()
	if _, err := fmt.Sscanf(r.network(1).Bridge, "es%d", &n); err != nil {
		r.Fatal(err)
	}
	return n
}

// drifted removes a chain and, separately, the bridge's address of network n.
func (r *rig) drifted(n int) (broken []netstate.ID) {
	r.Helper()
	for _, id := range r.host.State(n).IDs() {
		if id.Kind == netstate.KindAddress || id.Kind == netstate.KindChain &&
			strings.HasSuffix(id.Name, fmt.Sprintf("/ES%d-FWD", n)) {
			broken = append(broken, id)
			r.host.Break(n, id)
		}
	}
	if len(broken) < 2 {
		r.Fatalf("no chain and address to break in\n%s", r.host.State(n))
	}
	return broken
}

// left fails the test unless the drift is reported and not repaired while d passes.
func (r *rig) left(n int, when string, d time.Duration, broken []netstate.ID) {
	r.Helper()
	r.host.Done()
	r.settle(d)
	for _, id := range broken {
		if r.host.State(n)[id] != nil {
			r.Errorf("%s: %s was made again", when, id)
		}
	}
	if ops := r.host.Done(); len(ops) > 0 {
		r.Errorf("%s: the host was touched: %q", when, ops)
	}
	p, _ := r.node.Topics().Reported.Get("", stateloop.NetworkID(niID(1)))
	s, _ := r.node.Topics().NetworkStatus.Get("", niID(1))
	if p.State != "CheckPresentFailed" || !strings.HasPrefix(p.Error,
		"drift, left as it is: "+broken[0].String()+": absent (and ") || s.Generation == 0 {
		r.Errorf("%s: reported is %+v of generation %d", when, p, s.Generation)
	}
	if p, _ := r.node.Topics().Reported.Get("", stateloop.NetworkID(niID(2))); p.State != "Present" {
		r.Errorf("%s: the other network is %+v", when, p)
	}
}

// whole fails the test unless everything is repaired.
func (r *rig) whole(n int, when string, broken []netstate.ID) {
	r.Helper()
	r.ready(time.Second, "ni/"+niID(1))
	for _, id := range broken {
		if r.host.State(n)[id] == nil {
			r.Errorf("%s: %s is missing", when, id)
		}
	}
}

func TestDriftIsOnlyReportedIfTheConfigSaysSo(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(observeDrift + doc(2, 1))
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2), "app/"+appID(1))
		n := r.numbered()
		before := r.host.State(n)
		broken := r.drifted(n)
		r.left(n, "an hour later", time.Hour, broken)

		// An app's namespace disappears and returns as usual, and its link is in the bridge again.
		r.host.SetNetns("ns1", false)
		r.settle(time.Second)
		if got, _ := r.node.Ready(context.Background(), "app", appID(1)); got.Ready {
			t.Error("an app is ready in a namespace that is gone")
		}
		r.host.SetNetns("ns1", true)
		r.ready(2*time.Second, "app/"+appID(1))
		r.left(n, "after a guest came back", time.Minute, broken)

		// A change of the config itself is applied even if there is drift.
		r.apply(observeDrift + strings.Replace(doc(2, 1), "displayName: net1", "mtu: 1400, displayName: net1", 1))
		r.whole(n, "another config", broken)

		broken = r.drifted(n)
		r.left(n, "again", time.Minute, broken)
		r.apply(doc(2, 1))
		r.whole(n, "enforced again", broken)
		if got := r.host.State(n); !slices.Equal(got.IDs(), before.IDs()) {
			t.Errorf("on the host is\n%s\nwant\n%s", got, before)
		}
		r.drifted(n)
		r.settle(2 * time.Second) // the second one waits for its turn
		r.whole(n, "enforced", broken)
	})
}

// A restart of the daemon does not undo an operator's changes. After a boot of the machine, or after an interrupted
// apply, everything is repaired.
func TestARestartLeavesDriftAsItIs(t *testing.T) {
	onRig(t, func(r *rig) {
		r.stop()
		r.machine = "one boot"
		r.start()
		r.apply(observeDrift + doc(2, 0))
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2))
		n := r.numbered()
		broken := r.drifted(n)
		r.settle(time.Second)
		r.stop()
		r.host.Done()
		r.start()
		r.left(n, "after a restart", time.Minute, broken)

		r.stop()
		for id := range r.host.State(n) {
			r.host.RemoveSilently(n, id)
		}
		r.machine = "another boot"
		r.start()
		r.whole(n, "after a boot of the machine", broken)

		// The daemon dies in the middle of an apply.
		r.host.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
			if o.Number == n && op.Kind == netstate.KindChain {
				return &fake.OpFault{Hang: true}
			}
			return nil
		})
		r.apply(observeDrift + strings.Replace(doc(2, 0), "subnet: 10.1.0.0/24", "subnet: 10.71.0.0/24", 1))
		r.stop()
		r.host.SetFault(nil)
		r.start()
		r.ready(2*time.Second, "ni/"+niID(1))
		if !slices.ContainsFunc(slices.Collect(maps.Keys(r.host.State(n))),
			func(id netstate.ID) bool { return strings.Contains(id.Name, "10.71.0.1/24") }) {
			t.Errorf("what was cut short is not made:\n%s", r.host.State(n))
		}
	})
}
