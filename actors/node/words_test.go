package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// adapter reads the status of an adapter as the API shows it.
func (r *rig) adapter(id string) nodeapi.AdapterStatus {
	r.Helper()
	as, err := r.node.List(context.Background(), "adapter")
	if err != nil {
		r.Fatal(err)
	}
	for _, a := range as {
		if a.ID == id {
			return a.Status.(nodeapi.AdapterStatus)
		}
	}
	r.Fatalf("no adapter %s in %v", id, as)
	return nodeapi.AdapterStatus{}
}

func TestAnAppOnANetworkThatWasRemovedSaysSo(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		r.apply(doc(1, 1)[:len(doc(0, 0))] + doc(1, 1)[len(doc(1, 0)):]) // the app remains, its network is removed
		r.settle(time.Second)
		a := r.adapter(appID(1) + "/0")
		if a.Error != `network instance net1 is not in the config` || a.State != "WaitingForDependencies" {
			t.Errorf("the adapter is %+v", a)
		}
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
	})
}

func TestAnAppOnANetworkThatNeverWasSaysSo(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 1)[:len(doc(0, 0))] + doc(1, 1)[len(doc(1, 0)):])
		if a := r.adapter(appID(1) + "/0"); a.Error != "network instance "+niID(1)+" is not in the config" {
			t.Errorf("the adapter is %+v", a)
		}
	})
}

func TestAMissingNamespaceIsWaitedFor(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 1))
		r.settle(time.Second)
		if a := r.adapter(appID(1) + "/0"); a.State != "WaitingForDependencies" || a.Error == "" {
			t.Errorf("the adapter is %+v", a)
		}
		if p, _ := r.node.Topics().Reported.Get("", "adapter/"+appID(1)+"/0"); p.State != "WaitingForDependencies" {
			t.Errorf("its parameter is %+v", p)
		}
		r.netns("ns1")
		r.ready(2*time.Second, "app/"+appID(1))
	})
}

// No event reports the removal of a network that never had a status.
func TestAnAppOnANetworkThatWasNeverOnlineSaysSo(t *testing.T) {
	onRig(t, func(r *rig) {
		r.host.SetFault(func(o netstate.Owner, _ netstate.Op) *fake.OpFault {
			if o.Name == netstate.HostOwner { // host's objects
				return &fake.OpFault{Err: errors.New("injected")}
			}
			return nil
		})
		says := func(why string) {
			r.Helper()
			if a := r.adapter(appID(1) + "/0"); a.Error != "network instance "+niID(1)+" is not "+why {
				t.Errorf("the adapter is %+v", a)
			}
		}
		r.apply(doc(1, 1))
		says("online")
		r.apply(doc(1, 1)[:len(doc(0, 0))] + doc(1, 1)[len(doc(1, 0)):])
		says("in the config")
		r.apply(doc(1, 1))
		says("online")
	})
}
