package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/go-cmp/cmp"

	"edgespan/actors/node/api"
	"edgespan/actors/supervise"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// crew returns the state of one actor, as `get actor` shows it.
func (r *rig) crew(id string) api.ActorState {
	r.Helper()
	for _, a := range r.node.d.census.List() {
		if a.ID == id {
			return a
		}
	}
	return api.ActorState{}
}

func (r *rig) network(n int) nodeapi.NetworkStatus {
	r.Helper()
	rs, err := r.node.List(context.Background(), "ni")
	if err != nil {
		r.Fatal(err)
	}
	for _, x := range rs {
		if x.ID == niID(n) {
			return x.Status.(nodeapi.NetworkStatus)
		}
	}
	return nodeapi.NetworkStatus{}
}

// state returns the objects of network n on the host, whatever its number.
func (r *rig) state(n int) netstate.State { return r.host.State(r.network(n).Number) }

func (r *rig) app(n int) nodeapi.AppStatus {
	r.Helper()
	rs, err := r.node.List(context.Background(), "app")
	if err != nil {
		r.Fatal(err)
	}
	for _, x := range rs {
		if x.ID == appID(n) {
			return x.Status.(nodeapi.AppStatus)
		}
	}
	return nodeapi.AppStatus{}
}

// stealLeases gives the journaled leases of a bridge manager another owner: its next lease panics, as with a journal
// that can't be written. A new start takes ownership back.
func (r *rig) stealLeases(n int) {
	r.node.Topics().Leases.Publisher("thief").Adopt("", niID(n))
}

func (r *rig) stealRecord(app int) {
	r.node.Topics().AppRecords.Publisher("thief").Adopt("", appID(app))
}

func TestABridgeManagerThatCrashesComesBackAndSaysSo(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2", "ns3", "ns4")
		r.apply(doc(2, 2))
		r.ready(time.Second, "app/"+appID(1), "app/"+appID(2))
		other, untouched := r.crew("router/ni/"+niID(2)+"/applier"), r.state(2).String()
		owned := r.state(1).String()

		r.stealLeases(1)
		r.apply(doc(2, 3)) // app 3 needs a lease of network 1
		down := r.crew("router/ni/" + niID(1))
		if down.State != "restarting" || down.Crashes != 1 || !strings.Contains(down.Last, "thief") {
			t.Fatalf("after the panic the bridge manager is %+v", down)
		}
		if st := r.network(1); !strings.Contains(st.Error, "crashed") || !strings.Contains(st.Error, "thief") ||
			!strings.Contains(st.Error, down.Next) {
			t.Errorf("the status of its network is %+v", st)
		}
		if got, _ := r.node.Ready(context.Background(), "ni", niID(1)); got.Ready || !strings.Contains(got.Why, "crashed") {
			t.Errorf("a network without its manager is %+v", got)
		}
		if r.state(1).String() != owned {
			t.Error("the crash changed the host")
		}

		r.ready(time.Second, "ni/"+niID(1), "app/"+appID(1), "app/"+appID(3))
		if st := r.network(1); st.State != "Present" || st.Error != "" {
			t.Errorf("after it came back its network is %+v", st)
		}
		if now := r.crew("router/ni/" + niID(2) + "/applier"); now.Messages != other.Messages {
			t.Errorf("the other network's applier was %+v, is %+v", other, now)
		}
		if r.state(2).String() != untouched {
			t.Errorf("the other network was touched (-before +after):\n%s", cmp.Diff(untouched, r.state(2).String()))
		}
	})
}

func TestABridgeManagerThatCrashesAgainAndAgainWaitsLonger(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(2, 0))
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2))
		for i := range 13 {
			pid := actor.NewPID(r.node.router.Address, "router/ni/"+niID(1))
			r.node.system.Root.Send(pid, applierReady{}) // an applier without an address
			r.settle(0)
			st := r.crew(pid.Id)
			wait, err := time.ParseDuration(st.Next)
			least := supervise.Restarts.After(i + 1)
			if err != nil || st.Crashes != i+1 || wait < least || wait > least+least/5 {
				t.Fatalf("after crash %d it is %+v, want a wait of %v and a fifth of jitter at most", i+1, st, least)
			}
			if other := r.network(2); other.State != "Present" || other.Error != "" {
				t.Fatalf("meanwhile the other network is %+v", other)
			}
			r.settle(wait)
			r.ready(time.Second, "ni/"+niID(1))
		}
	})
}

func TestAnApplierThatCrashesShowsInItsNetwork(t *testing.T) {
	onRig(t, func(r *rig) {
		r.host.SetFault(func(o netstate.Owner, _ netstate.Op) *fake.OpFault {
			if o.Name == niID(1) {
				return &fake.OpFault{Panic: true}
			}
			return nil
		})
		r.apply(doc(2, 0))
		r.ready(time.Second, "ni/"+niID(2))
		if st := r.network(1); !strings.Contains(st.Error, "applier crashed") ||
			!strings.Contains(st.Error, "injected panic") {
			t.Errorf("the network whose applier is down is %+v", st)
		}
		if got, _ := r.node.Ready(context.Background(), "ni", niID(1)); got.Ready {
			t.Error("it is ready")
		}
		r.host.SetFault(nil)
		r.ready(2*time.Minute, "ni/"+niID(1))
	})
}

func TestAnAppNetworkThatCrashesComesBackAtItsVersion(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		r.apply(doc(2, 2))
		r.ready(time.Second, "app/"+appID(1), "app/"+appID(2))
		other := r.crew("router/app/" + appID(2))
		for i := range 5 {
			before := r.app(1).TargetVersion
			r.stealRecord(1)
			r.apply(strings.Replace(doc(2, 2), "displayName: app1", "displayName: app1"+strings.Repeat("x", i+1), 1))
			down := r.crew("router/app/" + appID(1))
			if down.State != "restarting" || down.Crashes != i+1 {
				t.Fatalf("after panic %d the app network is %+v", i+1, down)
			}
			if st := r.app(1); st.TargetVersion != before || !strings.Contains(st.Error, "crashed") {
				t.Errorf("after panic %d its status is %+v, was at version %d", i+1, st, before)
			}
			if got, _ := r.node.Ready(context.Background(), "app", appID(1)); got.Ready {
				t.Error("it is ready though its newest config was never taken up")
			}
			r.ready(10*time.Second, "app/"+appID(1))
			if st := r.app(1); st.TargetVersion != before+1 {
				t.Errorf("after crash %d it is at version %d, want %d", i+1, st.TargetVersion, before+1)
			}
		}
		if now := r.crew("router/app/" + appID(2)); now.Crashes != 0 {
			t.Errorf("the other app network was %+v, is %+v", other, now)
		}
	})
}

func TestTargetVersionGoesOnOverDeletionAndRestart(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		last := uint64(0)
		up := func(want uint64, when string) {
			t.Helper()
			r.apply(doc(1, 1))
			r.ready(time.Second, "app/"+appID(1))
			if last = r.app(1).TargetVersion; last != want {
				t.Fatalf("%s the version is %d, want %d", when, last, want)
			}
		}
		gone := func() {
			t.Helper()
			r.apply(doc(1, 0))
			r.settle(time.Second)
			if got, _ := r.node.Ready(context.Background(), "app", appID(1)); !got.Absent {
				t.Fatalf("the app is %+v", got)
			}
		}
		up(1, "at first")
		gone()
		up(2, "made again after its deletion")
		r.stop()
		r.start()
		up(2, "after a restart with the same config")
		gone()
		r.stop()
		r.start()
		up(3, "deleted before a restart and made again after it")
	})
}

func TestLostEventsMakeEveryNetworkReconcileOnce(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(3, 0))
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2), "ni/"+niID(3))
		r.settle(time.Second)
		applies := func(n int) uint64 { return r.crew("router/ni/" + niID(n) + "/applier").Messages }
		var before [4]uint64
		for n := 1; n <= 3; n++ {
			before[n] = applies(n)
		}
		number := r.network(2).Number
		lost := netstate.ID{Kind: netstate.KindRule, Name: fmt.Sprint(20000 + number)}
		if r.host.State(number)[lost] == nil {
			t.Fatalf("no %s to lose", lost)
		}
		r.host.RemoveSilently(number, lost)
		r.settle(time.Second)
		if r.host.State(number)[lost] != nil {
			t.Fatal("what nobody told of was repaired: this test shows nothing")
		}
		r.host.Resync()
		r.settle(time.Second)
		if r.host.State(number)[lost] == nil {
			t.Error("what was lost with the events is not repaired")
		}
		for n := 1; n <= 3; n++ {
			if did := applies(n) - before[n]; did != 1 {
				t.Errorf("network %d was applied %d times, want once", n, did)
			}
		}
	})
}

func TestANetworkReportsAFailingHostState(t *testing.T) {
	onRig(t, func(r *rig) {
		r.host.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
			if o.Number == 0 && op.Kind == netstate.KindChain {
				return &fake.OpFault{Err: errors.New("iptables is not there")}
			}
			return nil
		})
		r.apply(doc(1, 0))
		r.settle(time.Second)
		st := r.network(1)
		if st.State != "WaitingForDependencies" || !strings.Contains(st.Error, "waits for the host: ") ||
			!strings.Contains(st.Error, "iptables is not there") {
			t.Errorf("its status is %+v", st)
		}
		if got, _ := r.node.Ready(context.Background(), "ni", niID(1)); got.Ready ||
			!strings.Contains(got.Why, "iptables is not there") {
			t.Errorf("it is %+v", got)
		}
		if s := r.host.State(1); len(s) > 0 {
			t.Errorf("it was built on nothing:\n%s", s)
		}
		r.host.SetFault(nil)
		r.ready(time.Minute, "ni/"+niID(1))
	})
}

func (r *rig) list(kind string) []nodeapi.Resource {
	rs, err := r.node.List(r.Context(), kind)
	if err != nil {
		r.Fatal(err)
	}
	return rs
}
