package census

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"edgespan/pubsub/ratelimit"
)

// What all readers of one kind together are shown in a second, and at once. More is counted only.
const (
	tapRate  = 200
	tapBurst = 200
)

// readers are those who follow what passes, each with an equal share of the rate. Without any, the pointer is nil.
type readers[T any] struct {
	atomic.Pointer[[]*reader[T]]
	mu sync.Mutex // held to change
}

// reader is one of them.
type reader[T any] struct {
	of      string  // what it follows
	emit    func(T) // never blocks
	dropped atomic.Uint64
	bucket  ratelimit.Bucket
}

// add adds a reader until stop is called. dropped returns how many items it was not shown since the last call.
func (r *readers[T]) add(of string, emit func(T)) (dropped func() uint64, stop func()) {
	one := &reader[T]{of: of, emit: emit, bucket: ratelimit.NewBucket(tapRate, tapBurst)}
	r.change(func(all []*reader[T]) []*reader[T] { return append(all, one) })
	return func() uint64 { return one.dropped.Swap(0) }, func() {
		r.change(func(all []*reader[T]) []*reader[T] {
			return slices.DeleteFunc(all, func(o *reader[T]) bool { return o == one })
		})
	}
}

func (r *readers[T]) change(how func([]*reader[T]) []*reader[T]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*reader[T]
	if now := r.Load(); now != nil {
		all = slices.Clone(*now)
	}
	if all = how(all); len(all) == 0 {
		r.Store(nil)
		return
	}
	for _, one := range all {
		one.bucket.Set(tapRate/float64(len(all)), tapBurst/len(all), time.Now())
	}
	r.Store(&all)
}

// admit reports whether one more item may be shown now, and counts it if not.
func (r *reader[T]) admit() bool {
	if r.bucket.Allow(time.Now()) {
		return true
	}
	r.dropped.Add(1)
	return false
}
