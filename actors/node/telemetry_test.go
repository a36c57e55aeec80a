package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst/netstate"
)

// sentBy sets the counters of the chain of what an app's adapter sends: n packets for its first rule.
func (r *rig) sentBy(n uint64) {
	r.Helper()
	for _, id := range r.host.State(1).IDs() {
		if c, ok := r.host.State(1)[id].(netstate.Chain); ok && strings.HasSuffix(c.Name, "-1E") && c.Table == "filter" {
			counters := make([]netstate.Counter, len(c.Rules))
			counters[0] = netstate.Counter{Packets: n, Bytes: 10 * n}
			r.host.SetCounters(id, counters)
			return
		}
	}
	r.Fatal("no chain")
}

func (r *rig) hits() nodeapi.RuleHits {
	r.Helper()
	x, err := r.node.Rules(context.Background(), appID(1), "0")
	if err != nil || x.Error != "" || len(x.Adapters) != 1 {
		r.Fatalf("%v: %+v", err, x)
	}
	return x.Adapters[0].Rules[0]
}

func TestHitsAreReadForARequestBeforeAWriteAndFromTimeToTime(t *testing.T) {
	onRig(t, func(r *rig) {
		r.netns("ns1")
		r.apply(doc(1, 1))
		r.ready(time.Second, "app/"+appID(1))
		if h := r.hits(); h.Packets != 0 || !h.LastHit.IsZero() {
			t.Errorf("at first: %+v", h)
		}
		r.sentBy(7)
		if h := r.hits(); h.Packets != 7 || h.Bytes != 70 || !h.LastHit.Equal(time.Now()) {
			t.Errorf("a request: %+v", h)
		}
		r.sentBy(9)
		noticed := time.Now().Add(hitsEvery)
		r.settle(hitsEvery + time.Minute)
		if h := r.hits(); h.Packets != 9 || h.LastHit.After(noticed.Add(time.Second)) || h.LastHit.Before(time.Now().Add(-hitsEvery)) {
			t.Errorf("when nobody asks: %+v, it is %v", h, time.Now())
		}
		r.sentBy(12)
		r.apply(strings.Replace(doc(1, 1), "acl: {", "acl: {zz: {action: drop, match: {ip: 203.0.113.9}}, ", 1))
		r.settle(time.Second)
		r.sentBy(2) // of the new chain
		if h := r.hits(); h.Packets != 14 {
			t.Errorf("after a change of the rules: %+v", h)
		}
		items, err := r.node.List(context.Background(), "app")
		s := nodeapi.As(items[0].Status, nodeapi.AppStatus{})
		if err != nil || len(s.Adapters[0].Hits) != 1 || s.Adapters[0].Hits[0].Packets != 14 ||
			!s.Adapters[0].HitsRead.Equal(time.Now()) {
			t.Errorf("get app: %+v, %v", s, err)
		}
		if x := r.explain("adapter", appID(1)+"/0"); !slices.Equal(x.Hits, s.Adapters[0].Hits) || !x.HitsRead.Equal(time.Now()) {
			t.Errorf("explain: %+v", x)
		}
		for _, x := range [][2]string{{appID(2), ""}, {appID(1), "1"}, {appID(1), "x"}} {
			if _, err := r.node.Rules(context.Background(), x[0], x[1]); !errors.Is(err, rest.ErrNotFound) {
				t.Errorf("%s: %v", x, err)
			}
		}
	})
}
