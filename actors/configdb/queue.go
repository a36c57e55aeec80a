package configdb

import (
	"cmp"
	"errors"
	"slices"
)

// What may wait for the writes before it, of all callers; a quarter of it of one.
const (
	mostWrites     = 1024
	mostWriteBytes = 64 << 20
	ofOneCaller    = 4
)

// What is planned at once: about what one transaction has room for.
const (
	mostBatch      = 128
	mostBatchBytes = 4 << 20
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
func (w *wish) caller() string { return cmp.Or(w.request.Caller, w.request.Author) }

// line is the writes of one caller, in the order in which they came.
type line struct {
	caller string
	wishes []*wish
	bytes  int
}

// add lets a write wait, if there is room for it.
func (q *queue) add(w *wish) error {
	i := slices.IndexFunc(q.lines, func(l *line) bool { return l.caller == w.caller() })
	if q.count >= mostWrites || q.bytes+w.size > mostWriteBytes && q.count > 0 {
		return errQueued
	}
	if i < 0 {
		i = len(q.lines)
		q.lines = append(q.lines, &line{caller: w.caller()})
	}
	l := q.lines[i]
	if n := len(l.wishes); n >= mostWrites/ofOneCaller || l.bytes+w.size > mostWriteBytes/ofOneCaller && n > 0 {
		return errQueued
	}
	l.wishes, l.bytes = append(l.wishes, w), l.bytes+w.size
	q.count, q.bytes = q.count+1, q.bytes+w.size
	return nil
}

// next is what is to be planned next. It waits on until it is taken.
func (q *queue) next() (batch []*wish) {
	size := 0
	for round := 0; len(batch) < mostBatch; round++ {
		before := len(batch)
		for _, l := range q.lines {
			if round >= len(l.wishes) {
				continue
			}
			w := l.wishes[round]
			if size += w.size; len(batch) == mostBatch || size > mostBatchBytes && len(batch) > 0 {
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

// take takes out a write that is done with. It was its caller's turn, so that now it is that of all others.
func (q *queue) take(w *wish) {
	for i, l := range q.lines {
		at := slices.Index(l.wishes, w)
		if at < 0 {
			continue
		}
		l.wishes, l.bytes = slices.Delete(l.wishes, at, at+1), l.bytes-w.size
		q.count, q.bytes = q.count-1, q.bytes-w.size
		q.lines = slices.Delete(q.lines, i, i+1)
		if len(l.wishes) > 0 {
			q.lines = append(q.lines, l)
		}
		return
	}
}

// expired takes out the writes for which nobody waits any more.
func (q *queue) expired() (out []*wish) {
	for _, l := range q.lines {
		for _, w := range l.wishes {
			if w.ctx.Err() != nil {
				out = append(out, w)
			}
		}
	}
	for _, w := range out {
		q.take(w)
	}
	return out
}

// all are the writes that wait.
func (q *queue) all() (out []*wish) {
	for _, l := range q.lines {
		out = append(out, l.wishes...)
	}
	return out
}
