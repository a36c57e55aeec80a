package nodelink

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
)

// Limits of one stream's queue.
const (
	maxWaiting = 64       // messages
	maxOctets  = 32 << 20 // of all waiting messages
)

// Errors of Send.
var (
	ErrClosed = errors.New("stream closed")
	ErrFull   = errors.New("too much data pending on this stream")
)

// class determines which queued messages a new one replaces.
type class int

const (
	lasting class = iota // replaces nothing
	desired              // Push, Number: only the newest is desired
	state                // Report, Spread: only the newest state counts
	delta                // the differences from the last complete Report: replaces an older one
)

// outbox holds the messages to be written to one stream. put never blocks; a goroutine writes while messages are queued
// and ends with the last one, so that an idle stream costs none.
type outbox struct {
	write func(m proto.Message) error // whole message; may block as long as the peer does not read

	mu      sync.Mutex
	queue   []waiting
	octets  int
	writing time.Time // when the current write began; zero: none
	idle    chan struct{}
	closed  error
	now     func() time.Time
}

type waiting struct {
	m     proto.Message
	class class
	size  int
}

func newOutbox(now func() time.Time, write func(proto.Message) error) *outbox {
	return &outbox{write: write, now: now}
}

// put queues a message whose size was checked.
func (o *outbox) put(m proto.Message, c class) error {
	size := proto.Size(m)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed != nil {
		return o.closed
	}
	if c != lasting {
		o.drop(c)
	}
	if len(o.queue) >= maxWaiting || o.octets+size > maxOctets {
		return fmt.Errorf("%w: %d messages of %d bytes", ErrFull, len(o.queue), o.octets)
	}
	o.queue = append(o.queue, waiting{m, c, size})
	o.octets += size
	if o.writing.IsZero() {
		o.writing = o.now()
		o.idle = make(chan struct{})
		go o.run(o.idle)
	}
	return nil
}

func (o *outbox) drop(c class) {
	kept := o.queue[:0]
	for _, w := range o.queue {
		if w.class == c || c == state && w.class == delta {
			o.octets -= w.size
			continue
		}
		kept = append(kept, w)
	}
	clear(o.queue[len(kept):])
	o.queue = kept
}

func (o *outbox) run(idle chan struct{}) {
	defer close(idle)
	for {
		m := o.next()
		if m == nil {
			return
		}
		if err := o.write(m); err != nil {
			o.close(fmt.Errorf("%w: %w", ErrClosed, err))
		}
	}
}

// next takes the first message, or ends the goroutine: both under one lock, so that no message is left without a
// writer.
func (o *outbox) next() proto.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 || o.closed != nil {
		o.writing = time.Time{}
		o.queue, o.octets = nil, 0 // an idle stream keeps no array
		return nil
	}
	w := o.queue[0]
	o.queue[0] = waiting{}
	o.queue, o.octets = o.queue[1:], o.octets-w.size
	o.writing = o.now()
	return w.m
}

// close refuses further messages and drops the queued ones; the first cause is kept.
func (o *outbox) close(cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed == nil {
		o.closed = cause
	}
}

// blockedFor returns for how long the current write has been blocked.
func (o *outbox) blockedFor(now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing.IsZero() {
		return 0
	}
	return now.Sub(o.writing)
}

// flushed is closed once no write is in progress; nil if there never was one.
func (o *outbox) flushed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.idle
}
