package node

import (
	"context"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
)

const dnsmasq1 = "ni/1/dnsmasq"

func TestAProcessThatEndsIsStartedAgainAtOnceAndThenRests(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		runs := func() bool {
			return r.host.State(1)[netstate.ID{Kind: netstate.KindProcess, Name: dnsmasq1}] != nil
		}
		r.host.Kill(1, dnsmasq1)
		r.settle(0)
		if !runs() {
			t.Fatal("it was not started again at once")
		}
		r.ready(0, "ni/"+niID(1))
		for range 5 { // rests of 100, 200, 400, 800 and 1600 ms
			r.host.Kill(1, dnsmasq1)
			r.settle(2 * time.Second)
			if !runs() {
				t.Fatal("it was not started again")
			}
		}
		r.host.Kill(1, dnsmasq1)
		r.settle(3 * time.Second)
		if runs() {
			t.Error("it was started within 3s after seven ends in a row")
		}
		nis, err := r.node.List(context.Background(), "ni")
		if err != nil {
			t.Fatal(err)
		}
		st := nis[0].Status.(nodeapi.NetworkStatus)
		if st.State != "CheckPresentFailed" || !strings.Contains(st.Error, "7 times") || !strings.Contains(st.Error, "3.2s") {
			t.Errorf("the network says %+v", st)
		}
		r.ready(time.Second, "ni/"+niID(1))
		if !runs() {
			t.Error("it is ready without its process")
		}
	})
}
