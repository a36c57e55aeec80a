package rest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// Answers bounds what answers hold until their readers have taken them: bytes of all callers and of
// each, so that who does not read takes what is its own and not what staff needs.
type Answers struct {
	quotas
	refusals      *Budget // places of answers that say no
	wait, refusal time.Duration
}

const (
	// answerCost is what an answer holds beside its bytes: a goroutine, buffers, the request.
	answerCost = 32 << 10
	// maxRefusals is how many of one known caller may wait for it to read them.
	maxRefusals = 64
	// maxUnknown is how many answers may wait on one connection whose client has not said who it is.
	maxUnknown = 4
)

// How long a reader may take for each part of an answer, and for all of one that says no or that anybody
// may have. The whole of an answer has no bound: over a thin line it takes as long as it takes.
const (
	AnswerTimeout = 30 * time.Second
	AnswerPart    = 64 << 10 // bytes
	refusalWait   = 5 * time.Second
)

// NewAnswers has a budget of bytes, shared as quotas say.
func NewAnswers(limit int64) *Answers {
	return &Answers{quotas: newQuotas(limit), refusals: NewShares(4 * maxRefusals), wait: AnswerTimeout,
		refusal: refusalWait}
}

// Holder is who holds what is bounded.
type Holder struct {
	Who            string
	Staff, Machine bool
}

// HolderOf is a caller as one who holds something.
func HolderOf(name string, r Role, v Via) Holder {
	machine := v == ViaCertificate
	return Holder{Who: v.Of(name), Staff: r.May(Operator) && !machine, Machine: machine}
}

// Acquire holds what an answer of so many bytes takes, until give is called. False is that there is no room.
func (a *Answers) Acquire(h Holder, size int) (give func(), room bool) {
	n := int64(size) + answerCost
	if size <= smallSize {
		if give, room = acquireAll(h.Who, n, a.small); room {
			return give, true
		}
	}
	n = min(n, a.all.each) // the export of a large fleet has more than all of it, and goes out nevertheless
	return acquireAll(h.Who, n, a.of(h)...)
}

// acquireAll holds n of each of some budgets, or nothing.
func acquireAll(who string, n int64, of ...*Budget) (give func(), room bool) {
	for i, b := range of {
		if !b.Acquire(who, n) {
			for _, had := range of[:i] {
				had.Release(who, n)
			}
			return nil, false
		}
	}
	return func() {
		for _, b := range of {
			b.Release(who, n)
		}
	}, true
}

// Refuse holds the place of an answer that says no, or that anybody may have, until give is called: who
// is "" for a client that has not said who it is. Where there is no place, the request has to end without
// an answer (http.ErrAbortHandler): its sender has those before it to read.
func (a *Answers) Refuse(ctx context.Context, who string) (give func(), room bool) {
	if who != "" {
		return acquireAll(who, 1, a.refusals)
	}
	c, is := ctx.Value(placeKey{}).(*place)
	if !is {
		return func() {}, true // where connections have no bound there is nobody to fear
	}
	if c.unknown.Add(1) > maxUnknown {
		c.unknown.Add(-1)
		return nil, false
	}
	return func() { c.unknown.Add(-1) }, true
}

// Write writes the body of an answer to a reader that takes each part of it in time, and returns when
// it has. What the request held is forgotten before: nothing may be asked of it then.
func (a *Answers) Write(w http.ResponseWriter, r *http.Request, body []byte, refusal bool) {
	wait := a.wait
	if refusal {
		wait = a.refusal
	}
	streams := r.ProtoMajor >= 2
	if streams {
		forget(r)
	}
	// The peer may have gone: nobody is left to tell.
	if _, err := (Line{w, wait}).Write(body); err == nil && streams && len(body) > 0 && len(body) <= buffered {
		_ = http.NewResponseController(w).Flush() // it waits for its reader here, not when it counts no more
	}
}

// buffered is how much of an answer net/http keeps until the handler has ended, in HTTP/2.
const buffered = 4 << 10

// forget lets go of what a request has said, which is up to 64 KiB in a hundred bytes of the line (HPACK),
// and of what has come of a body that was not read: the server keeps the request until its answer is
// taken. Its context and method stay.
func forget(r *http.Request) {
	_ = r.Body.Close() // there is nobody to tell: a server's request always has one
	clear(r.Header)
	*r.URL = url.URL{}
	r.RequestURI = ""
}

// Line writes a long answer in parts, each with a deadline of its own.
type Line struct {
	http.ResponseWriter
	Wait time.Duration
}

func (l Line) Write(p []byte) (n int, err error) {
	c := http.NewResponseController(l.ResponseWriter)
	for len(p) > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(l.Wait)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return n, err
		}
		m, err := l.ResponseWriter.Write(p[:min(len(p), AnswerPart)])
		if n += m; err != nil {
			return n, err
		}
		p = p[m:]
	}
	return n, nil
}
