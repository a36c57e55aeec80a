package controller

import (
	"errors"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/revision"
)

// saver is the leaf that stores what nodes have to keep. What comes while one transaction is
// on its way to the disk goes together in the next: a change that touches ten thousand nodes
// costs a hundred transactions, and a single node waits for nobody. A transaction that is full
// does not wait for those before it, unless it has a key of theirs: the disk syncs them together.
type saver struct {
	d *deps

	mu     sync.Mutex
	queue  []entry
	keys   map[revision.Key]bool // of the transactions that are on their way
	flying int                   // how many these are
	woken  chan struct{}         // has one when there is something new in the queue, or on its way
}

// mostFlying is how many transactions are on their way at most.
const mostFlying = 4

// entry is one key to be read or written for somebody.
type entry struct {
	op      revision.Op
	compare *revision.Compare // nil: whatever is there
	to      *actor.PID        // gets saved; nil: nobody
	what    int               // told back
}

// saved is what became of an entry.
type saved struct {
	what int
	done bool              // the compare held
	rev  revision.Revision // of the store then
	now  revision.Entry    // of a read, and of a key whose compare did not hold
	err  error             // it may have been done or not
}

func newSaver(d *deps) *saver {
	return &saver{d: d, keys: map[revision.Key]bool{}, woken: make(chan struct{}, 1)}
}

// add queues an entry. Entries of one key are done in their order.
func (s *saver) add(e entry) {
	s.mu.Lock()
	s.queue = append(s.queue, e)
	s.mu.Unlock()
	s.wake()
}

func (s *saver) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// run works until the controller ends.
func (s *saver) run() {
	for {
		select {
		case <-s.d.ctx.Done():
			return
		case <-s.woken:
		}
		for batch := s.take(); len(batch) > 0; batch = s.take() {
			s.d.leaf("save", func() {
				s.store(batch)
				s.came(batch)
			})
		}
	}
}

// take is the entries of the next transaction: as many as fit, and no key that is on its way
// already. None, where others are on their way and it would not be full.
func (s *saver) take() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying > 0 && (s.flying == mostFlying || len(s.queue) < revision.MaxOps) {
		return nil
	}
	size, n := 0, 0
	for ; n < len(s.queue) && n < revision.MaxOps; n++ {
		e := s.queue[n]
		size += transaction([]entry{e}).Size()
		if s.keys[e.op.Key] || n > 0 && size > revision.MaxSize {
			break
		}
		s.keys[e.op.Key] = true
	}
	if n == 0 {
		return nil
	}
	s.flying++
	batch := s.queue[:n:n]
	if s.queue = s.queue[n:]; len(s.queue) == 0 {
		s.queue = nil // a burst's memory is given back
	}
	return batch
}

// came is the end of a transaction.
func (s *saver) came(batch []entry) {
	s.mu.Lock()
	for _, e := range batch {
		delete(s.keys, e.op.Key)
	}
	s.flying--
	s.mu.Unlock()
	s.wake()
}

// transaction does entries together; what is there is read where a compare does not hold.
func transaction(batch []entry) revision.Txn {
	var t revision.Txn
	for _, e := range batch {
		if e.compare != nil {
			t.Compares = append(t.Compares, *e.compare)
		}
		t.Then = append(t.Then, e.op)
		if len(batch) == 1 {
			t.Else = append(t.Else, revision.Get(e.op.Key))
		}
	}
	return t
}

// store does a batch. Where one of many does not hold each is tried alone.
func (s *saver) store(batch []entry) {
	o, err := s.d.commit(s.d.ctx, transaction(batch))
	alone := err == nil && !o.Succeeded || errors.Is(err, revision.ErrNoLease) || errors.Is(err, revision.ErrTooLarge) || errors.Is(err, revision.ErrInvalid)
	if len(batch) > 1 && alone {
		for _, e := range batch {
			s.store([]entry{e})
		}
		return
	}
	for i, e := range batch {
		if e.to == nil {
			continue
		}
		told := saved{what: e.what, done: err == nil && o.Succeeded, rev: o.Revision, err: err}
		if err == nil && i < len(o.Results) {
			told.now = o.Results[i].Entry
		}
		s.d.system.Root.Send(e.to, told)
	}
}
