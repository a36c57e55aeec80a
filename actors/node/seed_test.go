package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/registry"
	"edgespan/platform/fake"
	"edgespan/pubsub"
)

// managers returns the networks that have a bridge manager.
func (r *rig) managers() []string {
	var ids []string
	for _, a := range r.node.d.census.List() {
		if id, ok := strings.CutPrefix(a.ID, "router/ni/"); ok && !strings.Contains(id, "/") {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func TestSeed_OneBridgeManagerPerNetworkInstance(t *testing.T) {
	t.Run("EBM-6", func(t *testing.T) { // concurrently with the main loop, which answers while it hangs
		onRig(t, func(r *rig) {
			r.host.SetFault(func(netstate.Owner, netstate.Op) *fake.OpFault { return &fake.OpFault{Hang: true} })
			r.apply(doc(1, 0))
			r.settle(time.Second)
			start := time.Now()
			if list, err := r.node.List(context.Background(), "ni"); err != nil || len(list) != 1 || time.Since(start) > 0 {
				t.Errorf("after %v the list is %v, %v", time.Since(start), list, err)
			}
			r.host.SetFault(nil)
			r.ready(time.Minute, "ni/"+niID(1))
		})
	})
	t.Run("EBM-8", func(t *testing.T) {
		onRig(t, func(r *rig) {
			for _, n := range []int{0, 1, 3, 2, 0} {
				r.apply(doc(n, 0))
				r.settle(time.Second)
				var want []string
				for i := 1; i <= n; i++ {
					want = append(want, niID(i))
				}
				if got := r.managers(); !slices.Equal(got, want) {
					t.Errorf("with %d networks there are the bridge managers %v", n, got)
				}
			}
		})
	})
	t.Run("EBM-49", func(t *testing.T) { // each performs only its own network's periodic work
		onRig(t, func(r *rig) {
			r.apply(doc(2, 0))
			r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2))
			for own, other := range map[int]int{1: 2, 2: 1} {
				host, bridge, others := r.state(own).String(), r.network(own).Bridge, r.network(other).Bridge
				if !strings.Contains(host, fmt.Sprintf("== link %s\n", bridge)) || strings.Contains(host, others) {
					t.Errorf("network %d with the bridge %s has\n%s", own, bridge, host)
				}
			}
		})
	})
	t.Run("EBM-50", func(t *testing.T) { // a known network gets no second one
		onRig(t, func(r *rig) {
			r.apply(doc(1, 0))
			r.ready(time.Second, "ni/"+niID(1))
			r.apply(doc(2, 0))
			r.ready(time.Second, "ni/"+niID(2))
			if got := r.managers(); !slices.Equal(got, []string{niID(1), niID(2)}) || r.network(1).Generation != 1 {
				t.Errorf("the bridge managers are %v, network 1 is %+v", got, r.network(1))
			}
		})
	})
}

// Each network has its own applier: a network with a thousand rules on a slow node delays neither a later config nor
// another network.
func TestSeed_ManyRulesOnASlowNode(t *testing.T) {
	onRigSlow := func(t *testing.T, validate func(r *rig)) {
		onRig(t, func(r *rig) {
			r.netns("ns1")
			var rules strings.Builder
			for i := range 1000 {
				fmt.Fprintf(&rules, "r%d: {match: {ip: 192.0.2.%d, protocol: tcp, port: %d}}, ", i, i%250+1, i+1)
			}
			r.host.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
				if o.Name == niID(1) && op.Kind == netstate.KindChain {
					return &fake.OpFault{Hang: true}
				}
				return nil
			})
			with := func(n int) string {
				d := doc(n, 1)
				at := strings.LastIndex(d, "acl: {") + len("acl: {")
				return d[:at] + rules.String() + d[at:]
			}
			r.apply(with(1))
			r.settle(time.Second)
			start := time.Now()
			r.apply(with(2))
			if d := time.Since(start); d > 0 {
				t.Errorf("a later config was taken after %v", d)
			}
			validate(r)
			r.host.SetFault(nil)
			r.ready(time.Minute, "ni/"+niID(1), "app/"+appID(1))
			if n := strings.Count(r.state(1).String(), "--dport "); n < 1000 {
				t.Errorf("%d rules stand in the end", n)
			}
		})
	}
	t.Run("EBM-4", func(t *testing.T) {
		onRigSlow(t, func(r *rig) {
			one, two := r.crew("router/ni/"+niID(1)+"/applier"), r.crew("router/ni/"+niID(2)+"/applier")
			if one.ID == two.ID || one.ID == "" || two.ID == "" {
				t.Errorf("the appliers are %+v and %+v", one, two)
			}
		})
	})
	t.Run("EBM-5", func(t *testing.T) {
		onRigSlow(t, func(r *rig) { r.ready(100*time.Millisecond, "ni/"+niID(2)) })
	})
}

// A bridge manager gets only its UUID. It reads everything else from topics, in any order.
func TestSeed_BridgeManagerGetsOnlyItsUUIDAndReadsItsConfigByTopic(t *testing.T) {
	f := reflect.TypeOf((&deps{}).newBridge)
	if f.NumIn() != 1 || f.In(0) != reflect.TypeOf(uuid.UUID{}) {
		t.Errorf("a bridge manager is made by %v", f)
	}
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		if st := r.network(1); st.DisplayName != "net1" || st.Generation != 1 || st.Port != "wan" {
			t.Errorf("its network is %+v", st)
		}
	})
}

func TestSeed_BridgeManagerFollowsItsConfig(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(2, 0))
		r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2))
		other := r.crew("router/ni/" + niID(2) + "/applier").Messages
		r.apply(strings.Replace(doc(2, 0), "displayName: net1", "displayName: net1, mtu: 1300", 1))
		r.ready(time.Second, "ni/"+niID(1))
		st := r.network(1)
		if l, ok := r.state(1)[netstate.ID{Kind: netstate.KindLink, Name: st.Bridge}].(netstate.Link); !ok || l.MTU != 1300 ||
			st.Generation != 2 {
			t.Errorf("the bridge is %+v at generation %d", l, st.Generation)
		}
		if c := r.crew("router/ni/" + niID(1)); c.Crashes != 0 {
			t.Errorf("its bridge manager is %+v", c)
		}
		if now := r.crew("router/ni/" + niID(2) + "/applier").Messages; now != other || r.network(2).Generation != 1 {
			t.Errorf("the other network was applied %d times, %+v", now-other, r.network(2))
		}
	})
}

func TestSeed_DeletedNetworkCleansUpAndEnds(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		number := r.network(1).Number
		without := strings.Split(doc(0, 0), "\n")[:2]
		apps := doc(1, 1)[strings.Index(doc(1, 1), "appNetworks:"):]
		r.apply(strings.Join(without, "\n") + "\n" + apps)
		r.settle(time.Second)
		if s := r.host.State(number); len(s) > 0 {
			t.Errorf("left on the host:\n%s", s)
		}
		if got := r.managers(); len(got) > 0 {
			t.Errorf("bridge managers are left: %v", got)
		}
		if _, still := r.node.Topics().NetworkStatus.Get("", niID(1)); still {
			t.Error("its status is still there")
		}
		key := netinst.AdapterKey{AppUUID: uuid.MustParse(appID(1))}.String()
		if s, ok := r.node.Topics().AdapterStatus.Get(niID(1), key); !ok || s.Activated || s.Error == "" {
			t.Errorf("the status of its adapter is %+v, there is %v", s, ok)
		}
	})
}

// The objects of a local network with an app, in one observation of the host.
func TestSeed_ANetworkHasWhatItsTypeNeeds(t *testing.T) {
	var host string
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		host = r.state(1).String()
	})
	has := func(t *testing.T, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(host, part+"\n") {
				t.Errorf("no %s in\n%s", part, host)
			}
		}
	}
	t.Run("EBM-15", func(t *testing.T) { has(t, "== link es1", "== address es1 10.1.0.1/24", "== port es1") })
	t.Run("EBM-17", func(t *testing.T) { has(t, "== file ni/1/conf/dnsmasq.conf", "== process ni/1/dnsmasq") })
	t.Run("EBM-19", func(t *testing.T) {
		has(t, "-j MASQUERADE", "== route 0.0.0.0/0 table 20001 metric 0", "== route 10.1.0.0/24 table 20001 metric 0",
			"== rule 20001\nfrom 10.1.0.0/24 lookup 20001", "== rule 21001\nto 10.1.0.0/24 lookup 20001")
	})
	t.Run("EBM-29", func(t *testing.T) {
		has(t, "== link es1a1", "== port es1a1\nup master es1 station 02:47:27:37:73:12", "-d 10.1.0.128/32 -g ES1-1I")
	})
	t.Run("EBM-30", func(t *testing.T) { has(t, "== chain ipv4/filter/ES1-1E", "== chain ipv4/filter/ES1-1I") })
}

func TestSeed_StatusHasTheBridgeManagerAsOwner(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		err := r.node.Topics().NetworkStatus.Publisher("another").Publish("", niID(1), netinst.NetworkInstanceStatus{})
		var owned *pubsub.OwnedError
		if !errors.As(err, &owned) || owned.Owner != "ni/"+niID(1) {
			t.Errorf("another's publish: %v", err)
		}
	})
}

func TestSeed_RouteAndLinkChangesReachTheBridgeManager(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		def := netstate.ID{Kind: netstate.KindRoute, Name: "0.0.0.0/0 table 20001 metric 0"}
		for _, c := range []struct {
			gateway, state string
			is             []netstate.Interface
		}{
			{"192.0.2.9", "Present", []netstate.Interface{{
				Name: "uplink0", Up: true, MTU: 1500, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")},
				DefaultRoutes: []netstate.DefaultRoute{netstate.DefaultVia(netip.MustParseAddr("192.0.2.9"))},
			}}},
			{"", "WaitingForDependencies", []netstate.Interface{{Name: "uplink1"}}},
		} {
			r.host.SetInterfaces(c.is...)
			r.settle(time.Second)
			route, _ := r.state(1)[def].(netstate.Route)
			if st := r.network(1); route.Via != c.gateway || st.State != c.state {
				t.Errorf("the default route goes through %q, want %q; network %+v", route.Via, c.gateway, st)
			}
		}
	})
}

func TestSeed_BridgeManagerReadsOnlyItsScope(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		r.apply(doc(2, 1))
		r.ready(time.Second, "app/"+appID(1))
		before, other := r.crew("router/ni/"+niID(1)+"/applier").Messages, r.state(1).String()
		r.apply(doc(2, 2)) // the second app is on the second network
		r.ready(time.Second, "app/"+appID(2))
		if now := r.crew("router/ni/" + niID(1) + "/applier").Messages; now != before || r.state(1).String() != other {
			t.Errorf("an adapter of network 2 made network 1 apply %d times", now-before)
		}
		if strings.Contains(r.state(1).String(), appID(2)) || !strings.Contains(r.state(2).String(), appID(2)) {
			t.Error("the adapter is not on the network that it names")
		}
	})
}

// A network has a status before its first reconcile, so that a reconcile that hangs is visible (ADR 0005). An adapter
// has one afterwards.
func TestSeed_AdapterStatusComesAfterTheFirstReconcile(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.host.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
			if o.Number == 1 && op.Kind == netstate.KindProcess {
				return &fake.OpFault{Hang: true}
			}
			return nil
		})
		r.apply(doc(1, 1))
		r.settle(500 * time.Millisecond)
		if st := r.network(1); st.State != "Creating" || st.Generation != 0 {
			t.Errorf("during its first reconcile the network is %+v", st)
		}
		if left := r.node.Topics().AdapterStatus.All(); len(left) > 0 {
			t.Errorf("there are statuses of adapters before it has ended: %+v", left)
		}
		if st := r.app(1); !st.Pending {
			t.Errorf("its app is %+v", st)
		}
		r.host.SetFault(nil)
		r.ready(time.Minute, "ni/"+niID(1), "app/"+appID(1))
	})
}

func TestSeed_BridgeManagerFollowsItsAdapters(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2", "ns3")
		for _, apps := range []int{0, 2, 3, 1} {
			r.apply(doc(1, apps))
			r.settle(time.Second)
			links := 0
			for id := range r.state(1) {
				if id.Kind == netstate.KindPort && id.Name != "es1" {
					links++
				}
			}
			if links != apps {
				t.Errorf("with %d apps there are %d adapters in the bridge", apps, links)
			}
		}
	})
}

func TestSeed_RouterKeepsOnlineBridgeManagers(t *testing.T) {
	topics, err := api.NewTopics(fake.NewJournal(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &router{d: &deps{topics: topics, logged: logged{log: zap.NewNop()}}, reg: registry.New(nil),
		onlineBridgeManagers: map[uuid.UUID]netinst.NetworkInstanceStatus{}}
	wake := func() {}
	r.source = topics.Source.Subscribe(pubsub.Selector{}, wake)
	r.configs = topics.NetworkConfig.Subscribe(pubsub.Selector{}, wake)
	r.appConfs = topics.AppConfig.Subscribe(pubsub.Selector{}, wake)
	r.statuses = topics.NetworkStatus.Subscribe(pubsub.Selector{}, wake)
	r.overlaps = topics.SubnetOverlap.Subscribe(pubsub.Selector{}, wake)
	r.forwards, r.ports = topics.Forwarding.Subscribe(pubsub.Selector{}, wake),
		topics.PortConfig.Subscribe(pubsub.Selector{}, wake)
	r.adapters = topics.AdapterConfig.Subscribe(pubsub.Selector{AllScopes: true}, wake)
	id := uuid.MustParse(niID(1))
	p := topics.NetworkStatus.Publisher("ni/" + niID(1))
	for _, state := range []netinst.NIState{netinst.Creating, netinst.Present} {
		must(p.Publish("", niID(1), netinst.NetworkInstanceStatus{UUID: id, State: state}))
		r.drain(nil)
		if got := r.onlineBridgeManagers[id].State; got != state {
			t.Errorf("it is kept as %q, said %q", got, state)
		}
	}
	must(p.Unpublish("", niID(1)))
	r.drain(nil)
	if len(r.onlineBridgeManagers) > 0 {
		t.Errorf("offline, and kept: %v", r.onlineBridgeManagers)
	}
}

func TestSeed_NewestDesiredStateWinsWhileAnApplyIsSlow(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		r.host.SetFault(func(_ netstate.Owner, op netstate.Op) *fake.OpFault {
			if op.Kind == netstate.KindChain {
				return &fake.OpFault{Hang: true}
			}
			return nil
		})
		applies := r.crew("router/ni/" + niID(1) + "/applier").Messages
		r.netns("ns1")
		r.apply(doc(1, 1)) // needs chains: hangs until the deadline of the restore
		for mtu := 1300; mtu < 1350; mtu++ {
			start := time.Now()
			r.apply(strings.Replace(doc(1, 1), "displayName: net1", fmt.Sprintf("displayName: net1, mtu: %d", mtu), 1))
			if d := time.Since(start); d > 0 {
				t.Fatalf("an apply took %v behind a slow one", d)
			}
		}
		if n := r.crew("router/ni/"+niID(1)+"/applier").Messages - applies; n != 1 {
			t.Errorf("%d applies are in flight or queued, want one", n)
		}
		r.host.SetFault(nil)
		r.ready(time.Minute, "ni/"+niID(1), "app/"+appID(1))
		if l, _ := r.state(1)[netstate.ID{Kind: netstate.KindLink, Name: "es1"}].(netstate.Link); l.MTU != 1349 {
			t.Errorf("the bridge has MTU %d, want the newest", l.MTU)
		}
		if n := r.crew("router/ni/"+niID(1)+"/applier").Messages - applies; n > 3 {
			t.Errorf("51 configs cost %d applies", n)
		}
	})
}

func TestGap_RouterWithdrawsTheStatusesOfAGoneNetwork(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		d := doc(1, 1)
		apps := d[:strings.Index(d, "networkInstances:")] + d[strings.Index(d, "appNetworks:"):]
		r.apply(apps)
		r.settle(time.Second)
		key := netinst.AdapterKey{AppUUID: uuid.MustParse(appID(1))}.String()
		err := r.node.Topics().AdapterStatus.Publisher("another").Publish(niID(1), key, netinst.AppAdapterStatus{})
		var owned *pubsub.OwnedError
		if !errors.As(err, &owned) || owned.Owner != api.OwnerRouter {
			t.Errorf("the status of a gone network's adapter: %v, want the router as its owner", err)
		}
		r.apply("{}")
		r.settle(time.Second)
		if left := r.node.Topics().AdapterStatus.All(); len(left) > 0 {
			t.Errorf("statuses are left: %+v", left)
		}
		if got, _ := r.node.Ready(context.Background(), "app", appID(1)); !got.Absent {
			t.Errorf("the app is %+v", got)
		}
	})
}

func TestAPlanOfAFaultyDocumentIsARefusalWithEveryFault(t *testing.T) {
	onRig(t, func(r *rig) {
		_, err := r.node.Plan(context.Background(), []byte("networkInstances: {x: {type: 5}}\nnonsense: 1\n"))
		var rej *rest.Rejected
		if !errors.As(err, &rej) || len(rej.Faults) < 2 {
			t.Errorf("plan answered %v", err)
		}
	})
}

func TestTwoAppliesAtOnceEndInOneOfThem(t *testing.T) {
	onRig(t, func(r *rig) {
		docs := []string{doc(1, 0), doc(3, 0)}
		for round := range 10 {
			done := make(chan error, len(docs))
			for _, d := range docs {
				go func() {
					_, err := r.node.Apply(context.Background(), []byte(d), nodeapi.ApplyOptions{})
					done <- err
				}()
			}
			for range docs {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			r.settle(time.Second)
			want := 1
			if r.stored() == canonical(t, docs[1]) {
				want = 3
			}
			if got := r.managers(); len(got) != want {
				t.Fatalf("stored is a config of %d networks, there are %v", want, got)
			}
			for n := 1; n <= want; n++ {
				r.ready(0, "ni/"+niID(n))
			}
			if s, _ := r.node.Topics().Source.Get("", "node"); s.Generation != uint64(2*(round+1)) {
				t.Fatalf("after %d applies the generation is %d", 2*(round+1), s.Generation)
			}
		}
	})
}
