package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// A network waits for another one that still has its subnet, and says so. Until then, none of its objects uses the
// subnet.
func TestANetworkWaitsForTheOneThatHasItsSubnet(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		r.host.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
			if o.Name == niID(1) && (op.Kind == netstate.KindAddress || op.Kind == netstate.KindLink) &&
				op.Verb == netstate.Remove {
				return &fake.OpFault{Err: errors.New("device busy")}
			}
			return nil
		})
		r.apply(strings.ReplaceAll(doc(1, 0), niID(1), niID(2))) // network 2 with the subnet of network 1
		r.settle(20 * time.Second)
		nis, err := r.node.List(context.Background(), "ni")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nis {
			st := n.Status.(nodeapi.NetworkStatus)
			if n.ID == niID(2) &&
				(st.State != "WaitingForDependencies" || !strings.Contains(st.Error, "es1 still has 10.1.0.1/24")) {
				t.Errorf("the network that waits is %+v", st)
			}
			if n.ID == niID(1) && st.State != "RemovingFailed" {
				t.Errorf("the network that goes is %+v", st)
			}
		}
		for id, o := range r.host.State(2) {
			if rt, ok := o.(netstate.Route); id.Kind == netstate.KindAddress || id.Kind == netstate.KindProcess || ok &&
				rt.Dev == "es2" {
				t.Errorf("%s is there before the subnet is free", id)
			}
		}
		r.host.SetFault(nil)
		r.ready(time.Minute+3*time.Second, "ni/"+niID(2)) // the back-off of the removal, and a second
	})
}

// Two networks that swap their subnets don't wait for each other forever.
func TestTwoNetworksSwapTheirSubnets(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		swapped := strings.NewReplacer("10.1.0.0", "10.2.0.0", "10.2.0.0", "10.1.0.0").Replace(doc(2, 2))
		for _, config := range []string{doc(2, 2), swapped, doc(2, 2)} {
			r.apply(config)
			r.ready(2*time.Second, "ni/"+niID(1), "ni/"+niID(2), "app/"+appID(1), "app/"+appID(2))
		}
	})
}
