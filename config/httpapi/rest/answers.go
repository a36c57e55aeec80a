package rest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

// Answers bounds the bytes of answers that clients have not read yet, for each caller and for all together, so that a
// slow reader can't use up the share of staff.
type Answers struct {
	quotas
	refusals      *Budget // slots for error answers
	wait, refusal time.Duration
}

const (
	// answerCost is the overhead of an answer, in bytes: a goroutine, buffers, the request.
	answerCost = 32 << 10
	// maxRefusals bounds the unread error answers of one known caller.
	maxRefusals = 64
	// maxUnknown bounds the unread answers on a connection whose client has not authenticated.
	maxUnknown = 4
)

// How long a reader may take for each part of an answer, and for all of an error or an unauthenticated answer. The
// total time of other answers is unbounded: a slow line takes as long as it needs.
const (
	AnswerTimeout = 30 * time.Second
	AnswerPart    = 64 << 10 // bytes
	refusalWait   = 5 * time.Second
)

// NewAnswers returns Answers with a budget of limit bytes, shared as quotas describes.
func NewAnswers(limit int64) *Answers {
	return &Answers{quotas: newQuotas(limit), refusals: NewShares(4 * maxRefusals), wait: AnswerTimeout,
		refusal: refusalWait}
}

// Holder is a caller that holds part of a budget.
type Holder struct {
	Who            string
	Staff, Machine bool
}

// HolderOf returns the Holder for a caller.
func HolderOf(name string, r Role, v Via) Holder {
	machine := v == ViaCertificate
	return Holder{Who: v.Of(name), Staff: r.Includes(Operator) && !machine, Machine: machine}
}

// Acquire reserves room for an answer of size bytes until give is called. It returns false if there is none.
func (a *Answers) Acquire(h Holder, size int) (release func(), room bool) {
	n := int64(size) + answerCost
	if size <= smallSize {
		if release, room = acquireAll(h.Who, n, a.small); room {
			return release, true
		}
	}
	n = min(n, a.all.each) // the export of a large fleet is larger than the whole budget, and must go out nevertheless
	return acquireAll(h.Who, n, a.of(h)...)
}

// acquireAll acquires n from each budget, or from none.
func acquireAll(who string, n int64, of ...*Budget) (release func(), room bool) {
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

// Refuse reserves a slot for an error or an unauthenticated answer until give is called; who is "" for a client that
// has not authenticated. If there is no slot, the request has to end without an answer (http.ErrAbortHandler): its
// sender has earlier ones to read.
func (a *Answers) Refuse(ctx context.Context, who string) (release func(), room bool) {
	if who != "" {
		return acquireAll(who, 1, a.refusals)
	}
	c, ok := ctx.Value(placeKey{}).(*place)
	if !ok {
		return func() {}, true // without a bound on connections this needs none
	}
	if c.unknown.Add(1) > maxUnknown {
		c.unknown.Add(-1)
		return nil, false
	}
	return func() { c.unknown.Add(-1) }, true
}

// Write writes the body of an answer with a deadline for each part, and returns when it is written. Over HTTP/2 it
// clears the request first, which must not be read afterwards.
func (a *Answers) Write(w http.ResponseWriter, r *http.Request, body []byte, refusal bool) {
	wait := a.wait
	if refusal {
		wait = a.refusal
	}
	streams := r.ProtoMajor >= 2
	if streams {
		forget(r)
	}
	// An error means that the client has gone: there is nothing to report.
	if _, err := (Line{w, wait}).Write(body); err == nil && streams && len(body) > 0 && len(body) <= buffered {
		_ = http.NewResponseController(w).Flush() // waits for the reader here, while the answer still counts
	}
}

// buffered is how much of an HTTP/2 answer net/http buffers until the handler returns.
const buffered = 4 << 10

// forget frees the headers and URL of a request, which can be 64 KiB from a hundred bytes on the line (HPACK), and the
// unread rest of its body: the server keeps the request until its answer is read. Context and method are kept.
func forget(r *http.Request) {
	_ = r.Body.Close() // never nil in a server's request
	clear(r.Header)
	*r.URL = url.URL{}
	r.RequestURI = ""
}

// Line writes a long answer in parts, each with its own deadline.
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
