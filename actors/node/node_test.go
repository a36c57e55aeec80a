package node

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

func TestANetworkAndItsApp(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "ni/"+niID(1), "app/"+appID(1))
		as, err := r.node.List(context.Background(), "adapter")
		if err != nil || len(as) != 1 {
			t.Fatalf("adapters are %v, %v; want one", as, err)
		}
		st := as[0].Status.(nodeapi.AdapterStatus)
		if st.IP != "10.1.0.128" || st.HostIfName != "es1a1" || st.IfName != "eth0" || !st.Activated || st.MAC == "" {
			t.Errorf("the adapter is %+v", st)
		}
		if as[0].ID != appID(1)+"/0" {
			t.Errorf("its id is %s", as[0].ID)
		}
	})
}

func TestAnAppIsNotWokenByOtherNetworks(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		app := doc(1, 1)[len(doc(1, 0)):]
		r.apply(doc(1, 0) + app)
		r.ready(time.Second, "app/"+appID(1))
		heard := func() uint64 {
			for _, a := range r.node.d.census.List() {
				if strings.HasSuffix(a.ID, "app/"+appID(1)) || strings.HasSuffix(a.ID, "app-"+appID(1)) {
					return a.Messages
				}
			}
			t.Fatal("the app has no actor")
			return 0
		}
		before := heard()
		r.apply(doc(9, 0) + app)
		r.ready(time.Second, "ni/"+niID(9))
		r.apply(doc(1, 0) + app)
		r.settle(time.Second)
		if n := heard() - before; n > 0 {
			t.Errorf("8 networks that came and went told the app %d messages", n)
		}
		// A change of the app's own network reaches it.
		r.apply(app)
		r.settle(time.Second)
		if x, _ := r.node.Ready(context.Background(), "app", appID(1)); x.Ready ||
			!strings.Contains(x.Why, "is not in the config") {
			t.Errorf("without its network: %+v", x)
		}
	})
}

func TestAnEmptyConfigLeavesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2", "ns3")
		r.apply(doc(2, 3))
		r.ready(time.Second, "app/"+appID(1), "app/"+appID(2), "app/"+appID(3))
		r.apply("{}")
		r.settle(time.Second)
		for n := 0; n <= 2; n++ {
			if s := r.host.State(n); len(s) > 0 {
				t.Errorf("owner %d still has:\n%s", n, s)
			}
		}
		for _, id := range []string{niID(1), niID(2)} {
			if got, _ := r.node.Ready(context.Background(), "ni", id); !got.Absent {
				t.Errorf("ni/%s is not absent: %+v", id, got)
			}
		}
		if got, _ := r.node.Ready(context.Background(), "app", appID(1)); !got.Absent {
			t.Errorf("app is not absent: %+v", got)
		}
		if left := r.node.Topics().AdapterStatus.All(); len(left) > 0 {
			t.Errorf("adapter statuses are left: %v", left)
		}
	})
}

func TestAHungNetworkDelaysNoOther(t *testing.T) {
	onRig(t, func(r *rig) {
		r.host.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
			if o.Name == niID(1) && op.Kind == netstate.KindProcess {
				return &fake.OpFault{Hang: true}
			}
			return nil
		})
		start := time.Now()
		r.apply(doc(2, 0))
		r.ready(100*time.Millisecond, "ni/"+niID(2))
		if d := time.Since(start); d > 100*time.Millisecond {
			t.Errorf("the healthy network took %v", d)
		}
		r.settle(1500 * time.Millisecond)
		hung, err := r.node.List(context.Background(), "ni")
		if err != nil {
			t.Fatal(err)
		}
		st := hung[0].Status.(nodeapi.NetworkStatus)
		if !strings.Contains(st.Error, "has been running for more than 1s") {
			t.Errorf("the hung network says %+v", st)
		}
		r.settle(2500 * time.Millisecond)
		hung, _ = r.node.List(context.Background(), "ni")
		st = hung[0].Status.(nodeapi.NetworkStatus)
		if st.State != "CreatingFailed" || !strings.Contains(st.Error, "deadline") ||
			!strings.Contains(st.Error, "next retry") {
			t.Errorf("after its deadline it says %+v", st)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.beats < 3 {
			t.Errorf("the watchdog was fed %d times in four seconds", r.beats)
		}
	})
}

func TestARestartWithTheSameConfigChangesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		r.apply(doc(2, 2))
		r.ready(time.Second, "app/"+appID(1), "app/"+appID(2))
		before, _ := r.node.List(context.Background(), "app")
		r.stop()
		r.host.Done()
		r.start()
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2), "app/"+appID(1), "app/"+appID(2))
		r.settle(5 * time.Second)
		if ops := r.host.Done(); len(ops) > 0 {
			t.Errorf("the restart did:\n%s", strings.Join(ops, "\n"))
		}
		after, _ := r.node.List(context.Background(), "app")
		for i := range after {
			a, b := before[i].Status.(nodeapi.AppStatus), after[i].Status.(nodeapi.AppStatus)
			if a.TargetVersion != b.TargetVersion || !reflect.DeepEqual(a.Adapters[0], b.Adapters[0]) {
				t.Errorf("before %+v, after %+v", a, b)
			}
		}
	})
}

func TestAnOrphanGoesOnlyOnceAValidConfigIsKnown(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(2, 0))
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2))
		r.stop()
		r.files.Lose() // only the host remembers
		r.start()
		r.settle(time.Minute)
		nis, _ := r.node.List(context.Background(), "ni")
		if len(nis) != 2 || nis[0].Status.(nodeapi.NetworkStatus).State != "Unclaimed" {
			t.Fatalf("networks are %+v, want two Unclaimed", nis)
		}
		if len(r.host.State(1)) == 0 || len(r.host.State(0)) == 0 {
			t.Error("an unclaimed network was taken away")
		}
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		if got, _ := r.node.Ready(context.Background(), "ni", niID(2)); !got.Absent {
			t.Errorf("the orphan is %+v", got)
		}
	})
}

func TestAFaultyDocumentChangesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		r.host.Done()
		_, err := r.node.Apply(context.Background(), []byte("networkInstances: {x: {type: 5}}\nnonsense: 1\n"),
			nodeapi.ApplyOptions{})
		var rej *rest.Rejected
		if !errors.As(err, &rej) || len(rej.Faults) < 2 {
			t.Fatalf("apply answered %v, want a refusal with every fault", err)
		}
		r.settle(time.Second)
		if ops := r.host.Done(); len(ops) > 0 {
			t.Errorf("it did:\n%s", strings.Join(ops, "\n"))
		}
		r.ready(0, "ni/"+niID(1))
	})
}

func TestAMissingNamespaceIsWaitedForAndAVanishedOneAttachedAgain(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 1))
		r.settle(300 * time.Millisecond)
		apps, _ := r.node.List(context.Background(), "app")
		if st := apps[0].Status.(nodeapi.AppStatus); !st.Pending || !strings.Contains(st.Error, "does not exist") {
			t.Fatalf("without its namespace the app is %+v", st)
		}
		for range 2 {
			r.netns("ns1")
			r.ready(2*time.Second, "app/"+appID(1))
			r.host.SetNetns("ns1", false)
			r.settle(1200 * time.Millisecond) // the second time it waits for its turn
			if got, _ := r.node.Ready(context.Background(), "app", appID(1)); got.Ready {
				t.Fatal("the app is ready in a namespace that is gone")
			}
		}
	})
}

func TestDriftIsRepaired(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		for _, id := range r.host.State(1).IDs() {
			if id.Kind == netstate.KindFile || id.Kind == netstate.KindChain {
				continue
			}
			r.settle(time.Minute) // each is the first in a long time
			r.host.Break(1, id)
			r.settle(0)
			if r.host.State(1)[id] == nil {
				t.Errorf("%s was not repaired", id)
			}
		}
	})
}

func TestAppBeforeItsNetwork(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		full := doc(1, 1)
		var without []string
		for _, l := range strings.Split(full, "\n") {
			if !strings.Contains(l, "displayName: net") && l != "networkInstances:" {
				without = append(without, l)
			}
		}
		r.apply(strings.Join(without, "\n"))
		r.settle(time.Second)
		apps, _ := r.node.List(context.Background(), "app")
		if st := apps[0].Status.(nodeapi.AppStatus); !st.Pending || !strings.Contains(st.Error, niID(1)) {
			t.Errorf("without its network the app is %+v", st)
		}
		r.apply(full)
		r.ready(time.Second, "app/"+appID(1))
		r.apply(strings.Join(without, "\n"))
		r.settle(time.Second)
		apps, _ = r.node.List(context.Background(), "app")
		if st := apps[0].Status.(nodeapi.AppStatus); !st.Pending || st.Error == "" {
			t.Errorf("after its network was deleted the app is %+v", st)
		}
		r.apply(full)
		r.ready(time.Second, "app/"+appID(1))
		r.apply("{}")
		r.settle(time.Second)
		if s := r.host.State(1); len(s) > 0 {
			t.Errorf("left:\n%s", s)
		}
	})
}

// The crash sweep: the applier dies or fails at each op of a create, a change and a removal. Everything converges and
// nothing is left.
func TestACrashAfterEveryOp(t *testing.T) {
	kinds := []string{"panic", "half", "error"}
	for i, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			first, every := 1, 1
			if testing.Short() { // each op crashes in one of the ways
				first, every = 1+i, len(kinds)
			}
			for k, total := first, first+1; k < total; k += every {
				onRig(t, func(r *rig) {
					r.netns("ns1", "ns2")
					n := 0
					r.host.SetFault(func(netstate.Owner, netstate.Op) *fake.OpFault {
						if n++; n != k {
							return nil
						}
						switch kind {
						case "panic":
							return &fake.OpFault{Panic: true}
						case "half":
							return &fake.OpFault{Half: true}
						}
						return &fake.OpFault{Err: errors.New("injected")}
					})
					r.apply(doc(1, 1))
					r.ready(10*time.Second, "ni/"+niID(1), "app/"+appID(1))
					r.apply(doc(1, 2))
					r.ready(10*time.Second, "ni/"+niID(1), "app/"+appID(1), "app/"+appID(2))
					r.apply("{}")
					r.settle(10 * time.Second)
					for o := 0; o <= 1; o++ {
						if s := r.host.State(o); len(s) > 0 {
							t.Errorf("fault at op %d: owner %d still has:\n%s", k, o, s)
						}
					}
					total = n
				})
			}
		})
	}
}

func TestPlanShowsWhatApplyDoes(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		planned, err := r.node.Plan(context.Background(), []byte(doc(1, 1)))
		if err != nil || len(planned) == 0 {
			t.Fatalf("plan: %v, %v", planned, err)
		}
		if s := r.host.State(1); len(s) > 0 {
			t.Fatalf("a plan changed the host:\n%s", s)
		}
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		for _, c := range planned {
			owner := 1
			if c.Owner == netstate.HostOwner {
				owner = 0
			}
			if r.host.State(owner)[netstate.ID{Kind: netstate.Kind(c.Kind), Name: c.ID}] == nil {
				t.Errorf("planned %+v, and it is not there", c)
			}
		}
		again, err := r.node.Plan(context.Background(), []byte(doc(1, 1)))
		if err != nil || len(again) > 0 {
			t.Errorf("a plan of what runs has changes: %v, %v", again, err)
		}
	})
}

// unseen is a host that can't list its networks while it is busy.
type unseen struct {
	*fake.Host
	busy atomic.Bool
}

func (h *unseen) Owners(ctx context.Context) ([]netstate.Owner, error) {
	if h.busy.Load() {
		return nil, errors.New("no listing today")
	}
	return h.Host.Owners(ctx)
}

// While another program makes and deletes links, no listing of them may come to its end. A daemon that starts then says
// so, tries again and crashes nothing.
func TestANetworkSaysThatTheHostCanNotBeSeen(t *testing.T) {
	onRig(t, func(r *rig) {
		r.stop()
		host := &unseen{Host: r.host}
		host.busy.Store(true)
		r.change = func(o *Options) { o.Host = host }
		r.start()
		r.apply(doc(1, 0))
		r.settle(time.Minute)
		nis, err := r.node.List(context.Background(), "ni")
		if err != nil || len(nis) != 1 {
			t.Fatalf("%v, %v", nis, err)
		}
		if st := nis[0].Status.(nodeapi.NetworkStatus); st.State != "WaitingForDependencies" ||
			!strings.Contains(st.Error, "no listing today") {
			t.Errorf("it says %+v", st)
		}
		host.busy.Store(false)
		r.settle(time.Minute)
		r.ready(time.Second, "ni/"+niID(1))
		if all := r.told(nodeapi.EventQuery{Kind: nodeapi.EventCrash}); len(all) > 0 {
			t.Errorf("crashes: %v", all)
		}
	})
}

// No event reports a rule that another program removes. The full observation of each minute finds it, in host's chains
// and in a network.
func TestLostChainsAreFoundWithinAMinute(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		for n := range 2 {
			for _, id := range r.host.State(n).IDs() {
				if id.Kind != netstate.KindChain {
					continue
				}
				r.host.RemoveSilently(n, id)
				r.settle(time.Minute + time.Minute/5) // with jitter
				if r.host.State(n)[id] == nil {
					t.Errorf("%s of owner %d was not repaired", id, n)
				}
			}
		}
	})
}

// The daemon may have died between the chains and the flows that they deny. A restart, which observes everything,
// deletes the flows again.
func TestARestartValidatesTheFlowsAgain(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		r.stop()
		before := r.host.CountForgetFlows()
		r.start()
		r.ready(time.Second, "ni/"+niID(1))
		if r.host.CountForgetFlows() == before {
			t.Error("no flow was judged")
		}
	})
}

// A revocation is complete when no flow that it denies is left. Until then the network is not Present, gives the
// reason, and retries with a growing back-off, even if no chain changes.
func TestARevocationThatWasNotCarriedOutIsAFailure(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		status := func() netinst.NetworkInstanceStatus {
			s, _ := r.node.Topics().NetworkStatus.Get("", niID(1))
			return s
		}
		r.host.FailForgetFlows(errors.New("table walked away"))
		r.apply(strings.Replace(doc(1, 1), "allow", "drop", 1))
		r.settle(time.Second)
		if s := status(); s.State != netinst.CreatingFailed && s.State != netinst.CheckPresentFailed ||
			!strings.Contains(s.Error, "delete conntrack entries of denied flows: table walked away") ||
			!strings.Contains(s.Error, "may still pass") {
			t.Fatalf("state %s, error %q", s.State, s.Error)
		}
		before := r.host.CountForgetFlows()
		r.settle(time.Minute)
		if n := r.host.CountForgetFlows() - before; n < 2 || n > 12 {
			t.Errorf("tried %d times in a minute", n)
		}
		r.host.FailForgetFlows(nil)
		r.ready(time.Minute, "ni/"+niID(1), "app/"+appID(1))
		if s := status(); s.State != netinst.Present || s.Error != "" {
			t.Errorf("state %s, error %q", s.State, s.Error)
		}
	})
}

// The last good config that an earlier version stored still runs. If that version crashed between storing a config and
// counting it, the generation is not given to two configs.
func TestTheLastGoodConfigOfAnEarlierVersionIsTheConfirmedOne(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		before, _ := r.node.Topics().Source.Get("", "node")
		r.stop()
		r.files.Lose()
		r.files.SetLastGood(doc(2, 0))
		r.start()
		if r.lastGood() != nil || r.stored() != canonical(t, doc(2, 0)) {
			t.Errorf("kept is %s, and still of the earlier version %s", r.stored(), r.lastGood())
		}
		r.ready(time.Second, "ni/"+niID(2))
		after, _ := r.node.Topics().Source.Get("", "node")
		if after.Generation != before.Generation+1 {
			t.Errorf("generation %d, then %d with another config", before.Generation, after.Generation)
		}
		r.stop()
		r.start()
		if again, _ := r.node.Topics().Source.Get("", "node"); again.Generation != after.Generation {
			t.Errorf("generation %d, then %d with the same config", after.Generation, again.Generation)
		}
	})
}

func TestAParameterSaysWhatIsDesiredOfAnAdapter(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		id := "adapter/" + appID(1) + "/0"
		if p, _ := r.node.Topics().Reported.Get("", id); p.Target != "present" || p.State != "Present" {
			t.Errorf("active: %+v", p)
		}
		r.apply(strings.Replace(doc(1, 1), "activate: true", "activate: false", 1))
		r.ready(time.Second, "app/"+appID(1))
		if p, _ := r.node.Topics().Reported.Get("", id); p.Target != "absent" || p.State != "Absent" {
			t.Errorf("deactivated: %+v", p)
		}
	})
}

// An app whose network has a new subnet is not ready because of the old subnet's status.
func TestAnAppIsNotReadyBeforeItsNetworkHasTheNewConfig(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		r.host.SetFault(func(_ netstate.Owner, op netstate.Op) *fake.OpFault {
			return &fake.OpFault{Hang: op.Kind == netstate.KindAddress}
		})
		r.apply(strings.Replace(doc(1, 1), "10.1.0.0/24", "10.9.0.0/24", 1))
		if got, _ := r.node.Ready(context.Background(), "app", appID(1)); got.Ready ||
			!strings.Contains(got.Why, "generation") {
			t.Errorf("while the network is changed: %+v", got)
		}
		r.host.SetFault(nil)
		r.ready(time.Minute, "app/"+appID(1))
		if as, _ := r.node.List(context.Background(), "adapter"); as[0].Status.(nodeapi.AdapterStatus).IP != "10.9.0.128" {
			t.Errorf("the adapter is %+v", as[0].Status)
		}
	})
}
