package controller

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"edgespan/actors/controller/nodes"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/kv"
)

// A hostile node reports other parameters each time, for ten minutes: what it makes the store, the log and the other
// replicas hold is bounded, and what is left out is reported.
func TestWhatANodeMakesTheControllerSpend(t *testing.T) {
	onRig(t, func(r *rig) {
		core, logs := observer.New(zap.InfoLevel)
		r.change = func(o *Options) { o.Shared, o.Log = true, zap.New(core) }
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n1")
		n := r.nodes["n1"]
		logs.TakeAll()
		var mu sync.Mutex
		bytes, writes := 0, 0
		ctx, stop := context.WithCancel(r.Context())
		defer stop()
		_, at, _ := r.store.Get(ctx, "x")
		go r.store.Watch(ctx, history.InOwners, at, func(b kv.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range b.Events {
				writes++
				if bytes += len(e.Entry.Value); len(e.Entry.Value) > nodes.MaxReported {
					t.Errorf("a key of %d bytes", len(e.Entry.Value))
				}
			}
			return nil
		})
		const minutes = 3
		for i := range minutes * 12 { // it reports each 5 s
			n.mu.Lock()
			n.parameters = nil
			for p := range 900 {
				n.parameters = append(n.parameters,
					nodeproto.ParameterReport{ID: fmt.Sprintf("x/%d/%d", i%7, p), Kind: []string{"x", "network-instance"}[p%2],
						State: "CreatingFailed", Detail: strings.Repeat(fmt.Sprint(i), 800/len(fmt.Sprint(i)))})
			}
			n.mu.Unlock()
			r.pass(5 * time.Second)
		}
		mu.Lock()
		defer mu.Unlock()
		if limit := minutes*60*nodes.ReportPace + 2*nodes.MaxReported; bytes > limit || writes == 0 {
			t.Errorf("%d writes of %d bytes in %d minutes, %d are allowed", writes, bytes, minutes, limit)
		}
		if got := logs.FilterField(zap.String("node", n.id)).Len(); got > (minutes+1)*nodes.MaxLines || got == 0 {
			t.Errorf("%d lines", got)
		}
		reported := 0
		for _, l := range logs.FilterMessage("a node reports parameters that none of its configs declares").All() {
			if left, ok := l.ContextMap()["left_out"].(int64); ok {
				reported += int(left)
			}
		}
		if reported < 900 {
			t.Errorf("%d lines are told to be left out", reported)
		}
		d, err := b.Node(r.Context(), "n1")
		if err != nil || d.State != string(fleet.InSync) ||
			!strings.Contains(strings.Join(d.Explain, "\n"), "omitted: replica a") {
			t.Errorf("%v: %+v", err, d)
		}
	})
}
