package shell

import (
	"context"
	"sync"

	"github.com/asynkron/protoactor-go/remote"
)

// maxQueued bounds the octets that wait for one shell. A single message may be longer if nothing else waits.
const maxQueued = 128 << 10

// queue holds what waits for one shell.
type queue struct {
	mu      sync.Mutex
	all     []queued
	size    int
	changed chan struct{} // closed and replaced at each change
}

type queued struct {
	m    *remote.RemoteMessage
	size int
}

func newQueue() *queue { return &queue{changed: make(chan struct{})} }

// offer adds a message if there is room for it. wait is closed when there may be.
func (q *queue) offer(m *remote.RemoteMessage, size int) (added bool, wait <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.size > 0 && q.size+size > maxQueued {
		return false, q.changed
	}
	q.all = append(q.all, queued{m, size})
	q.size += size
	q.change()
	return true, nil
}

func (q *queue) change() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// add adds a message, after it has waited for room.
func (q *queue) add(ctx context.Context, m *remote.RemoteMessage, size int) error {
	for {
		added, wait := q.offer(m, size)
		if added {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take returns the first messages as one. They take up room until sent is called.
func (q *queue) take(ctx context.Context) (m *remote.RemoteMessage, sent func(), err error) {
	for {
		q.mu.Lock()
		if len(q.all) > 0 {
			m, size := q.first()
			q.mu.Unlock()
			return m, func() {
				q.mu.Lock()
				defer q.mu.Unlock()
				q.size -= size
				q.change()
			}, nil
		}
		wait := q.changed
		q.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// first takes as many messages out as one may have.
func (q *queue) first() (m *remote.RemoteMessage, size int) {
	n := 0
	for n < min(len(q.all), maxBatch) && (n == 0 || size+q.all[n].size <= maxQueued) {
		size += q.all[n].size
		if n == 0 {
			m = q.all[0].m
		} else {
			m.GetMessageBatch().Envelopes = append(m.GetMessageBatch().Envelopes, q.all[n].m.GetMessageBatch().Envelopes...)
		}
		q.all[n] = queued{}
		n++
	}
	q.all = q.all[n:]
	return m, size
}
