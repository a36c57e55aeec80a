package configdb

import (
	"cmp"
	"errors"
	"slices"
)

// Bounds on waiting writes of all callers; one caller may use a quarter.
const (
	maxWrites     = 1024
	maxWriteBytes = 64 << 20
	maxOfCaller   = 4
)

// Bounds on a batch: about what fits into one transaction.
const (
	maxBatch      = 128
	maxBatchBytes = 4 << 20
)

// errQueued reports that the queue is full.
var errQueued = errors.New("too many pending writes")

// queue is the waiting writes, served round-robin by caller: however many one caller has, those of another wait for one
// of them. The zero value is an empty queue.
type queue struct {
	lines []*line // in the order of their turn; none is empty
	count int
	bytes int
}

// caller returns whose turn a write takes.
func (w *pendingWrite) caller() string { return cmp.Or(w.request.Caller, w.request.Author) }

// line is the writes of one caller, in order of arrival.
type line struct {
	caller string
	writes []*pendingWrite
	bytes  int
}

// add queues a write if there is room.
func (q *queue) add(w *pendingWrite) error {
	i := slices.IndexFunc(q.lines, func(l *line) bool { return l.caller == w.caller() })
	if q.count >= maxWrites || q.bytes+w.size > maxWriteBytes && q.count > 0 {
		return errQueued
	}
	if i < 0 {
		i = len(q.lines)
		q.lines = append(q.lines, &line{caller: w.caller()})
	}
	l := q.lines[i]
	if n := len(l.writes); n >= maxWrites/maxOfCaller || l.bytes+w.size > maxWriteBytes/maxOfCaller && n > 0 {
		return errQueued
	}
	l.writes, l.bytes = append(l.writes, w), l.bytes+w.size
	q.count, q.bytes = q.count+1, q.bytes+w.size
	return nil
}

// next returns the next batch. Its writes remain queued until remove.
func (q *queue) next() (batch []*pendingWrite) {
	size := 0
	for round := 0; len(batch) < maxBatch; round++ {
		before := len(batch)
		for _, l := range q.lines {
			if round >= len(l.writes) {
				continue
			}
			w := l.writes[round]
			if size += w.size; len(batch) == maxBatch || size > maxBatchBytes && len(batch) > 0 {
				return batch
			}
			batch = append(batch, w)
		}
		if len(batch) == before {
			return batch
		}
	}
	return batch
}

// remove removes a finished write. Its caller's turn then comes last.
func (q *queue) remove(w *pendingWrite) {
	for i, l := range q.lines {
		at := slices.Index(l.writes, w)
		if at < 0 {
			continue
		}
		l.writes, l.bytes = slices.Delete(l.writes, at, at+1), l.bytes-w.size
		q.count, q.bytes = q.count-1, q.bytes-w.size
		q.lines = slices.Delete(q.lines, i, i+1)
		if len(l.writes) > 0 {
			q.lines = append(q.lines, l)
		}
		return
	}
}

// takeExpired removes and returns the writes whose callers no longer wait.
func (q *queue) takeExpired() (out []*pendingWrite) {
	for _, l := range q.lines {
		for _, w := range l.writes {
			if w.ctx.Err() != nil {
				out = append(out, w)
			}
		}
	}
	for _, w := range out {
		q.remove(w)
	}
	return out
}

// takeAll returns the waiting writes.
func (q *queue) takeAll() (out []*pendingWrite) {
	for _, l := range q.lines {
		out = append(out, l.writes...)
	}
	return out
}
