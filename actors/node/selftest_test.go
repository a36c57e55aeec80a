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

// A network whose services do not answer is not Present, and none of its apps is ready, although every object is as
// desired. Its status names the failure, and it is Present again as soon as the test passes. Nothing is recreated.
func TestAPromiseThatFailsKeepsANetworkFromBeingPresent(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		r.apply(doc(1, 2))
		r.ready(time.Second, "ni/"+niID(1), "app/"+appID(1), "app/"+appID(2))
		r.host.Done()
		says := func(why string) nodeapi.NetworkStatus {
			t.Helper()
			nis, err := r.node.List(context.Background(), "ni")
			if err != nil {
				t.Fatal(err)
			}
			st := nis[0].Status.(nodeapi.NetworkStatus)
			if !strings.Contains(st.Error, why) {
				t.Errorf("the network says %q: must tell of %q", st.Error, why)
			}
			return st
		}

		dns := netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindProcess, Name: dnsmasq1}, Observe: true,
			Err: "self-test: DNS of the gateway: timeout"}
		r.host.SetBroken(1, dns)
		r.settle(checkPeriod)
		if st := says("self-test: DNS of the gateway: timeout"); st.State != "CheckPresentFailed" {
			t.Errorf("the network is %s", st.State)
		}
		if ready, _ := r.node.Ready(context.Background(), "app", appID(1)); ready.Ready {
			t.Error("an app is ready on a network that does not work")
		}
		r.host.SetBroken(1)
		r.settle(checkPeriod)
		r.ready(0, "ni/"+niID(1), "app/"+appID(1), "app/"+appID(2))

		// A failure of one adapter affects only that adapter.
		key := r.adapterFile(1)
		r.host.SetBroken(1, netstate.OpFailure{ID: key, Observe: true, Err: "self-test: DHCP of the gateway: no name"})
		r.settle(checkPeriod)
		one, _ := r.node.Ready(context.Background(), "app", appID(1))
		other, _ := r.node.Ready(context.Background(), "app", appID(2))
		if one.Ready || !strings.Contains(one.Why, "no name") || !other.Ready {
			t.Errorf("the app that fails %+v, the other %+v", one, other)
		}
		r.host.SetBroken(1)
		r.settle(checkPeriod)
		r.ready(0, "app/"+appID(1))
		if done := r.host.Done(); len(done) > 0 {
			t.Errorf("made for it: %v", done)
		}
	})
}

// Host's chains lead packets into a network's chains. While host's chains are broken and can't be repaired, no network
// is ready, whatever its own status.
func TestNoNetworkIsReadyWhileTheHostsOwnChainsAreBroken(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		r.host.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
			if o.Number == 0 && op.Kind == netstate.KindChain {
				return &fake.OpFault{Err: errors.New("iptables is not there")}
			}
			return nil
		})
		r.host.RemoveSilently(0, netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: "ES-LINKS-FWD"}.ID())
		r.settle(checkPeriod)
		if st := r.network(1); st.State != "CheckPresentFailed" || !strings.Contains(st.Error, "host: change chain") &&
			!strings.Contains(st.Error, "host: add chain") {
			t.Errorf("its status is %+v", st)
		}
		if got, _ := r.node.Ready(context.Background(), "ni", niID(1)); got.Ready ||
			!strings.Contains(got.Why, "iptables is not there") {
			t.Errorf("it is %+v", got)
		}
		r.host.SetFault(nil)
		r.settle(checkPeriod)
		r.ready(0, "ni/"+niID(1))
	})
}

// A complete network is not ready while host's rules and the forwarding of its ports are still being applied: packets
// that return to it would be dropped.
func TestNoNetworkIsReadyWhileTheHostIsUnderWay(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		r.host.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
			if o.Number == 0 && op.Kind == netstate.KindChain {
				return &fake.OpFault{Hang: true}
			}
			return nil
		})
		r.apply(doc(2, 0))
		r.settle(time.Second)
		if st := r.network(1); st.State != "Present" || st.Error != "" {
			t.Errorf("its status is %+v", st)
		}
		if got, _ := r.node.Ready(context.Background(), "ni", niID(1)); got.Ready ||
			!strings.HasPrefix(got.Why, "host: its own rules") {
			t.Errorf("it is %+v", got)
		}
		r.host.SetFault(nil)
		r.settle(checkPeriod)
		r.ready(0, "ni/"+niID(1), "ni/"+niID(2))
	})
}

// checkPeriod is the time after which the next full observation of the host has ended.
const checkPeriod = time.Minute + time.Second

// adapterFile returns the ID of the DHCP reservation of app a's first adapter.
func (r *rig) adapterFile(a int) netstate.ID {
	r.Helper()
	for id := range r.host.State(1) {
		if id.Kind == netstate.KindFile && strings.Contains(id.Name, "dhcp-hosts/"+appID(a)) {
			return id
		}
	}
	r.Fatalf("no reservation of app %d", a)
	return netstate.ID{}
}
