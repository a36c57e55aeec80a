package configdb

import (
	"context"
	"fmt"
	"sync"

	"edgespan/config/kv"
)

// freshness asks the store how new its facts are, one question at a time for all who want to
// know. Whoever comes while one is under way gets the answer of the next: the store may have
// answered already, from before a write that this one has been told of.
type freshness struct {
	ask   func() (kv.Revision, error)
	woken chan struct{}   // has one when somebody waits
	ended <-chan struct{} // nobody is answered any more

	mu   sync.Mutex
	next *question // the one that is asked next; nil: nobody waits
}

// question is one question to the store.
type question struct {
	done chan struct{}
	head kv.Revision // of the transaction that wrote facts/head last
	err  error
}

func newFreshness(ended <-chan struct{}, ask func() (kv.Revision, error)) *freshness {
	return &freshness{ask: ask, woken: make(chan struct{}, 1), ended: ended}
}

// newest is the store's revision of facts/head, as of a moment after the call. It takes as long
// as two questions at most.
func (f *freshness) newest(ctx context.Context) (kv.Revision, error) {
	q := f.join()
	select {
	case <-q.done:
		return q.head, q.err
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-f.ended:
		return 0, busy("facts: this replica is shutting down")
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

// run asks whenever somebody waits, until the end. It is one goroutine that stays: thousands of questions a second
// would each pay for the stack of a new one.
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

// answer asks one question. A panic of the store is the error of those who asked.
func (f *freshness) answer(q *question) {
	defer close(q.done)
	defer func() {
		if r := recover(); r != nil {
			q.err = fmt.Errorf("read the head of the facts: panic: %v", r)
		}
	}()
	q.head, q.err = f.ask()
}
