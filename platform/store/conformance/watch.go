package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"edgespan/config/kv"
)

func watchOrder(r *rig) {
	r.put("before", "x")
	after := r.now()
	all, below := r.watch("", after), r.watch("n/", after)
	r.then(kv.Put("n/2", []byte("a")), kv.Put("m", []byte("b")), kv.Put("n/1", []byte("c")))
	r.put("m", "d")
	r.then(kv.Delete("m"), kv.DeletePrefix("n/"), kv.Put("n1", nil))
	last := r.put("n/1", "e")
	for _, want := range []string{
		"put n/2=a, put m=b, put n/1=c", "put m=d", "delete m, delete n/1, delete n/2, put n1=", "put n/1=e",
	} {
		r.is("all", report(r.next(all)), want)
	}
	for _, want := range []string{"put n/2=a, put n/1=c", "delete n/1, delete n/2", "put n/1=e"} {
		b := r.next(below)
		r.is("below", report(b), want)
		after = b.Revision
	}
	r.is("the revision of a batch is its transaction's", after, last)
	// A watch from the first revision delivers earlier changes.
	again := r.watch("n/", last-1)
	r.is("from a revision", report(r.next(again)), "put n/1=e")
}

func watchResumes(r *rig) {
	const n = 200
	start := r.now()
	for i := range n {
		r.put(kv.Key(fmt.Sprint("n/", i%7)), fmt.Sprint(i))
	}
	after, got := start, 0
	for got < n { // each watch reads some and ends
		left := 1 + got%23
		err := r.Watch(r.ctx(), "n/", after, func(b kv.Batch) error {
			r.is("the next one", report(b), fmt.Sprintf("put n/%d=%d", got%7, got))
			if b.Revision <= after {
				r.Errorf("revision %d after %d", b.Revision, after)
			}
			after, got, left = b.Revision, got+1, left-1
			if left == 0 || got == n {
				return errEnough
			}
			return nil
		})
		r.fails("the reader's own error comes back", err, errEnough)
		if r.Failed() {
			return
		}
	}
}

var errEnough = errors.New("enough")

func watchFuture(r *rig) {
	r.put("a", "1")
	r.fails("from a revision that is not reached", r.Watch(r.ctx(), "", r.now()+1_000_000, nil), kv.ErrFuture)
}

func watchSlow(r *rig) {
	start := r.now()
	hold, reached := make(chan struct{}), make(chan struct{})
	var once sync.Once
	got := make(chan string, 1000)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- r.Watch(ctx, "", start, func(b kv.Batch) error {
			once.Do(func() { close(reached) })
			<-hold
			got <- report(b)
			return nil
		})
	}()
	r.put("n", "0")
	<-reached // deliver remains blocked
	for i := 1; i < 300; i++ {
		r.put("n", fmt.Sprint(i))
	}
	close(hold)
	for i := range 300 {
		select {
		case word := <-got:
			r.is("in order", word, fmt.Sprintf("put n=%d", i))
		case <-time.After(timeout):
			r.Fatal("the slow watcher misses event", i)
		}
	}
	cancel()
	r.fails("its end", <-done, context.Canceled)
}

func watchEnds(r *rig) {
	r.put("a", "0")
	start := r.now()
	warm := r.watch("", start)
	r.put("a", "1")
	r.next(warm)
	before := runtime.NumGoroutine()
	var watches []*watched
	for range 50 {
		watches = append(watches, r.watch("", start))
	}
	for _, w := range watches {
		r.is("it runs", report(r.next(w)), "put a=1")
		w.cancel()
		r.fails("its context ends it", r.end(w), context.Canceled)
	}
	// The goroutines of the backend end too.
	for deadline := time.Now().Add(timeout); runtime.NumGoroutine() > before+10; {
		if time.Now().After(deadline) {
			r.Fatalf("%d goroutines before, %d after 50 watches ended", before, runtime.NumGoroutine())
		}
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	r.fails("a context that is over", r.Watch(ctx, "", start, func(kv.Batch) error { return nil }), context.Canceled)
	_, err := r.Commit(ctx, kv.Txn{Then: []kv.Op{kv.Put("late", nil)}})
	r.fails("to commit with it", err, context.Canceled)
	r.is("nothing took place", r.get("late").Exists(), false)
}

func concurrentWriters(r *rig) {
	const writers, each = 8, 25
	start := r.now()
	w := r.watch("count", start) // no prefix: ends at once, without harm
	r.fails("a key is no prefix", r.end(w), kv.ErrInvalid)
	w = r.watch("", start)
	var wg sync.WaitGroup
	faults := make(chan error, writers)
	for i := range writers {
		wg.Go(func() { faults <- r.count(i, each) })
	}
	wg.Wait()
	for range writers {
		if err := <-faults; err != nil {
			r.Fatal(err)
		}
	}
	r.is("no count is lost", string(r.get("count").Value), fmt.Sprint(writers*each))
	r.is("nor counted twice", r.get("count").Version, writers*each)
	last := start
	for i := range writers * each {
		b := r.next(w)
		if b.Revision <= last || len(b.Events) != 2 || string(b.Events[0].Entry.Value) != fmt.Sprint(i+1) {
			r.Fatalf("event %d: revision %d after %d: %s", i, b.Revision, last, report(b))
		}
		last = b.Revision
	}
}

// count increments a key with compare-and-set this many times, and writes another key.
func (r *rig) count(writer, times int) error {
	for done := 0; done < times; {
		e, _, err := r.Get(r.Context(), "count")
		if err != nil {
			return err
		}
		n := 0
		if e.Exists() {
			if _, err := fmt.Sscan(string(e.Value), &n); err != nil {
				return err
			}
		}
		out, err := r.Commit(r.Context(), kv.Txn{
			Compares: []kv.Compare{kv.AtRevision("count", e.ModRevision)},
			Then: []kv.Op{
				kv.Put("count", fmt.Append(nil, n+1)),
				kv.Put(kv.Key(fmt.Sprint("writer/", writer)), fmt.Append(nil, done)),
			},
		})
		if err != nil {
			return err
		}
		if out.Succeeded {
			done++
		}
	}
	return nil
}
