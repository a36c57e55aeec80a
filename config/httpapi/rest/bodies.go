package rest

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Bodies reads the bodies of requests within a budget of bytes, of which a caller holds what has
// come and not what it says will come. Who sends slowly takes what is its own and not what staff needs.
type Bodies struct {
	quotas
	stall time.Duration
}

// What bodies hold.
const (
	// MaxAsked is the largest body of a request that reads.
	MaxAsked = 1 << 20
)

// A body that is slower is ended: it holds a place, and bytes that others need.
const (
	bodyStall = 10 * time.Second // for …
	bodyStep  = 64 << 10         // … so many bytes, or for the end
	bodyTime  = time.Minute      // for the whole
	firstRoom = 16 << 10         // for a body, until it proves to be longer
)

// Why a body is not read.
var (
	ErrBodyTooLarge = errors.New("body: too large")
	ErrBodyCrowded  = errors.New("body: too many bytes are being uploaded at once")
	ErrBodyLost     = errors.New("body: it ended too early, or came too slowly")
)

// NewBodies has a budget of bytes, shared as quotas say.
func NewBodies(limit int64) *Bodies { return &Bodies{quotas: newQuotas(limit), stall: bodyStall} }

// Body is what the body of one request holds.
type Body struct {
	of  *Bodies
	who Holder

	mu   sync.Mutex
	held int64
	in   []*Budget
}

// Release lets go of it.
func (b *Body) Release() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release(b.in, b.held)
	b.in, b.held = nil, 0
}

// Weigh has it hold so many bytes more, for what its text becomes, if there is room.
func (b *Body) Weigh(more int64) bool { return b.grow(b.Size()+more, func() {}) }

// Size is how many bytes it holds.
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

// grow has a body hold n bytes, as copied moves it from where it was: until it has, both are held.
func (b *Body) grow(n int64, copied func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	small := []*Budget{b.of.small}
	if len(b.in) <= 1 && n <= smallSize && b.moves(small, n, copied) {
		return true
	}
	return b.moves(b.of.quotas.of(b.who), n, copied)
}

// moves is grow into some budgets.
func (b *Body) moves(to []*Budget, n int64, copied func()) bool {
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

// Read reads the body of a request of at most so many bytes. What it holds of the caller's share is
// held until Give, with an error too.
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
			if said := r.ContentLength + 1; said > int64(len(text)) { // with the byte that no end comes in
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

// Held is how many bytes are held now.
func (b *Bodies) Held() int64 { return b.small.sum() + b.all.sum() }

// paced reads what comes fast enough.
type paced struct {
	control *http.ResponseController
	from    io.Reader
	stall   time.Duration
	begun   time.Time

	since time.Time // of the step that is under way
	got   int       // bytes of it
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

// end takes the deadline away: what the server reads next is none of this body. After a body that
// was not read to its end it stays, or the server would wait for the rest.
func (p *paced) end() {
	_ = p.control.SetReadDeadline(time.Time{}) // without a connection there is none
}
