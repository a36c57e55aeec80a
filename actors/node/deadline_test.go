package node

import (
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

func TestALinkHasTheTimeToGo(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply(doc(1, 0))
		r.ready(time.Second, "ni/"+niID(1))
		r.host.SetFault(func(_ netstate.Owner, op netstate.Op) *fake.OpFault {
			if op.Kind == netstate.KindLink && op.Verb == netstate.Remove {
				return &fake.OpFault{Hang: true}
			}
			return nil
		})
		r.apply("{}")
		for _, c := range []struct {
			after time.Duration
			want  netinst.NIState
		}{{29 * time.Second, netinst.Removing}, {1100 * time.Millisecond, netinst.RemovingFailed}} {
			r.settle(c.after)
			if s, _ := r.node.Topics().NetworkStatus.Get("", niID(1)); s.State != c.want {
				t.Errorf("%v later the network is %s (%s), want %s", c.after, s.State, s.Error, c.want)
			}
		}
		r.host.SetFault(nil)
		r.settle(time.Minute)
	})
}
