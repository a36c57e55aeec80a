package nodes

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"edgespan/actors/controller/storage"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
	"edgespan/config/stateloop"
)

// What matters is listed first.
func TestWhatIsToldWhereNotAllFits(t *testing.T) {
	o := Owner{Node: &reported{}}
	for i := range 2000 {
		p := fleetapi.Parameter{ID: fmt.Sprintf("p%04d", i), Kind: "x", State: "Present", Review: string(stateloop.ReviewNo),
			Reason: strings.Repeat("r", 100)}
		if i%200 == 199 {
			p.State, p.Review = "CreatingFailed", string(stateloop.ReviewYes)
		}
		o.Node.Parameters = append(o.Node.Parameters, p)
	}
	text := encodeOwner(o)
	if len(text) > MaxReported || len(text) < MaxReported/4 {
		t.Fatalf("%d bytes", len(text))
	}
	got := storage.ValueOf[Owner](kv.Event{Kind: kv.EventPut, Entry: kv.Entry{Value: text}})
	failed := 0
	for i, p := range got.Node.Parameters {
		if p.Review == string(stateloop.ReviewYes) {
			failed++
		}
		if i > 0 && got.Node.Parameters[i-1].ID >= p.ID {
			t.Fatal("they are in another order")
		}
	}
	if failed != 10 || got.Node.Left+len(got.Node.Parameters) != 2000 {
		t.Errorf("%d of 10 that failed, %d told and %d left out", failed, len(got.Node.Parameters), got.Node.Left)
	}
	small := Owner{Node: &reported{Parameters: o.Node.Parameters[:10]}}
	if string(encodeOwner(small)) != string(storage.Encode(small)) {
		t.Error("a small one is cut")
	}
}

// A node may report eight megabytes: the part that other replicas see is found in a few encodings, and the room is
// used.
func TestWhatOthersAreToldOfMuchIsFoundSoon(t *testing.T) {
	o := Owner{Replica: "a", Node: &reported{}}
	const all = 16_000
	for i := range all {
		o.Node.Parameters = append(o.Node.Parameters,
			fleetapi.Parameter{ID: fmt.Sprint("p/", i), Reason: strings.Repeat("x", 500)})
	}
	var before, after runtime.MemStats
	whole := len(storage.Encode(o))
	for range 2 { // empty the buffer pools: the race detector may empty them at any time
		runtime.GC()
	}
	runtime.ReadMemStats(&before)
	storage.Encode(o)
	runtime.ReadMemStats(&after)
	once := after.TotalAlloc - before.TotalAlloc
	text := encodeOwner(o)
	runtime.ReadMemStats(&before)
	if spent := before.TotalAlloc - after.TotalAlloc; spent > 3*once {
		t.Errorf("%d bytes are allocated for a text of %d: one encoding takes %d", spent, whole, once)
	}
	var reported Owner
	if err := json.Unmarshal(text, &reported); err != nil || len(text) > MaxReported || len(text) < MaxReported/2 ||
		reported.Node.Left+
			len(reported.Node.Parameters) != all {
		t.Errorf("%d bytes, %d parameters and %d left out: %v", len(text), len(reported.Node.Parameters), reported.Node.Left,
			err)
	}
}

// The running configs that nodes report are kept up to a bound for all nodes together, and released.
func TestWhatNodesRunIsKeptUpToABound(t *testing.T) {
	t.Parallel()
	d := &Deps{}
	large := make([]byte, 8<<20)
	nodes := make([]*node, maxAnswers/len(large)+1)
	for i := range nodes {
		nodes[i] = &node{d: d}
		nodes[i].storeRunning(large)
		nodes[i].storeRunning(large) // reported again
	}
	last := nodes[len(nodes)-1]
	if nodes[0].ran == nil || last.ran != nil {
		t.Errorf("the first is kept: %v, the last: %v", nodes[0].ran != nil, last.ran != nil)
	}
	last.storeRunning(large[:1])
	nodes[0].storeRunning(nil)
	last.storeRunning(large)
	if last.ran == nil {
		t.Error("what was given back is not there for others")
	}
	for _, n := range nodes {
		n.storeRunning(nil)
	}
	if left := d.running.kept.Load(); left != 0 {
		t.Errorf("%d bytes are never given back", left)
	}
}
