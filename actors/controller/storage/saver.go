package storage

import (
	"errors"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/fleet/pace"
	"edgespan/config/kv"
)

// Saver is the leaf that stores what nodes have to keep. What comes while one transaction is
// on its way to the disk goes together in the next: a change that touches ten thousand nodes
// costs a hundred transactions, and a single node waits for nobody. A transaction that is full
// does not wait for those before it, unless it has a key of theirs: the disk syncs them together.
//
// Keys take turns, so that no node can hold others back, and what is written for one node has a
// pace: it can make the store spend no more, whatever it says (ADR 0050).
type Saver struct {
	d *Access

	mu     sync.Mutex
	lines  map[kv.Key]*line // that have something to do, or on its way
	ready  []*line          // those whose turn comes, in their order
	flying int              // transactions that are on their way
	woken  chan struct{}    // has one when there is something new that is ready, or on its way
}

// line is what waits of one key.
type line struct {
	entries []Save // in the order in which they came
	flying  bool   // one of the key is on its way
	queued  bool   // it is among those that are ready, or a timer brings it there
}

const (
	maxFlying    = 4  // transactions are on their way at most
	WritesAtOnce = 30 // of one node, and after that …
	WritesPace   = 2  // … so many a second
	BytesAtOnce  = 256 << 10
	BytesPace    = 8 << 10 // … so many a second
	smallWrite   = 2 << 10 // a count, a standing in a rollout
)

// nodePace is what is written for one node, in all of its keys, on average. A push is four writes
// of some hundred bytes each.
var nodePace = pace.Limit{
	Writes: pace.Rate{Burst: WritesAtOnce, PerSecond: WritesPace},
	Bytes:  pace.Rate{Burst: BytesAtOnce, PerSecond: BytesPace},
	Small:  smallWrite,
}

// Save is one key to be read or written for somebody.
type Save struct {
	Op      kv.Op
	Compare *kv.Compare // nil: whatever is there
	To      *actor.PID  // gets saved; nil: nobody
	What    int         // told back
	// of the node that it is for: of its entries of one key and what, only the last counts; nil: no node's
	Of *pace.Budget
}

// Saved is what became of an entry.
type Saved struct {
	What int
	Key  kv.Key
	Done bool        // the compare held
	Rev  kv.Revision // of the store then
	Now  kv.Entry    // of a read, and of a key whose compare did not hold
	Err  error       // it may have been done or not
}

func newSaver(d *Access) *Saver {
	return &Saver{d: d, lines: map[kv.Key]*line{}, woken: make(chan struct{}, 1)}
}

// Add queues an entry. Entries of one key are done in their order. One of a node takes the place of
// the one that waits for the same, if there is one: that one is not done, and nobody is told of it.
func (s *Saver) Add(e Save) (replaced bool) {
	s.mu.Lock()
	l := s.lines[e.Op.Key]
	if l == nil {
		l = &line{}
		s.lines[e.Op.Key] = l
	}
	if e.Of != nil {
		before := len(l.entries)
		l.entries = slices.DeleteFunc(l.entries, func(o Save) bool { return o.Of == e.Of && o.What == e.What })
		replaced = len(l.entries) < before
	}
	l.entries = append(l.entries, e)
	s.queue(l)
	s.mu.Unlock()
	s.wake()
	return replaced
}

// queue gives a line its turn, if it has anything to do; s.mu is held.
func (s *Saver) queue(l *line) {
	if !l.flying && !l.queued && len(l.entries) > 0 {
		l.queued = true
		s.ready = append(s.ready, l)
	}
}

func (s *Saver) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// run works until the controller ends.
func (s *Saver) run() {
	for {
		select {
		case <-s.d.Context.Done():
			return
		case <-s.woken:
		}
		for batch := s.next(); len(batch) > 0; batch = s.next() {
			s.d.Leaf("save", func() {
				s.store(batch)
				s.came(batch)
			})
		}
	}
}

// next is the entries of the next transaction: as many as fit, each of another key, and no key
// that is on its way already. None, where others are on their way and it would not be full.
func (s *Saver) next() []Save {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying > 0 && (s.flying == maxFlying || len(s.ready) < kv.MaxOps) {
		return nil
	}
	var batch []Save
	size, n := 0, 0
	for ; n < len(s.ready) && len(batch) < kv.MaxOps; n++ {
		l := s.ready[n]
		e := l.entries[0]
		if s.early(l, e) {
			continue
		}
		one := transaction([]Save{e}).Size()
		if len(batch) > 0 && size+one > kv.MaxSize {
			break
		}
		size += one
		if e.Of != nil && e.Op.Kind != kv.OpGet {
			e.Of.Spend(s.d.Now(), nodePace, one)
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
func (s *Saver) early(l *line, e Save) bool {
	if e.Of == nil || e.Op.Kind == kv.OpGet {
		return false
	}
	wait := e.Of.Wait(s.d.Now(), nodePace, transaction([]Save{e}).Size())
	if wait == 0 {
		return false
	}
	s.d.After(wait, func() {
		s.mu.Lock()
		l.queued = false
		s.queue(l)
		s.mu.Unlock()
		s.wake()
	})
	return true
}

// came is the end of a transaction.
func (s *Saver) came(batch []Save) {
	s.mu.Lock()
	for _, e := range batch {
		l := s.lines[e.Op.Key]
		l.flying = false
		if s.queue(l); len(l.entries) == 0 {
			delete(s.lines, e.Op.Key)
		}
	}
	s.flying--
	s.mu.Unlock()
	s.wake()
}

// transaction does entries together; what is there is read where a compare does not hold.
func transaction(batch []Save) kv.Txn {
	var t kv.Txn
	for _, e := range batch {
		if e.Compare != nil {
			t.Compares = append(t.Compares, *e.Compare)
		}
		t.Then = append(t.Then, e.Op)
		if len(batch) == 1 {
			t.Else = append(t.Else, kv.Get(e.Op.Key))
		}
	}
	return t
}

// store does a batch. Where one of many does not hold its halves are tried: the others of a batch
// cost some transactions more, and not one each.
func (s *Saver) store(batch []Save) {
	o, err := s.d.Commit(s.d.Context, transaction(batch))
	alone := err == nil && !o.Succeeded || errors.Is(err, kv.ErrNoLease) || errors.Is(err, kv.ErrTooLarge) ||
		errors.Is(err, kv.ErrInvalid)
	if len(batch) > 1 && alone {
		s.store(batch[:len(batch)/2])
		s.store(batch[len(batch)/2:])
		return
	}
	for i, e := range batch {
		if e.To == nil {
			continue
		}
		reported := Saved{What: e.What, Key: e.Op.Key, Done: err == nil && o.Succeeded, Rev: o.Revision, Err: err}
		if err == nil && i < len(o.Results) {
			reported.Now = o.Results[i].Entry
		}
		s.d.Send(e.To, reported)
	}
}
