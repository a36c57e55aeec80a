package flows

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"edgespan/actors/node/metrics"
	"edgespan/netinst/flowlog"
	"edgespan/netinst/flowlog/ipfix"
	"edgespan/pubsub/backoff"
)

const (
	// exportWaiting is how many records wait for one destination, besides those of one network that are being sent.
	exportWaiting = 8192
	// settled is the time after which a connection works: until then, what a closed port answers has come.
	settled = time.Second
	// burst is how many messages are sent without a pause, so that they fit into the buffer of a collector's socket.
	burst      = 8
	burstPause = time.Millisecond
	// lineRoom is the most that is written to a socket at once.
	lineRoom = 1 << 16
)

// again is the pause before another connection.
var again = backoff.Backoff{First: time.Second, Max: 30 * time.Second}

// form makes messages of what is queued, for one connection.
type form interface {
	// message appends a message to an empty b, and returns how many of the list are in it.
	message(b []byte, now time.Time, list [][]byte, room int) (message []byte, taken int)
	// delivered returns how many of a message's records are in its first n octets.
	delivered(list [][]byte, n int) int
	// due is when a message is sent without records, zero for never.
	due() time.Time
	// paced reports whether the other end loses what it can't take.
	paced() bool
}

// messages are those of IPFIX. Templates are sent in the first, and again after a time unless that is 0.
type messages struct {
	ipfix.Session
	every time.Duration
	next  time.Time
	begun bool
}

func (m *messages) message(b []byte, now time.Time, list [][]byte, room int) ([]byte, int) {
	templates := !m.begun || m.every > 0 && !now.Before(m.next)
	if templates {
		m.begun, m.next = true, now.Add(m.every)
	}
	return m.Message(b, now, templates, list, room)
}

// delivered returns 0: the other end forgets half a message.
func (*messages) delivered([][]byte, int) int { return 0 }

func (m *messages) due() time.Time {
	switch {
	case !m.begun:
		return time.Unix(0, 0)
	case m.every == 0:
		return time.Time{}
	}
	return m.next
}

func (m *messages) paced() bool { return m.every > 0 }

// jsonLines are those of the log.
type jsonLines struct{}

func (jsonLines) message(b []byte, _ time.Time, list [][]byte, room int) (message []byte, taken int) {
	for _, line := range list {
		if taken > 0 && len(b)+len(line) > room {
			break
		}
		b, taken = append(b, line...), taken+1
	}
	return b, taken
}

func (jsonLines) delivered(list [][]byte, n int) (whole int) {
	for whole < len(list) && n >= len(list[whole]) {
		n -= len(list[whole])
		whole++
	}
	return whole
}

func (jsonLines) due() time.Time { return time.Time{} }
func (jsonLines) paced() bool    { return false }

// destination is where records are sent. They wait in queues that are bounded, so that nothing waits for it.
type destination struct {
	dial    func(context.Context) (Conn, error)
	newForm func() form
	lost    func(uint64) []byte // the line about so many that are missing; nil: none is sent
	report  func(error)         // the first error of several, and nil once it works again
	more    chan struct{}       // has room for one: records wait
	counts  *exportCounts
	cancel  context.CancelFunc

	sending [][]byte // of one network, taken from the queues
	buf     []byte

	mu     sync.Mutex
	queues *flowlog.Queues[[]byte]
}

// exportCounts are those of one kind of destination, also over changes of its address.
type exportCounts struct {
	mu sync.Mutex
	metrics.FlowExport
}

func (c *exportCounts) add(exported, dropped, failures int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Exported, c.Dropped, c.Failures = c.Exported+uint64(exported), c.Dropped+uint64(dropped), c.Failures+uint64(failures)
}

// setFailing returns whether that is new.
func (c *exportCounts) setFailing(failing bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.Failing
	c.Failing = failing
	return was != failing
}

func (c *exportCounts) get() metrics.FlowExport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.FlowExport
}

// start sends until ctx ends.
func (x *destination) start(ctx context.Context) {
	if x == nil {
		return
	}
	ctx, x.cancel = context.WithCancel(ctx)
	x.counts.setFailing(false)
	go x.run(ctx)
}

func (x *destination) end() {
	if x != nil {
		x.cancel()
	}
}

// put queues n records, of which record returns the network, nil for none.
func (x *destination) put(n int, record func(i int) (uuid.UUID, []byte), networks int) {
	dropped := 0
	x.mu.Lock()
	for i := range n {
		if network, r := record(i); r != nil && !x.queues.Put(network, r, networks) {
			dropped++
		}
	}
	x.mu.Unlock()
	if dropped > 0 {
		x.counts.add(0, dropped, 0)
	}
	signal(x.more)
}

// take takes records from the queues, if none are being sent.
func (x *destination) take() {
	if len(x.sending) > 0 {
		return
	}
	x.mu.Lock()
	list, lost := x.queues.Take()
	x.mu.Unlock()
	if x.sending = list; lost > 0 && x.lost != nil {
		x.sending = append([][]byte{x.lost(lost)}, list...)
	}
}

func (x *destination) run(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		worked, err := x.connect(ctx)
		if ctx.Err() != nil {
			break
		}
		if worked {
			failures = 0
		}
		failures++
		if x.counts.add(0, 0, 1); x.counts.setFailing(true) {
			x.report(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(again.After(failures)):
		}
	}
	dropped := 0
	for x.take(); len(x.sending) > 0; x.take() {
		dropped, x.sending = dropped+len(x.sending), nil
	}
	x.counts.add(0, dropped, 0)
}

// connect sends over one connection, until it fails or ctx ends. It worked if it did not fail at once.
func (x *destination) connect(ctx context.Context) (worked bool, err error) {
	conn, err := x.dial(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends a Write
	form, works := x.newForm(), time.After(settled)
	for {
		worked, err := x.send(ctx, conn, form, works)
		if err != nil || ctx.Err() != nil {
			return works == nil, err
		}
		if worked && works != nil {
			works = nil
			if x.counts.setFailing(false) {
				x.report(nil)
			}
		}
	}
}

// send sends what waits, until the connection fails, or works is due: then it checks the connection.
func (x *destination) send(ctx context.Context, conn Conn, form form, works <-chan time.Time) (worked bool, err error) {
	for n := 1; ; n++ {
		now := time.Now()
		x.take()
		if due := form.due(); len(x.sending) == 0 && (due.IsZero() || now.Before(due)) {
			break
		}
		message, taken := form.message(x.buf[:0], now, x.sending, conn.Room())
		x.buf = message
		sent, err := conn.Write(message)
		if err != nil {
			taken = form.delivered(x.sending[:taken], sent)
		}
		x.sending = x.sending[taken:]
		x.counts.add(taken, 0, 0)
		if err != nil {
			return false, err
		}
		if form.paced() && n%burst == 0 {
			time.Sleep(burstPause)
		}
		select {
		case <-works:
			return true, conn.Check()
		default:
		}
	}
	return x.wait(ctx, conn, form.due(), works)
}

// wait waits for records, for a time that is not zero, and for works.
func (x *destination) wait(ctx context.Context, conn Conn, due time.Time, works <-chan time.Time) (bool, error) {
	var until <-chan time.Time
	if !due.IsZero() {
		until = time.After(time.Until(due))
	}
	select {
	case <-ctx.Done():
	case <-x.more:
	case <-until:
	case <-works:
		return true, conn.Check()
	}
	return false, nil
}
