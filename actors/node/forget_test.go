package node

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"edgespan/actors/node/api"
	"edgespan/appnet"
	"edgespan/config/stateloop/nodestate"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

func (r *rig) journals(topic string, ids ...string) {
	r.Helper()
	var want []string
	for _, id := range ids {
		want = append(want, "0:/"+id)
	}
	if d := cmp.Diff(want, r.journal.Keys(topic)); d != "" {
		r.Errorf("%s:\n%s", topic, d)
	}
}

// A restore may have committed the denying chains although it was killed at its deadline. The flows that they deny are
// deleted even though no chain remains to be changed.
func TestFlowsAreValidatedAfterAChainOpThatFailedAndTookEffect(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		failed := false
		r.host.SetFault(func(o netstate.Owner, op netstate.Op) *fake.OpFault {
			if o.Name != niID(1) || op.Kind != netstate.KindChain || failed {
				return nil
			}
			failed = true
			return &fake.OpFault{Half: true}
		})
		before := r.host.CountForgetFlows()
		r.apply(strings.Replace(doc(1, 1), "allow", "drop", 1))
		r.settle(time.Minute)
		r.ready(0, "ni/"+niID(1), "app/"+appID(1))
		if !failed || r.host.CountForgetFlows() == before {
			t.Errorf("an op failed: %v; flows were judged %d times after it", failed, r.host.CountForgetFlows()-before)
		}
	})
}

// A deleted network leaves nothing in the journal; a deleted app leaves its last version.
func TestTheJournalForgetsADeletedNetwork(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		r.apply(doc(2, 2))
		r.ready(time.Second, "app/"+appID(1), "app/"+appID(2))
		r.journals("network-instance-leases", niID(1), niID(2))
		r.apply(doc(1, 1))
		r.settle(time.Second)
		r.journals("network-instance-leases", niID(1))
		r.journals("network-instance-number", niID(1))
		r.journals("app-record", appID(1), appID(2))

		// Leftovers of a crash: a network that is neither desired nor on the host.
		r.stop()
		topics := []string{"network-instance-number", "network-instance-leases", "network-instance-stood", "uplink-choice"}
		for topic, v := range map[string]string{topics[0]: "3", topics[1]: "{}", topics[2]: "{}", topics[3]: "{}"} {
			if err := r.journal.Put(topic, "0:/"+niID(3), []byte(v)); err != nil {
				t.Fatal(err)
			}
		}
		r.start()
		r.ready(time.Second, "ni/"+niID(1), "app/"+appID(1))
		r.journals("network-instance-leases", niID(1))
		r.journals("network-instance-number", niID(1))
		r.journals("network-instance-stood")
		r.journals("uplink-choice", niID(1))
	})
}

// Only the versions of the most recently deleted apps are kept.
func TestTheJournalForgetsAppsThatWereDeletedLongAgo(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.stop()
		for i := range 1200 {
			b, err := json.Marshal(appnet.JournalRecord{TargetVersion: 1, Deleted: true, Order: uint64(i + 1)})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.journal.Put("app-record", fmt.Sprintf("0:/2c000000-0000-4000-8000-%012d", i), b); err != nil {
				t.Fatal(err)
			}
		}
		r.start()
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		r.apply(doc(1, 0))
		r.settle(time.Second)
		keys := r.journal.Keys("app-record")
		if len(keys) != 1000 || keys[0] != "0:/"+appID(1) || keys[1] != "0:/2c000000-0000-4000-8000-000000000201" {
			t.Errorf("%d records are left, from %v", len(keys), keys[:2])
		}
	})
}

// An app that outlives networks neither follows those that it has left nor is anything of it left in their scopes.
func TestAnAppForgetsTheNetworksThatItHasLeft(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		on := func(n int, networks string) string {
			app := "appNetworks:\n  " + appID(1) + ": {displayName: app1, activate: true, adapters: {0: {networkInstance: "
			return networks + app + niID(n) + ", attach: {kind: veth, netns: ns1}}}}\n"
		}
		its := func() api.ActorState {
			for _, a := range r.node.d.census.List() {
				if strings.HasSuffix(a.ID, "app/"+appID(1)) {
					return a
				}
			}
			t.Fatal("the app has no actor")
			return api.ActorState{}
		}
		received := func() uint64 { return its().Messages }
		for n := 1; n <= 3; n++ {
			r.apply(on(n, doc(3, 0)))
			r.ready(5*time.Second, "ni/"+niID(n), "app/"+appID(1))
			r.settle(time.Second)
			all := r.node.Topics().AppSynced.All()
			if len(all) != 1 || all[0].Scope != niID(n) {
				t.Errorf("on network %d the app is synced on %+v", n, all)
			}
		}
		before := received()
		r.apply(on(3, strings.NewReplacer("displayName: net1", "displayName: blue", "displayName: net2", "displayName: red").
			Replace(doc(3, 0))))
		r.settle(time.Second)
		if n := received() - before; n > 0 {
			t.Errorf("%d messages about networks that the app has left", n)
		}
		r.apply(on(3, strings.Replace(doc(3, 0), "displayName: net3", "displayName: green", 1)))
		r.settle(time.Second)
		if received() == before {
			t.Error("no message about the network that the app is on")
		}
		r.apply(on(1, doc(3, 0)))
		r.ready(5*time.Second, "ni/"+niID(1), "app/"+appID(1))

		if err := r.node.d.census.Crash(r.node.system, its().ID, "a test"); err != nil {
			t.Fatal(err)
		}
		r.apply(on(2, doc(3, 0))) // before it starts again
		r.settle(time.Second)
		r.ready(5*time.Second, "ni/"+niID(2), "app/"+appID(1))
		if all := r.node.Topics().AppSynced.All(); its().Crashes != 1 || len(all) != 1 || all[0].Scope != niID(2) {
			t.Errorf("after a crash and another network the app is synced on %+v: %+v", all, its())
		}
	})
}

// Parameters of an object that is gone leave nothing behind in the reporter.
func TestTheReporterForgetsADeletedObject(t *testing.T) {
	topics, err := api.NewTopics(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := reporter{topics: topics, out: topics.Reported.Publisher(api.OwnerConfig)}
	of := map[string][]string{}
	for range 3 {
		r.replace(of, "app", []nodestate.ParameterStatus{{ID: "adapter/1"}, {ID: "adapter/2"}})
		if n := len(topics.Reported.All()); n != 2 || len(of) != 1 {
			t.Fatalf("%d parameters of %v", n, of)
		}
		r.replace(of, "app", nil)
		if n := len(topics.Reported.All()); n > 0 || len(of) > 0 {
			t.Errorf("%d parameters, and those of %v, are left", n, of)
		}
	}
}
