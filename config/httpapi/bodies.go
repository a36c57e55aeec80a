package httpapi

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Bodies reads the bodies of requests within a budget of bytes, of which a caller holds what has
// come and not what it says will come.
type Bodies struct {
	budget *Budget
	stall  time.Duration
}

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

// NewBodies has a budget of bytes, a quarter of them for one caller.
func NewBodies(most int64) *Bodies { return &Bodies{budget: NewBudget(most), stall: bodyStall} }

// Read reads the body of a request of at most so many bytes. What it holds of the caller's share is
// held until Give, with an error too.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request, caller string, most int64) (text []byte, held int64, err error) {
	if r.ContentLength > most {
		return nil, 0, ErrBodyTooLarge
	}
	source := &paced{control: http.NewResponseController(w), from: http.MaxBytesReader(w, r.Body, most), stall: b.stall, begun: time.Now()}
	for err == nil {
		if len(text) == cap(text) {
			room := max(2*int64(cap(text)), firstRoom)
			if said := r.ContentLength + 1; said > int64(len(text)) { // with the byte that no end comes in
				room = min(room, said)
			}
			if !b.budget.Take(caller, room) { // the old room is held until its bytes are in the new one
				return nil, held, ErrBodyCrowded
			}
			text = append(make([]byte, 0, room), text...)
			b.budget.Give(caller, held)
			held = room
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

// Give lets go of what a body held.
func (b *Bodies) Give(caller string, held int64) {
	if held > 0 {
		b.budget.Give(caller, held)
	}
}

// Held is how many bytes are held now.
func (b *Bodies) Held() int64 {
	b.budget.mu.Lock()
	defer b.budget.mu.Unlock()
	return b.budget.all
}

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
