package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"edgespan/config/kv"
	"edgespan/platform/store/etcd"
)

// attempt is how long a writer waits for one answer.
const attempt = 2 * time.Second

// work is writers and a watcher on one fleet.
type work struct {
	*cluster
	fleet   string
	store   *etcd.Store
	quit    func() // ends the writers, each after its next acknowledgement
	writers sync.WaitGroup
	unwatch context.CancelFunc
	watcher chan error

	mu    sync.Mutex
	acked map[kv.Key]kv.Revision // when it was written
	count []int                  // acknowledged, by writer
	seen  []kv.Entry             // by the watcher
	wrong []string
}

// work starts writers and a watcher, with a connection each.
func (c *cluster) work(fleet string, writers int) *work {
	c.Helper()
	ctx, stop := context.WithCancel(c.Context())
	quit := make(chan struct{})
	w := &work{
		cluster: c, fleet: fleet, store: c.open(fleet), quit: sync.OnceFunc(func() { close(quit) }), unwatch: stop,
		watcher: make(chan error, 1), acked: map[kv.Key]kv.Revision{}, count: make([]int, writers),
	}
	_, begun, err := w.store.Get(ctx, "any")
	if err != nil {
		c.Fatal(err)
	}
	watching := c.open(fleet)
	go func() { w.watcher <- watching.Watch(ctx, "", begun, w.see) }()
	for i := range writers {
		s := c.open(fleet)
		w.writers.Go(func() { w.write(ctx, s, i, quit) })
	}
	c.Cleanup(func() {
		stop()
		w.writers.Wait()
	})
	return w
}

// write writes one key after the other. After an error the write may have been done: the writer reads, and writes the
// same key again if it is missing.
func (w *work) write(ctx context.Context, s *etcd.Store, writer int, quit <-chan struct{}) {
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case <-quit:
			return
		default:
		}
		key := kv.Key(fmt.Sprintf("w%d/%06d", writer, n))
		txn := kv.Txn{Compares: []kv.Compare{kv.Absent(key)}, Then: []kv.Op{kv.Put(key, []byte(key))},
			Else: []kv.Op{kv.Get(key)}}
		for unsure := false; ctx.Err() == nil; {
			within, cancel := context.WithTimeout(ctx, attempt)
			out, err := s.Commit(within, txn)
			cancel()
			if err != nil {
				unsure = true
				pause(ctx, 10*time.Millisecond) // a stopped member refuses at once
				continue
			}
			at := out.Revision
			if !out.Succeeded {
				at = out.Results[0].Entry.ModRevision
			}
			w.acknowledge(writer, key, at, out.Succeeded || unsure)
			break
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (w *work) acknowledge(writer int, key kv.Key, at kv.Revision, honest bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked[key] = at
	w.count[writer]++
	if !honest {
		w.wrong = append(w.wrong, fmt.Sprintf("%s was there before it was written", key))
	}
}

// see records what the watcher receives.
func (w *work) see(b kv.Batch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ev := range b.Events {
		if n := len(w.seen); n > 0 && w.seen[n-1].ModRevision >= b.Revision {
			w.wrong = append(w.wrong, fmt.Sprintf("the watch tells of %d after %d", b.Revision, w.seen[n-1].ModRevision))
		}
		if ev.Kind != kv.EventPut {
			w.wrong = append(w.wrong, fmt.Sprintf("the watch tells of %s %s", ev.Kind, ev.Entry.Key))
		}
		w.seen = append(w.seen, ev.Entry)
	}
	return nil
}

func (w *work) acknowledged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// goOn waits until each writer has more further writes acknowledged, and the watcher has seen them.
func (w *work) goOn(more int) {
	w.Helper()
	w.mu.Lock()
	from := slices.Clone(w.count)
	w.mu.Unlock()
	w.until(fmt.Sprintf("each writer writes %d more", more), func(context.Context) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, n := range w.count {
			if n < from[i]+more {
				return false
			}
		}
		return true
	})
	w.watched()
}

// watched waits until the watcher has seen everything acknowledged so far.
func (w *work) watched() {
	w.Helper()
	w.mu.Lock()
	last := slices.Max(slices.Collect(maps.Values(w.acked)))
	w.mu.Unlock()
	w.until("the watcher sees what was written", func(context.Context) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.seen) > 0 && w.seen[len(w.seen)-1].ModRevision >= last
	})
}

// finish ends the writers, and checks that each member's content and the watcher's events equal what was acknowledged:
// each writer knows the outcome of all its writes.
func (w *work) finish() {
	w.Helper()
	w.quit()
	w.writers.Wait()
	w.watched()
	select {
	case err := <-w.watcher:
		w.Error("the watch ended:", err)
	default:
		w.unwatch()
		<-w.watcher
	}
	var stored []kv.Entry
	for _, m := range w.members {
		ctx, cancel := context.WithTimeout(w.Context(), timeout)
		page, err := w.open(w.fleet, m).List(ctx, "", kv.ListOptions{})
		cancel()
		if err != nil {
			w.Fatal(err)
		}
		if stored == nil {
			stored = page.Entries
		} else if told(stored) != told(page.Entries) {
			w.Errorf("%s has %d entries, another %d, or others", m.name, len(page.Entries), len(stored))
		}
	}
	lost := maps.Clone(w.acked)
	for _, e := range stored {
		if at, ok := w.acked[e.Key]; ok && at == e.ModRevision && string(e.Value) == string(e.Key) && e.Version == 1 {
			delete(lost, e.Key)
		}
	}
	for key, at := range lost {
		w.Errorf("%s was acknowledged at %d, and is not there as it was", key, at)
	}
	if len(stored) != len(w.acked) {
		w.Errorf("%d entries, %d acknowledged", len(stored), len(w.acked))
	}
	slices.SortFunc(stored, func(a, b kv.Entry) int { return int(int64(a.ModRevision) - int64(b.ModRevision)) })
	if got, want := told(w.seen), told(stored); got != want {
		w.Errorf("the watcher saw %d events, not the %d writes in their order", len(w.seen), len(stored))
	}
	for _, wrong := range w.wrong {
		w.Error(wrong)
	}
	w.Logf("%d acknowledged writes, %d events", len(w.acked), len(w.seen))
}

func told(es []kv.Entry) string {
	var out strings.Builder
	for _, e := range es {
		fmt.Fprintln(&out, e.Key, e.ModRevision)
	}
	return out.String()
}
