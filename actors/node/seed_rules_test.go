package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// faultOf1 injects a fault into every op of network 1.
func (r *rig) faultOf1(f fake.OpFault) {
	r.host.SetFault(func(o netstate.Owner, _ netstate.Op) *fake.OpFault {
		if o.Name == niID(1) {
			return &f
		}
		return nil
	})
}

// atOnce fails the test if fake time passes during f.
func (r *rig) atOnce(what string, f func()) {
	r.Helper()
	start := time.Now()
	f()
	if d := time.Since(start); d > 0 {
		r.Errorf("%s took %v", what, d)
	}
}

// While every op of a network and its app hangs, the node does everything else at once.
func TestSeed_MainLoopStaysFree(t *testing.T) {
	for what, setup := range map[string]string{"network": doc(1, 0), "app": doc(1, 1)} {
		t.Run(what, func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.netns("ns1", "ns2")
				if what == "app" { // the network is complete: the app's setup hangs
					r.apply(doc(1, 0))
					r.ready(time.Second, "ni/"+niID(1))
				}
				r.faultOf1(fake.OpFault{Hang: true})
				r.atOnce("the config", func() { r.apply(setup) })
				r.settle(500 * time.Millisecond) // in the middle of an op that hangs
				r.atOnce("a question", func() {
					if list, err := r.node.List(context.Background(), "ni"); err != nil || len(list) != 1 {
						t.Errorf("get ni: %v, %v", list, err)
					}
				})
				r.atOnce("another config", func() { r.apply(doc(2, 2)) })
				r.ready(100*time.Millisecond, "ni/"+niID(2), "app/"+appID(2))
				r.atOnce("one more", func() { r.apply(doc(1, 1)) })
				r.settle(100 * time.Millisecond)
				if got := strings.Join(r.managers(), " "); got != niID(1) {
					t.Errorf("the bridge managers are %s", got)
				}
			})
		})
	}
}

func TestSeed_AHungCommandStarvesNoWatchdog(t *testing.T) {
	t.Run("EBM-2", func(t *testing.T) {
		onRig(t, func(r *rig) {
			r.netns("ns1")
			// Host's ops hang too.
			r.host.SetFault(func(netstate.Owner, netstate.Op) *fake.OpFault { return &fake.OpFault{Hang: true} })
			r.apply(doc(2, 1))
			for minute := range 5 {
				before := r.fed()
				r.settle(time.Minute)
				if n := r.fed() - before; n < 50 {
					t.Errorf("in minute %d of hanging commands the watchdog was fed %d times, want each second", minute+1, n)
				}
			}
		})
	})
}

// Whatever fails in one network, the events of another are processed at once, and its bridge manager gets no message
// about the failure.
func TestSeed_TroubleOfOneNetworkDoesNotTouchAnother(t *testing.T) {
	for what, fault := range map[string]fake.OpFault{
		"hangs": {Hang: true}, "fails": {Err: errors.New("boom")}, "half": {Half: true}, "panics": {Panic: true},
	} {
		t.Run(what, func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.netns("ns1", "ns2")
				r.apply(doc(2, 0))
				r.ready(time.Second, "ni/"+niID(1), "ni/"+niID(2))
				r.faultOf1(fault)
				changed := strings.Replace(doc(2, 2), "displayName: net1", "displayName: net1, mtu: 1300", 1)
				r.apply(changed)
				r.settle(300 * time.Millisecond)
				r.ready(0, "ni/"+niID(2), "app/"+appID(2)) // a new adapter
				r.apply(strings.Replace(changed, "displayName: net2", "displayName: net2, mtu: 1320", 1))
				r.settle(100 * time.Millisecond)
				r.ready(0, "ni/"+niID(2), "app/"+appID(2)) // a changed network
				r.netns("ns1")
				r.host.SetNetns("ns2", false)
				r.host.SetNetns("ns2", true)
				r.settle(100 * time.Millisecond)
				r.ready(0, "app/"+appID(2)) // a changed host
				if got, _ := r.node.Ready(context.Background(), "app", appID(1)); got.Ready && what != "half" {
					t.Error("the trouble is none")
				}
				for _, name := range []string{"", "/applier"} {
					if c := r.crew("router/ni/" + niID(2) + name); c.Crashes != 0 {
						t.Errorf("%s of the other network is %+v", name, c)
					}
				}
			})
		})
	}
}

// A bridge manager manages its network and all adapters on it: it creates, changes and removes each of them, and
// nothing of another network.
func TestSeed_BridgeManagerManagesItsNetworkAndTheAppsOnIt(t *testing.T) {
	t.Run("EBM-7", func(t *testing.T) {
		onRig(t, func(r *rig) {
			r.netns("ns1", "ns2", "ns3")
			owned := func(want ...int) {
				t.Helper()
				host := r.state(1).String()
				for app := 1; app <= 3; app++ {
					ok := strings.Contains(host, "adapter "+appID(app)+"#0")
					desired := strings.Contains(fmt.Sprint(want), fmt.Sprint(app))
					key := netinst.AdapterKey{AppUUID: uuid.MustParse(appID(app))}.String()
					s, said := r.node.Topics().AdapterStatus.Get(niID(1), key)
					if ok != desired || said != desired || s.Activated != desired {
						t.Errorf("app %d is on the host %v, wanted %v, its status %+v", app, ok, desired, s)
					}
				}
			}
			r.apply(doc(2, 3)) // 1 and 3 are on network 1
			r.ready(time.Second, "app/"+appID(1), "app/"+appID(2), "app/"+appID(3))
			owned(1, 3)
			r.apply(doc(2, 2))
			r.settle(time.Second)
			owned(1)
			other := r.state(2).String()
			r.apply(doc(0, 0))
			r.settle(time.Second)
			owned()
			if len(r.state(1)) > 0 || other == "" {
				t.Errorf("left of network 1:\n%s", r.state(1))
			}
		})
	})
}

// If the configs of the apps arrive before their network, its bridge manager finds them when it starts, and its first
// apply creates their adapters, at their versions.
func TestSeed_LateBridgeManagerReceivesWhatWaitsForIt(t *testing.T) {
	t.Run("EBM-58", func(t *testing.T) {
		onRig(t, func(r *rig) {
			r.netns("ns1", "ns2", "ns3")
			full := doc(1, 3)
			apps := full[:strings.Index(full, "networkInstances:")] + full[strings.Index(full, "appNetworks:"):]
			r.apply(apps)
			r.settle(time.Minute)
			if n := len(r.node.Topics().AdapterConfig.List(niID(1))); n != 3 {
				t.Fatalf("%d configs wait for the network, want 3", n)
			}
			r.apply(full)
			r.ready(time.Second, "app/"+appID(1), "app/"+appID(2), "app/"+appID(3))
			if n := r.crew("router/ni/" + niID(1) + "/applier").Messages; n > 2 { // Started and one apply
				t.Errorf("its applier got %d messages: the adapters were not in the first apply", n)
			}
			for app := 1; app <= 3; app++ {
				if st := r.app(app); st.TargetVersion != 1 || st.Adapters[0].TargetVersion != 1 {
					t.Errorf("app %d is at %+v: its config was published again", app, st)
				}
			}
		})
	})
}

// After any number of updates, however fast, and whatever the network's results, the app's status is that of the last
// config.
func TestSeed_StatusEndsConsistentWithTheLatestConfig(t *testing.T) {
	t.Run("EBM-67", func(t *testing.T) {
		onRig(t, func(r *rig) {
			r.netns("ns1", "ns2")
			ops := 0
			r.host.SetFault(func(netstate.Owner, netstate.Op) *fake.OpFault {
				if ops++; ops%7 == 0 {
					return &fake.OpFault{Hang: true}
				}
				return nil
			})
			r.apply(doc(2, 1))
			for i := range 40 {
				d := strings.Replace(doc(2, 1), "displayName: app1", fmt.Sprintf("displayName: turn%d", i), 1)
				if i%3 == 1 {
					d = strings.Replace(d, "activate: true", "activate: false", 1)
				}
				if i%4 >= 2 { // it moves
					d = strings.Replace(d, "networkInstance: "+niID(1), "networkInstance: "+niID(2), 1)
				}
				r.apply(d)
				r.settle(time.Duration(i%5) * 20 * time.Millisecond * time.Duration((39-i)/10)) // the last ten without a pause
			}
			r.host.SetFault(nil)
			r.settle(2 * time.Minute)
			st := r.app(1)
			rec, _ := r.node.Topics().AppRecords.Get("", appID(1))
			if st.Pending || !st.Activated || st.DisplayName != "turn39" || st.Error != "" ||
				st.TargetVersion != rec.TargetVersion {
				t.Errorf("in the end the app is %+v, the journal at %d", st, rec.TargetVersion)
			}
			if a := st.Adapters; len(a) != 1 || a[0].NetworkInstance != niID(2) || a[0].TargetVersion != st.TargetVersion {
				t.Errorf("its adapters are %+v", a)
			}
			if on := strings.Contains(r.state(1).String(), appID(1)); on || !strings.Contains(r.state(2).String(), appID(1)) {
				t.Errorf("it is on the network that it left: %v", on)
			}
		})
	})
}
