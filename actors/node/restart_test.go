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

// After a restart there is no status of an adapter. Its observed state counts, even if the first apply of its network
// fails elsewhere.
func TestAWorkingAdapterIsActivatedThoughItsNetworkFailsAfterARestart(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		r.stop()
		r.host.RemoveSilently(1, netstate.ID{Kind: netstate.KindProcess, Name: "ni/1/dnsmasq"})
		r.host.SetFault(func(_ netstate.Owner, op netstate.Op) *fake.OpFault {
			if op.Kind == netstate.KindProcess || op.Kind == netstate.KindLink {
				return &fake.OpFault{Err: errors.New("injected")}
			}
			return nil
		})
		r.start()
		r.settle(time.Second)
		app := func(i int) nodeapi.AppStatus {
			apps, err := r.node.List(context.Background(), "app")
			if err != nil || len(apps) <= i {
				t.Fatalf("apps %v, %v", apps, err)
			}
			return apps[i].Status.(nodeapi.AppStatus)
		}
		if st := app(0); len(st.Adapters) != 1 || !st.Adapters[0].Activated ||
			!strings.Contains(st.Adapters[0].Error, "is not ready") {
			t.Errorf("the adapter that stands is %+v", st)
		}
		if got, _ := r.node.Ready(context.Background(), "app", appID(1)); got.Ready {
			t.Error("an app is ready on a network that is not")
		}

		// Another adapter, which is incomplete, is not activated.
		r.netns("ns2")
		r.apply(doc(1, 2))
		r.settle(time.Second)
		if st := app(1); !st.Pending || st.Adapters[0].Activated || !strings.Contains(st.Adapters[0].Error, "injected") {
			t.Errorf("the adapter whose link can't be made is %+v", st)
		}
		// Nor is one whose link is missing.
		r.host.RemoveSilently(1, netstate.ID{Kind: netstate.KindLink, Name: "es1a1"})
		r.stop()
		r.start()
		r.settle(time.Second)
		if st := app(0); st.Adapters[0].Activated {
			t.Errorf("the adapter whose link has gone is %+v", st)
		}
		r.host.SetFault(nil)
		r.host.Resync()
		r.ready(2*time.Minute, "app/"+appID(1), "app/"+appID(2))
	})
}
