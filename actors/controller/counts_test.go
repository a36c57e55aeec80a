package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/actors/controller/metrics"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	scrapes "edgespan/config/httpapi/metrics"
	"edgespan/config/kv"
)

// lagging is the store of a replica whose reads are late; it hears of changes at once.
type lagging struct {
	*memory
	mu   sync.Mutex
	held chan struct{} // reads block until it is closed; nil: reads pass
}

func (l *lagging) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = make(chan struct{})
}

func (l *lagging) goOn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held)
	l.held = nil
}

func (l *lagging) Get(ctx context.Context, k kv.Key) (kv.Entry, kv.Revision, error) {
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	if held != nil {
		<-held
	}
	return l.memory.Get(ctx, k)
}

func (r *rig) counted(n *fakeNode) (c fleet.Counted) {
	r.Helper()
	e, _, err := r.store.Get(r.Context(), history.GenerationKey(n.id))
	if err == nil {
		err = json.Unmarshal(e.Value, &c)
	}
	if err != nil {
		r.Fatal(err)
	}
	return c
}

// count counts a node's generations as a remote replica would.
func (r *rig) count(n *fakeNode, c fleet.Counted) {
	r.Helper()
	o, err := r.store.Commit(r.Context(), kv.Txn{Then: []kv.Op{kv.Put(history.GenerationKey(n.id), storage.Encode(c))}})
	if err != nil || !o.Succeeded {
		r.Fatal(o, err)
	}
	r.pass(time.Minute)
}

// TestReplicasAgreeOnAGenerationThatOnlyOneOfThemSaw has a config replaced and put back while the replica that has the
// node's stream reads: that replica sees no change, the other counts two.
func TestReplicasAgreeOnAGenerationThatOnlyOneOfThemSaw(t *testing.T) {
	onRig(t, func(r *rig) {
		late := &lagging{memory: r.store}
		r.change = func(o *Options) {
			if o.Replica == "a" {
				o.Store = late
			}
		}
		a, b := r.start("a"), r.start("b")
		n := r.node(b, "n1")
		r.join(b, "n2")
		r.network(b, `{"envParams":{"A":"x"}}`)
		r.pass(time.Minute)
		n.connect(a)
		r.pass(time.Minute)
		r.wants(a, "n1", string(fleet.InSync))
		pushes, before := len(n.pushes), r.counted(n).Generation.Counter

		late.hold()
		r.write(b, ops.SetNodes{Overrides: r.doc(`{"n2":{"envParams":{"A":"1"}}}`)}) // the replica reads meanwhile
		for _, value := range []string{"y", "z", "x"} {
			r.network(b, `{"envParams":{"A":"`+value+`"}}`)
			time.Sleep(time.Millisecond)
		}
		late.goOn()
		r.pass(time.Minute)
		c := r.counted(n)
		if c.Generation.Counter != before+3 {
			t.Fatalf("the store counted %v, and %d before: b did not count for it", c, before)
		}
		if n.generation != c.Generation || len(n.pushes) != pushes {
			t.Errorf("the node runs generation %v after %d pushes, the store counted %v", n.generation, len(n.pushes)-pushes, c)
		}
		r.wants(a, "n1", string(fleet.InSync))
	})
}

// TestOnlyTheReplicaWithTheStreamCountsOverAnotherConfig leaves a count in the store, made by a replica that has ended,
// of a config that is no longer desired.
func TestOnlyTheReplicaWithTheStreamCountsOverAnotherConfig(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		n := r.node(b, "n1")
		r.pass(time.Minute)
		n.connect(a)
		r.pass(time.Minute)
		c := r.counted(n)
		left := c
		left.Generation.Counter += 2
		left.Digest.Config = config.MD5(config.Object{"other": true})
		r.count(n, left)
		got := r.counted(n)
		if got.Digest != c.Digest || got.Generation.Counter != left.Generation.Counter+1 || n.generation != got.Generation {
			t.Errorf("the store counted %v and the node runs %v, after %v", got, n.generation, left)
		}
		n.cut()
		synctest.Wait()
		left.Generation.Counter += 2
		r.count(n, left)
		if got := r.counted(n); got != left {
			t.Errorf("nobody has the stream, and the store counted %v after %v", got, left)
		}
		n.connect(a)
		r.pass(time.Minute)
		if got := r.counted(n); got.Digest != c.Digest || got.Generation.Counter != left.Generation.Counter+1 ||
			n.generation != got.Generation {
			t.Errorf("the node is back, the store counted %v and the node runs %v, after %v", got, n.generation, left)
		}
	})
}

func TestNodesAreCountedByState(t *testing.T) {
	d := newDirectory(testMetadata)
	for i := range 3 {
		d.setKnown(fmt.Sprintf("n%d", i), fmt.Sprintf("00000000-0000-4000-8000-%012x", i), fleet.Known{Joined: i > 0})
	}
	got := d.count(time.Now(), fleet.Defaults("a"))
	if n := got.States[fleet.Offline]; n != 2 || len(got.States) != 2 || got.Online+got.Ready+got.Streams != 0 {
		t.Errorf("%+v", got)
	}
}

// BenchmarkCountNodes is what a scrape does with the fleet.
func BenchmarkCountNodes(b *testing.B) {
	d := newDirectory(testMetadata)
	for i := range 10_000 {
		d.setKnown(fmt.Sprintf("n%05d", i), fmt.Sprintf("00000000-0000-4000-8000-%012x", i), fleet.Known{Joined: true})
	}
	work := metrics.NewWork()
	page := func() ([]byte, error) {
		return scrapes.NewPage(&metrics.Table, func(to *scrapes.Scrape) {
			metrics.Snapshot{Fleet: d.count(time.Now(), fleet.Defaults("a"))}.Collect(work, to)
		}).Text(b.Context())
	}
	for b.Loop() {
		if text, err := page(); err != nil || len(text) > 100_000 {
			b.Fatal(err, len(text))
		}
	}
}
