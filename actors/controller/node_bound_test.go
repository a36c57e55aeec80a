package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/history"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/link"
	"edgespan/config/revision"
	"edgespan/config/state"
)

// A hostile node reports other parameters with each report, for ten minutes: what it makes the
// store, the log and the other replicas hold is bounded, and what is left out is told.
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
		go r.store.Watch(ctx, history.InOwners, at, func(b revision.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range b.Events {
				writes++
				if bytes += len(e.Entry.Value); len(e.Entry.Value) > mostTold {
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
				n.parameters = append(n.parameters, link.Parameter{ID: fmt.Sprintf("x/%d/%d", i%7, p), Kind: []string{"x", "network-instance"}[p%2], State: "CreatingFailed", Detail: strings.Repeat(fmt.Sprint(i), 800/len(fmt.Sprint(i)))})
			}
			n.mu.Unlock()
			r.pass(5 * time.Second)
		}
		mu.Lock()
		defer mu.Unlock()
		if most := minutes*60*toldPace + 2*mostTold; bytes > most || writes == 0 {
			t.Errorf("%d writes of %d bytes in %d minutes, %d are allowed", writes, bytes, minutes, most)
		}
		if got := logs.FilterField(zap.String("node", n.id)).Len(); got > (minutes+1)*mostLines || got == 0 {
			t.Errorf("%d lines", got)
		}
		told := 0
		for _, l := range logs.FilterMessage("a node reports what no config of it declares").All() {
			if left, is := l.ContextMap()["left_out"].(int64); is {
				told += int(left)
			}
		}
		if told < 900 {
			t.Errorf("%d lines are told to be left out", told)
		}
		d, err := b.Node(r.Context(), "n1")
		if err != nil || d.State != string(fleet.InSync) || !strings.Contains(strings.Join(d.Explain, "\n"), "are left out here: replica a") {
			t.Errorf("%v: %+v", err, d)
		}
	})
}

// What matters is told first.
func TestWhatIsToldWhereNotAllFits(t *testing.T) {
	o := owner{Node: &reported{}}
	for i := range 2000 {
		p := fleetapi.Parameter{ID: fmt.Sprintf("p%04d", i), Kind: "x", State: "Present", Review: string(state.No), Reason: strings.Repeat("r", 100)}
		if i%200 == 199 {
			p.State, p.Review = "CreatingFailed", string(state.Yes)
		}
		o.Node.Parameters = append(o.Node.Parameters, p)
	}
	text := fit(o)
	if len(text) > mostTold || len(text) < mostTold/4 {
		t.Fatalf("%d bytes", len(text))
	}
	got := storage.ValueOf[owner](revision.Event{Kind: revision.EventPut, Entry: revision.Entry{Value: text}})
	failed := 0
	for i, p := range got.Node.Parameters {
		if p.Review == string(state.Yes) {
			failed++
		}
		if i > 0 && got.Node.Parameters[i-1].ID >= p.ID {
			t.Fatal("they are in another order")
		}
	}
	if failed != 10 || got.Node.Left+len(got.Node.Parameters) != 2000 {
		t.Errorf("%d of 10 that failed, %d told and %d left out", failed, len(got.Node.Parameters), got.Node.Left)
	}
	small := owner{Node: &reported{Parameters: o.Node.Parameters[:10]}}
	if string(fit(small)) != string(storage.Encode(small)) {
		t.Error("a small one is cut")
	}
}

// A node may report eight megabytes: what the others are told of it is found in a few encodings,
// and the room is used.
func TestWhatOthersAreToldOfMuchIsFoundSoon(t *testing.T) {
	o := owner{Replica: "a", Node: &reported{}}
	const all = 16_000
	for i := range all {
		o.Node.Parameters = append(o.Node.Parameters, fleetapi.Parameter{ID: fmt.Sprint("p/", i), Reason: strings.Repeat("x", 500)})
	}
	var before, after runtime.MemStats
	whole := len(storage.Encode(o))
	for range 2 { // forget pooled buffers: the race detector has them forgotten at any time
		runtime.GC()
	}
	runtime.ReadMemStats(&before)
	storage.Encode(o)
	runtime.ReadMemStats(&after)
	once := after.TotalAlloc - before.TotalAlloc
	text := fit(o)
	runtime.ReadMemStats(&before)
	if spent := before.TotalAlloc - after.TotalAlloc; spent > 3*once {
		t.Errorf("%d bytes are allocated for a text of %d: one encoding takes %d", spent, whole, once)
	}
	var told owner
	if err := json.Unmarshal(text, &told); err != nil || len(text) > mostTold || len(text) < mostTold/2 || told.Node.Left+len(told.Node.Parameters) != all {
		t.Errorf("%d bytes, %d parameters and %d left out: %v", len(text), len(told.Node.Parameters), told.Node.Left, err)
	}
}

// A node tells of as much as the largest one has, and of no more.
func TestAReportHasAsMuchAsANodeHas(t *testing.T) {
	t.Parallel()
	told := link.Report{Parameters: make([]link.Parameter, 80_000), Health: make([]link.Health, 80_000), Actions: make([]link.Action, 10)}
	if got := bounded(told); len(got.Parameters) != mostListed || len(got.Health) != mostListed || len(got.Actions) != 10 {
		t.Errorf("%d parameters, %d of health, %d actions", len(got.Parameters), len(got.Health), len(got.Actions))
	}
}
