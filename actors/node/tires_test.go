package node

import (
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/platform/fake"
)

// The kernel reports the effects of the node's own ops like those of other programs. A network whose op fails
// repeatedly still waits for its retry, and one whose op succeeds is not observed in a loop.
func TestAFailingOpBacksOffWhateverTheKernelReports(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1", "ns2")
		r.host.SetEcho(true)
		var tries atomic.Int64
		r.host.SetFault(func(_ netstate.Owner, op netstate.Op) *fake.OpFault {
			if op.Kind == netstate.KindLink && op.Verb == netstate.Add && strings.Contains(op.String(), "es1a2") {
				tries.Add(1)
				return &fake.OpFault{Err: errors.New("mtu greater than device maximum")}
			}
			return nil
		})
		r.apply(doc(1, 2))
		r.settle(10 * time.Minute)
		r.ready(time.Second, "ni/"+niID(1), "app/"+appID(1))
		if n := tries.Load(); n > 24 || n < 15 {
			t.Errorf("tried %d times in ten minutes", tries.Load())
		}
		said, err := r.node.Explain(t.Context(), "app", appID(2))
		if err != nil || len(said.Causes) == 0 || len(said.Causes[0].Causes) == 0 || said.Causes[0].Causes[0].Retry == nil {
			t.Fatalf("explain: %+v, %v", said, err)
		}
		next := time.Until(*said.Causes[0].Causes[0].Retry)
		before := tries.Load()
		r.settle(next - 10*time.Millisecond)
		if tries.Load() != before {
			t.Errorf("tried %d times before %v", tries.Load()-before, next)
		}
		if r.settle(7 * time.Second); tries.Load() != before+1 { // a tenth of a minute is jitter
			t.Errorf("tried %d times at %v", tries.Load()-before, next)
		}
		before = tries.Load()
		r.apply(strings.Replace(doc(1, 2), "displayName: net1", "displayName: other", 1))
		r.settle(time.Millisecond)
		if tries.Load() != before+1 {
			t.Error("another config waits for the retry")
		}
		r.host.SetFault(nil)
		r.ready(2*time.Minute, "app/"+appID(2))
	})
}

func TestAContestIsReportedOnceAndCounted(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "ni/"+niID(1), "app/"+appID(1))
		r.settle(2 * time.Minute)
		before := len(r.told(nodeapi.EventQuery{}))
		for range 3000 { // five minutes
			r.host.Break(1, netstate.ID{Kind: netstate.KindPort, Name: "es1"})
			r.settle(100 * time.Millisecond)
		}
		got := r.told(nodeapi.EventQuery{})[before:]
		if len(got) > 6 || !strings.Contains(strings.Join(got, "\n"), "contested ni/"+niID(1)+
			" changed by others 3 times in the last minute") {
			t.Errorf("%d events of 3,000 changes by others:\n%s", len(got), strings.Join(got, "\n"))
		}
		s, _ := r.node.Topics().NetworkStatus.Get("", niID(1))
		if s.State != netinst.Present ||
			!regexp.MustCompile(`^changed by others [67] times in the last minute, last add port es1$`).MatchString(s.Warning) {
			t.Errorf("%s, warning %q", s.State, s.Warning)
		}
		if x, err := r.node.Explain(t.Context(), "ni", niID(1)); err != nil || x.Warning != s.Warning {
			t.Errorf("explain says %q, %v", x.Warning, err)
		}
		r.settle(3 * time.Minute)
		if s, _ := r.node.Topics().NetworkStatus.Get("", niID(1)); s.Warning != "" {
			t.Errorf("long after: %q", s.Warning)
		}
	})
}
