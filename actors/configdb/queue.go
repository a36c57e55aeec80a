package configdb

import (
	"cmp"
	"errors"
	"slices"
)

// What may wait for the writes before it, of all callers; a quarter of it of one.
const (
	maxWrites     = 1024
	maxWriteBytes = 64 << 20
	ofOneCaller   = 4
)

// What is planned at once: about what one transaction has room for.
const (
	maxBatch      = 128
	maxBatchBytes = 4 << 20
)

// errQueued is why no more writes may wait.
var errQueued = errors.New("too many pending writes")

// queue is the writes that wait, served in turn: one of each caller, then the next of each. However many one has,
// those of another wait for one of them. The zero value is empty.
type queue struct {
	lines []*line // by whose turn it is; none is empty
	count int
	bytes int
}

// caller is in whose turn a write is done.
func (w *pendingWrite) caller() string { return cmp.Or(w.request.Caller, w.request.Author) }

// line is the writes of one caller, in the order in which they came.
type line struct {
	caller string
	writes []*pendingWrite
	bytes  int
}

// add lets a write wait, if there is room for it.
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
	if n := len(l.writes); n >= maxWrites/ofOneCaller || l.bytes+w.size > maxWriteBytes/ofOneCaller && n > 0 {
		return errQueued
	}
	l.writes, l.bytes = append(l.writes, w), l.bytes+w.size
	q.count, q.bytes = q.count+1, q.bytes+w.size
	return nil
}

// next is what is to be planned next. It waits on until it is taken.
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

// remove takes out a write that is done with. It was its caller's turn, so that now it is that of all others.
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

// expired takes out the writes for which nobody waits any more.
func (q *queue) expired() (out []*pendingWrite) {
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

// all are the writes that wait.
func (q *queue) all() (out []*pendingWrite) {
	for _, l := range q.lines {
		out = append(out, l.writes...)
	}
	return out
}
