package rest

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Bodies reads the bodies of requests within a budget of bytes. A caller is charged for the bytes that arrived, not for
// its Content-Length, so that a slow sender can't use up the share of staff.
type Bodies struct {
	quotas
	stall time.Duration
}

// Limits on bodies.
const (
	// MaxAsked is the largest body of a request that only reads.
	MaxAsked = 1 << 20
)

// A slower body is cut off, because it holds a slot and bytes that others need.
const (
	bodyStall = 10 * time.Second // the time for each step
	bodyStep  = 64 << 10         // bytes of a step, the last one excepted
	bodyTime  = time.Minute      // for the whole body
	firstRoom = 16 << 10         // reserved for a body until it proves to be longer
)

// Errors of Read.
var (
	ErrBodyTooLarge = errors.New("body: too large")
	ErrBodyCrowded  = errors.New("body: too many bytes are being uploaded at once")
	ErrBodyLost     = errors.New("body: it ended too early, or came too slowly")
)

// NewBodies returns Bodies with a budget of limit bytes, shared as quotas describes.
func NewBodies(limit int64) *Bodies { return &Bodies{quotas: newQuotas(limit), stall: bodyStall} }

// Body is the part of the budget that the body of one request holds.
type Body struct {
	of  *Bodies
	who Holder

	mu   sync.Mutex
	held int64
	in   []*Budget
}

// Release returns it to the budget.
func (b *Body) Release() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release(b.in, b.held)
	b.in, b.held = nil, 0
}

// Reserve reserves more bytes, for the parsed form of the text. It returns false if there is no room.
func (b *Body) Reserve(more int64) bool { return b.grow(b.Size()+more, func() {}) }

// Size returns how many bytes it holds.
func (b *Body) Size() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

func (b *Body) release(in []*Budget, n int64) {
	for _, budget := range in {
		budget.Release(b.who.Who, n)
	}
}

// grow reserves n bytes instead of those held so far. Both count until copied has moved the content.
func (b *Body) grow(n int64, copied func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	small := []*Budget{b.of.small}
	if len(b.in) <= 1 && n <= smallSize && b.tryMove(small, n, copied) {
		return true
	}
	return b.tryMove(b.of.quotas.of(b.who), n, copied)
}

// tryMove is grow into the given budgets.
func (b *Body) tryMove(to []*Budget, n int64, copied func()) bool {
	for i, budget := range to {
		had := int64(0)
		if slices.Contains(b.in, budget) {
			had = b.held
		}
		if !budget.acquireBeside(b.who.Who, had, n) {
			b.release(to[:i], n)
			return false
		}
	}
	copied()
	b.release(b.in, b.held)
	b.in, b.held = to, n
	return true
}

// Read reads the body of a request of at most limit bytes. The caller must call held.Release, also after an error.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request, who Holder, limit int64) (text []byte, held *Body,
	err error) {
	held = &Body{of: b, who: who}
	if r.ContentLength > limit {
		return nil, held, ErrBodyTooLarge
	}
	source := &paced{control: http.NewResponseController(w), from: http.MaxBytesReader(w, r.Body, limit), stall: b.stall,
		begun: time.Now()}
	for err == nil {
		if len(text) == cap(text) {
			room := max(2*int64(cap(text)), firstRoom)
			if said := r.ContentLength + 1; said > int64(len(text)) { // one byte more, so that the read at the end finds EOF
				room = min(room, said)
			}
			if !held.grow(room, func() { text = append(make([]byte, 0, room), text...) }) {
				return nil, held, ErrBodyCrowded
			}
		}
		var n int
		n, err = source.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
	}
	switch {
	case errors.Is(err, io.EOF):
		source.end()
		return text, held, nil
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, held, ErrBodyTooLarge
	}
	return nil, held, ErrBodyLost
}

// Held returns how many bytes are held now.
func (b *Bodies) Held() int64 { return b.small.sum() + b.all.sum() }

// paced reads a body and fails if it comes too slowly.
type paced struct {
	control *http.ResponseController
	from    io.Reader
	stall   time.Duration
	begun   time.Time

	since time.Time // start of the current step
	got   int       // bytes of the step read so far
}

func (p *paced) Read(out []byte) (int, error) {
	now := time.Now()
	if p.since.IsZero() || p.got >= bodyStep {
		p.since, p.got = now, 0
		until := p.since.Add(p.stall)
		if whole := p.begun.Add(bodyTime); whole.Before(until) {
			until = whole
		}
		if err := p.control.SetReadDeadline(until); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return 0, err
		}
	}
	n, err := p.from.Read(out)
	p.got += n
	return n, err
}

// end clears the read deadline, for the next request on the connection. After a body that was not read to its end the
// deadline remains: without it, the server would wait for the rest.
func (p *paced) end() {
	_ = p.control.SetReadDeadline(time.Time{}) // fails only without a connection
}
