package rest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"edgespan/config"
	"edgespan/pubsub/ratelimit"
	"edgespan/pubsub/trace"
)

// Limits keep callers from using up the controller's resources.
type Limits struct {
	Rate     float64       // requests a second of one caller; 0: unlimited
	Burst    int           // burst of requests of one caller
	InFlight int           // concurrent requests of all callers
	Bytes    int64         // of bodies being received, of all callers (NewBodies)
	Answers  int64         // bytes of answers that are not read yet (NewAnswers)
	Watches  int           // concurrent streams of events
	Deadline time.Duration // of one request
}

// API is what a Frame needs from its API.
type API interface {
	// Answer runs the checks of a call, the cheapest first, and answers it.
	Answer(c *Call) (Reply, error)
	// Refused returns the answer for an error.
	Refused(c *Call, err error) Reply
	// Acted returns what to add to the error of a call that was done but whose answer can't be sent; "" if it was not
	// done.
	Acted(c *Call, r Reply) string
	// Shown returns the reply, or a refusal if its content may not be shown.
	Shown(c *Call, r Reply) Reply
	// Audited reports whether the call of an authenticated caller goes to the audit log.
	Audited(c *Call) bool

	frame() *Frame // its Frame
}

// Frame is the common part of the controller's APIs: how a request is read, what limits apply to it, and how its answer
// is sent and audited.
type Frame struct {
	API     API
	Audit   func(Entry)
	Intent  func(e Entry, must bool) error
	Failed  func(method, path string, err error)
	Observe func(method, route string, status int, took time.Duration)
	TooMany func(wait time.Duration) *Problem
	Tracer  *trace.Tracer // of calls that are no reads; nil: no traces
	Version string
	Limits  Limits
	Local   bool // accept only requests whose Host names this machine
	Zip     bool // compress answers for clients that accept it
	Bodies  *Bodies
	Answers *Answers
	Turns   *Turns
	Ending  context.Context //nolint:containedctx // of the server: streams of events end with it

	inFlight, watching *Places
	callers            *ratelimit.Buckets // by name; nil: unlimited
	origins            *http.CrossOriginProtection
	zipped             zipped
}

// NewFrame returns a Frame without audit log or other observers.
func NewFrame(l Limits) Frame {
	return Frame{Audit: func(Entry) {}, Intent: func(Entry, bool) error { return nil },
		Failed: func(string, string, error) {}, Observe: func(string, string, int, time.Duration) {},
		Version: "unknown", Limits: l, Ending: context.Background(),
		origins: http.NewCrossOriginProtection()}
}

func (f *Frame) frame() *Frame { return f }

// Open prepares a Frame after the options of the API are set; absent has the defaults of its limits.
func (f *Frame) Open(a API, absent Limits) {
	f.API = a
	f.inFlight, f.watching = NewPlaces(f.Limits.InFlight), NewPlaces(cmp.Or(max(f.Limits.Watches, 0), absent.Watches))
	f.Turns = NewTurns()
	if f.Answers == nil {
		f.Answers = NewAnswers(cmp.Or(f.Limits.Answers, absent.Answers))
	}
	if f.Bodies == nil {
		f.Bodies = NewBodies(cmp.Or(f.Limits.Bytes, absent.Bytes))
	}
	if f.Limits.Rate > 0 {
		f.callers = ratelimit.NewBuckets(f.Limits.Rate, f.Limits.Burst)
	}
}

// StreamDeadline ends a stream of events: the client reconnects and authenticates again.
const StreamDeadline = 5 * time.Minute

// ServeHTTP answers one request.
func (f *Frame) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	c := &Call{Request: r, Writer: w, Entry: NewEntry(r, began)}
	defer func() { c.Holds.Release() }()
	answer := f.API.Shown(c, f.compute(c))
	if answer.Done != nil {
		defer answer.Done()
	}
	c.Describe(answer)
	c.endSpan()
	f.Observe(r.Method, c.Route, c.Entry.Status, time.Since(began))
	if f.isAudited(c) {
		f.Audit(c.Entry)
	}
	if answer.Stream == nil {
		f.deliver(w, r, c, answer)
		return
	}
	f.head(w, c, answer)
	if r.Method != http.MethodHead {
		f.stream(w, r, c.Entry.Path, answer)
	}
}

// stream writes a reply that is endless or long.
func (f *Frame) stream(w http.ResponseWriter, r *http.Request, path string, answer Reply) {
	ctx := r.Context()
	var out io.Writer = Line{ResponseWriter: w, Wait: AnswerTimeout}
	if answer.Live {
		live := FlushingWriter{ResponseWriter: w}
		defer live.End()
		out = live
	}
	if answer.Events {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, StreamDeadline)
		defer cancel()
		defer context.AfterFunc(f.Ending, cancel)()
		events := FlushingWriter{ResponseWriter: w}
		defer events.End()
		out = events
	}
	if err := answer.Stream(ctx, out); err != nil {
		f.Failed(r.Method, path, err)
		panic(http.ErrAbortHandler) // the status was sent: only a cut-off answer can report the error
	}
}

// isAudited reports whether a call goes to the audit log.
func (f *Frame) isAudited(c *Call) bool {
	switch c.Entry.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMisdirectedRequest:
		return true
	}
	return c.known && f.API.Audited(c) // without authentication it was refused before the API was called
}

// compute returns the answer of a call, with its room reserved. The call keeps its turn until then, so that the
// concurrent requests of one caller are computed one after the other, and no computed answer waits for room.
func (f *Frame) compute(c *Call) Reply {
	defer func() {
		if c.Turn != nil {
			c.Turn.End()
		}
	}()
	return f.withBudget(c, f.answer(c))
}

// answer calls the API. A panic becomes an error answer.
func (f *Frame) answer(c *Call) (out Reply) {
	defer func() {
		if v := recover(); v != nil {
			out = f.API.Refused(c, fmt.Errorf("panic: %v", v))
		}
	}()
	if p := f.checkOrigin(c.Request); p != nil {
		return f.API.Refused(c, p)
	}
	out, err := f.API.Answer(c)
	if err != nil {
		return f.API.Refused(c, err)
	}
	return out
}

// checkOrigin refuses requests that a page of another site sends through a browser.
func (f *Frame) checkOrigin(r *http.Request) *Problem {
	if f.Local && !LocalHost(r.Host) {
		return Refuse(TypeMisdirected,
			"Host: invalid value %s: must be localhost or a loopback address without authentication", config.Quote(r.Host))
	}
	if f.origins.Check(r) != nil {
		return Refuse(TypePermission, "Origin: requests of another site's page are refused")
	}
	return nil
}

// withBudget returns the reply if there is room for it until it is read, because an unread answer uses memory that
// others need.
func (f *Frame) withBudget(c *Call, r Reply) Reply {
	if !c.known || r.Stream != nil || c.Method == http.MethodHead {
		return r
	}
	release, room := f.Answers.Acquire(c.Caller.Holder(), len(r.Body))
	if !room {
		if r.Done != nil {
			r.Done()
		}
		no := f.API.Refused(c, Refuse(TypeBusy, "too many answers are on their way at once%s", f.API.Acted(c, r)))
		no.Revision = r.Revision
		return no
	}
	c.give = release
	return r
}

// deliver writes a reply that is no stream. One without reserved room is an error or an unauthenticated answer.
func (f *Frame) deliver(w http.ResponseWriter, asked *http.Request, c *Call, r Reply) {
	refusal := c.give == nil
	if refusal {
		who := ""
		if c.known {
			who = c.Caller.ShareKey()
		}
		release, room := f.Answers.Refuse(asked.Context(), who)
		if !room {
			panic(http.ErrAbortHandler)
		}
		c.give = release
	}
	defer c.give()
	body := f.head(w, c, r)
	if asked.Method != http.MethodHead {
		c.Holds.Release()
		*c = Call{} // frees the request while its answer waits for the reader
		f.Answers.Write(w, asked, body, refusal)
	}
}
