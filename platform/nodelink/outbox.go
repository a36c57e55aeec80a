package nodelink

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
)

// What one stream may have waiting.
const (
	maxWaiting = 64       // messages
	maxOctets  = 32 << 20 // of all waiting messages
)

// Errors of Send.
var (
	ErrClosed = errors.New("stream closed")
	ErrFull   = errors.New("too much data pending on this stream")
)

// class says which waiting messages a new one takes the place of.
type class int

const (
	lasting class = iota // of nothing
	desired              // Push, Number: the newest wish wins
	state                // Report, Spread: the newest state is the state
	delta                // what differs from the last whole Report: in the place of an older one
)

// outbox is what waits to be written to one stream. Put never blocks; a goroutine writes
// while there is something and ends with the last message, so that an idle stream costs none.
type outbox struct {
	write func(m proto.Message) error // whole message; may block as long as the peer does not read

	mu      sync.Mutex
	queue   []waiting
	octets  int
	writing time.Time // since when the goroutine writes one message; zero: there is none
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

// next takes the first message, or ends the goroutine's time: both under one lock, so that
// no message is left without a writer.
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

// close refuses what is put from now on and forgets what waits; the first cause stays.
func (o *outbox) close(cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed == nil {
		o.closed = cause
	}
}

// stalled is for how long the present message could not be written.
func (o *outbox) stalled(now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing.IsZero() {
		return 0
	}
	return now.Sub(o.writing)
}

// flushed is closed once nothing is being written; nil if nothing ever was.
func (o *outbox) flushed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.idle
}
