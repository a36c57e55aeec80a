package storage

import (
	"errors"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/fleet/pace"
	"edgespan/config/kv"
)

// Saver is the leaf that stores the state of nodes. Entries that arrive while a transaction is on its way to the disk
// share the next one: a change that touches ten thousand nodes costs a hundred transactions, and a single node does not
// wait. A full transaction does not wait for earlier ones unless it shares a key with them: the disk syncs them
// together.
//
// Keys take turns, so that no node can hold up others, and the writes of each node are rate-limited, whatever the node
// sends (ADR 0050).
type Saver struct {
	d *Access

	mu     sync.Mutex
	lines  map[kv.Key]*line // lines with waiting entries or one in flight
	ready  []*line          // lines whose turn comes, in order
	flying int              // transactions in flight
	woken  chan struct{}    // holds a value if entries were added or a transaction ended
}

// line is the queue of one key.
type line struct {
	entries []Save // in order of arrival
	flying  bool   // an entry of the key is in flight
	queued  bool   // in Saver.ready, or a timer will put it there
}

const (
	maxFlying    = 4  // transactions in flight
	WritesAtOnce = 30 // of one node, and after that …
	WritesPace   = 2  // … this many a second
	BytesAtOnce  = 256 << 10
	BytesPace    = 8 << 10 // … this many a second
	smallWrite   = 2 << 10 // such as a count or the progress in a rollout
)

// nodePace limits the writes for one node, over all its keys. A push is four writes of some hundred bytes each.
var nodePace = pace.Limit{
	Writes: pace.Rate{Burst: WritesAtOnce, PerSecond: WritesPace},
	Bytes:  pace.Rate{Burst: BytesAtOnce, PerSecond: BytesPace},
	Small:  smallWrite,
}

// Save is a read or write of one key.
type Save struct {
	Op      kv.Op
	Compare *kv.Compare // nil: unconditional
	To      *actor.PID  // gets Saved; nil: no actor
	What    int         // copied to Saved
	// the budget of the entry's node; of a node's entries with the same key and What only the last is kept; nil: no node
	Of *pace.Budget
}

// Saved is the result of an entry.
type Saved struct {
	What int
	Key  kv.Key
	Done bool        // the compare matched
	Rev  kv.Revision // of the store after it
	Now  kv.Entry    // of a read, and of a key whose compare failed
	Err  error       // on an error the outcome is unknown
}

func newSaver(d *Access) *Saver {
	return &Saver{d: d, lines: map[kv.Key]*line{}, woken: make(chan struct{}, 1)}
}

// Add queues an entry. Entries of one key run in order. An entry of a node replaces a waiting one of that node with the
// same What, which is dropped without a Saved.
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

// queue gives a line its turn if it has waiting entries. The caller holds s.mu.
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

// run stores entries until the controller ends.
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
				s.reportSaved(batch)
			})
		}
	}
}

// next returns the entries of the next transaction: as many as fit, each of another key, none of a key in flight. It
// returns none if transactions are in flight and this one would not be full.
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
		if s.postpone(l, e) {
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
		s.ready = nil // frees the memory of a burst
	}
	if len(batch) > 0 {
		s.flying++
	}
	return batch
}

// postpone delays a line whose node has exceeded its rate.
func (s *Saver) postpone(l *line, e Save) bool {
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

// reportSaved records the end of a transaction.
func (s *Saver) reportSaved(batch []Save) {
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

// transaction builds the transaction of a batch. For a single entry whose compare fails, it reads the current value.
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

// store runs a batch. If an entry of it fails, store retries both halves: the other entries then cost a few more
// transactions, not one each.
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
