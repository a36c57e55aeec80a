package controller

import (
	"errors"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/pace"
	"edgespan/config/revision"
)

// saver is the leaf that stores what nodes have to keep. What comes while one transaction is
// on its way to the disk goes together in the next: a change that touches ten thousand nodes
// costs a hundred transactions, and a single node waits for nobody. A transaction that is full
// does not wait for those before it, unless it has a key of theirs: the disk syncs them together.
//
// Keys take turns, so that no node can hold others back, and what is written for one node has a
// pace: it can make the store spend no more, whatever it says (ADR 0050).
type saver struct {
	d *access

	mu     sync.Mutex
	lines  map[revision.Key]*line // that have something to do, or on its way
	ready  []*line                // those whose turn comes, in their order
	flying int                    // transactions that are on their way
	woken  chan struct{}          // has one when there is something new that is ready, or on its way
}

// line is what waits of one key.
type line struct {
	entries []entry // in the order in which they came
	flying  bool    // one of the key is on its way
	queued  bool    // it is among those that are ready, or a timer brings it there
}

const (
	mostFlying   = 4  // transactions are on their way at most
	writesAtOnce = 30 // of one node, and after that …
	writesPace   = 2  // … so many a second
	bytesAtOnce  = 256 << 10
	bytesPace    = 8 << 10 // … so many a second
	smallWrite   = 2 << 10 // a count, a standing in a rollout
)

// nodePace is what is written for one node, in all of its keys, on average. A push is four writes
// of some hundred bytes each.
var nodePace = pace.Limit{
	Writes: pace.Rate{Burst: writesAtOnce, PerSecond: writesPace}, Bytes: pace.Rate{Burst: bytesAtOnce, PerSecond: bytesPace},
	Small: smallWrite,
}

// entry is one key to be read or written for somebody.
type entry struct {
	op      revision.Op
	compare *revision.Compare // nil: whatever is there
	to      *actor.PID        // gets saved; nil: nobody
	what    int               // told back
	of      *pace.Budget      // of the node that it is for: of its entries of one key and what, only the last counts; nil: no node's
}

// saved is what became of an entry.
type saved struct {
	what int
	key  revision.Key
	done bool              // the compare held
	rev  revision.Revision // of the store then
	now  revision.Entry    // of a read, and of a key whose compare did not hold
	err  error             // it may have been done or not
}

func newSaver(d *access) *saver {
	return &saver{d: d, lines: map[revision.Key]*line{}, woken: make(chan struct{}, 1)}
}

// add queues an entry. Entries of one key are done in their order. One of a node takes the place of
// the one that waits for the same, if there is one: that one is not done, and nobody is told of it.
func (s *saver) add(e entry) (replaced bool) {
	s.mu.Lock()
	l := s.lines[e.op.Key]
	if l == nil {
		l = &line{}
		s.lines[e.op.Key] = l
	}
	if e.of != nil {
		before := len(l.entries)
		l.entries = slices.DeleteFunc(l.entries, func(o entry) bool { return o.of == e.of && o.what == e.what })
		replaced = len(l.entries) < before
	}
	l.entries = append(l.entries, e)
	s.queue(l)
	s.mu.Unlock()
	s.wake()
	return replaced
}

// queue gives a line its turn, if it has anything to do; s.mu is held.
func (s *saver) queue(l *line) {
	if !l.flying && !l.queued && len(l.entries) > 0 {
		l.queued = true
		s.ready = append(s.ready, l)
	}
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
		case <-s.d.context.Done():
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

// take is the entries of the next transaction: as many as fit, each of another key, and no key
// that is on its way already. None, where others are on their way and it would not be full.
func (s *saver) take() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying > 0 && (s.flying == mostFlying || len(s.ready) < revision.MaxOps) {
		return nil
	}
	var batch []entry
	size, n := 0, 0
	for ; n < len(s.ready) && len(batch) < revision.MaxOps; n++ {
		l := s.ready[n]
		e := l.entries[0]
		if s.early(l, e) {
			continue
		}
		one := transaction([]entry{e}).Size()
		if len(batch) > 0 && size+one > revision.MaxSize {
			break
		}
		size += one
		if e.of != nil && e.op.Kind != revision.OpGet {
			e.of.Spend(s.d.Now(), nodePace, one)
		}
		l.flying, l.queued, l.entries = true, false, l.entries[1:]
		batch = append(batch, e)
	}
	if s.ready = s.ready[n:]; len(s.ready) == 0 {
		s.ready = nil // a burst's memory is given back
	}
	if len(batch) > 0 {
		s.flying++
	}
	return batch
}

// early puts a line off whose node has had enough written for now.
func (s *saver) early(l *line, e entry) bool {
	if e.of == nil || e.op.Kind == revision.OpGet {
		return false
	}
	wait := e.of.Wait(s.d.Now(), nodePace, transaction([]entry{e}).Size())
	if wait == 0 {
		return false
	}
	s.d.after(wait, func() {
		s.mu.Lock()
		l.queued = false
		s.queue(l)
		s.mu.Unlock()
		s.wake()
	})
	return true
}

// came is the end of a transaction.
func (s *saver) came(batch []entry) {
	s.mu.Lock()
	for _, e := range batch {
		l := s.lines[e.op.Key]
		l.flying = false
		if s.queue(l); len(l.entries) == 0 {
			delete(s.lines, e.op.Key)
		}
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

// store does a batch. Where one of many does not hold its halves are tried: the others of a batch
// cost some transactions more, and not one each.
func (s *saver) store(batch []entry) {
	o, err := s.d.commit(s.d.context, transaction(batch))
	alone := err == nil && !o.Succeeded || errors.Is(err, revision.ErrNoLease) || errors.Is(err, revision.ErrTooLarge) || errors.Is(err, revision.ErrInvalid)
	if len(batch) > 1 && alone {
		s.store(batch[:len(batch)/2])
		s.store(batch[len(batch)/2:])
		return
	}
	for i, e := range batch {
		if e.to == nil {
			continue
		}
		told := saved{what: e.what, key: e.op.Key, done: err == nil && o.Succeeded, rev: o.Revision, err: err}
		if err == nil && i < len(o.Results) {
			told.now = o.Results[i].Entry
		}
		s.d.send(e.to, told)
	}
}
