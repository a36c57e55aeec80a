package configdb

import (
	"context"
	"fmt"
	"sync"

	"edgespan/config/kv"
)

// freshness asks the store how new its facts are, one query at a time for all callers. A caller that arrives during a
// query gets the result of the next one: the store may have answered the current one before a write that this caller
// knows to be acknowledged.
type freshness struct {
	ask   func() (kv.Revision, error)
	woken chan struct{}   // holds a value if a caller waits
	ended <-chan struct{} // closed at the end of the replica

	mu   sync.Mutex
	next *question // the next query; nil: no caller waits
}

// question is one query to the store.
type question struct {
	done chan struct{}
	head kv.Revision // of the transaction that wrote facts/head last
	err  error
}

func newFreshness(ended <-chan struct{}, ask func() (kv.Revision, error)) *freshness {
	return &freshness{ask: ask, woken: make(chan struct{}, 1), ended: ended}
}

// newest returns the store's revision of facts/head, as of a moment after the call. It takes at most two queries.
func (f *freshness) newest(ctx context.Context) (kv.Revision, error) {
	q := f.join()
	select {
	case <-q.done:
		return q.head, q.err
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-f.ended:
		return 0, busyError("facts: this replica is shutting down")
	}
}

func (f *freshness) join() *question {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &question{done: make(chan struct{})}
		select {
		case f.woken <- struct{}{}:
		default:
		}
	}
	return f.next
}

// run answers queries until the end. It is one long-lived goroutine: at thousands of queries a second, each new one
// would pay for its stack.
func (f *freshness) run() {
	for {
		select {
		case <-f.woken:
		case <-f.ended:
			return
		}
		f.mu.Lock()
		q := f.next
		f.next = nil
		f.mu.Unlock()
		if q != nil {
			f.answer(q)
		}
	}
}

// answer runs one query. A panic of the store becomes the error of its callers.
func (f *freshness) answer(q *question) {
	defer close(q.done)
	defer func() {
		if r := recover(); r != nil {
			q.err = fmt.Errorf("read the head of the facts: panic: %v", r)
		}
	}()
	q.head, q.err = f.ask()
}
