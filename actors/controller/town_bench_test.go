package controller

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/kv"
	"edgespan/platform/store/bolt"
)

// The town of BenchmarkRollout. `make bench-rollout` uses 10,000 nodes.
var (
	townNodes   = flag.Int("nodes", 500, "nodes of the rollout that is measured")
	townBatches = flag.Int("batches", 50, "batches that it has")
	townTakes   = flag.Duration("takes", 2*time.Second, "what a node takes from a push until it has done it")
)

// metered is a store that counts its calls.
type metered struct {
	storage.Store
	mu                  sync.Mutex
	commits, ops, bytes int
	maxOps, maxBytes    int
	took                []time.Duration // of writes
}

func (m *metered) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	m.mu.Lock()
	size := t.Size()
	m.commits++
	m.ops, m.bytes = m.ops+len(t.Then), m.bytes+size
	m.maxOps, m.maxBytes = max(m.maxOps, len(t.Then), len(t.Compares), len(t.Else)), max(m.maxBytes, size)
	m.mu.Unlock()
	at := time.Now()
	o, err := m.Store.Commit(ctx, t)
	if slices.ContainsFunc(t.Then, func(o kv.Op) bool { return o.Kind != kv.OpGet }) {
		m.mu.Lock()
		m.took = append(m.took, time.Since(at))
		m.mu.Unlock()
	}
	return o, err
}

func (m *metered) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits, m.ops, m.bytes, m.maxOps, m.maxBytes, m.took = 0, 0, 0, 0, 0, nil
}

// cpu returns the processor time of this process so far.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRollout measures one network override that reaches a town by a staged rollout, from the write until the
// rollout is done, with the store of a single controller, where each commit is synced:
//   - overhead-%: the total time relative to that of the nodes, which is takes for each batch
//   - cpu-µs/node: of controller, store and simulated nodes together
//   - txns/node, B/txn-most, ops/txn-most: the load on the store, and ms/write, the median of its
//     writes: six of them follow each other in a batch
//   - B/leader, B/follower: the heap of a replica per node, for one that has all the streams and leads,
//     and for one that has none
func BenchmarkRollout(b *testing.B) {
	t := newTown(*townNodes)
	file, err := bolt.Open(filepath.Join(b.TempDir(), "store"), bolt.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	before := rested()
	store := &metered{Store: file}
	each := max(*townBatches-2, 1) // the first batch is the canary, and the last what did not fit
	r := newTownRun(b, t, store, townFlags((len(t.names)+each-1)/each, siteNodes))
	defer r.stop()
	r.takes = *townTakes
	r.report(5 * time.Second)
	var own time.Duration
	batches, number := 0, 0
	store.reset()
	used := cpu(b)
	for b.Loop() {
		number++
		at := r.change(fmt.Sprint("change ", number))
		r.until("all have confirmed it", func() bool { return r.confirmed() >= len(t.names) })
		d := r.ends(at, staged.EndDone)
		if d.Acked != len(t.names) || r.cut != "" {
			b.Fatalf("%d of %d have it; %s", d.Acked, len(t.names), r.cut)
		}
		batches += len(d.Batches)
		own += time.Duration(len(d.Batches)) * *townTakes
	}
	used = cpu(b) - used
	slices.Sort(store.took)
	leader := rested() - before
	nodes := float64(len(t.names))
	b.ReportMetric(100*float64(b.Elapsed()-own)/float64(own), "overhead-%")
	b.ReportMetric(float64(batches)/float64(number), "batches")
	b.ReportMetric(float64(used.Microseconds())/nodes/float64(number), "cpu-µs/node")
	b.ReportMetric(float64(store.commits)/nodes/float64(number), "txns/node")
	b.ReportMetric(store.took[len(store.took)/2].Seconds()*1e3, "ms/write")
	b.ReportMetric(float64(store.maxOps), "ops/txn-most")
	b.ReportMetric(float64(store.maxBytes), "B/txn-most")
	b.ReportMetric(float64(leader)/nodes, "B/leader")
	b.ReportMetric(float64(r.follower())/nodes, "B/follower")
}

// report makes all nodes report once per period, as real ones do, until the benchmark ends.
func (r *townRun) report(every time.Duration) {
	const parts = 100
	tick := time.NewTicker(every / parts)
	go func() {
		defer tick.Stop()
		for part := 0; ; part = (part + 1) % parts {
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
			}
			for i := part; i < len(r.nodes); i += parts {
				n := r.nodes[i]
				n.mu.Lock()
				n.tell()
				n.mu.Unlock()
			}
		}
	}()
}

// follower returns the heap of a second replica, which has no streams.
func (r *townRun) follower() int64 {
	before := rested()
	c, err := Start(r.options("b", nil))
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = c.Stop(context.Background()) }()
	r.until("the follower has read the store",
		func() bool { return c.Ready(r.Context()) == nil && len(c.d.dir.handles()) == len(r.town.names) })
	return rested() - before
}

// rested returns the heap once what a start or a burst read has been freed.
func rested() int64 {
	time.Sleep(3 * time.Second)
	return heap()
}
