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
)

// Limits keep one caller, or many, from taking the controller away from the others.
type Limits struct {
	Rate     float64       // requests a second of one caller, in the long run; 0: as many as it can
	Burst    int           // and at once
	InFlight int           // requests under way, of all callers
	Bytes    int64         // of bodies under way, of all callers (NewBodies)
	Answers  int64         // bytes of answers under way until they are read (NewAnswers)
	Watches  int           // streams of events, which are long
	Deadline time.Duration // of one request
}

// API is what a Frame asks of the API that it is of.
type API interface {
	// Answer makes the checks of a call in the order of what they cost, and answers it.
	Answer(c *Call) (Reply, error)
	// Refused is an error as the answer.
	Refused(c *Call, err error) Reply
	// Acted is what a caller is told of a call whose answer can't be given: that it was done, "" if it was not.
	Acted(c *Call, r Reply) string
	// Shown is an answer, if what it shows may be shown.
	Shown(c *Call, r Reply) Reply
	// Audited says whether the call of a known caller goes into the audit log.
	Audited(c *Call) bool

	frame() *Frame // that it has
}

// Frame is what the controller's APIs have in common: how a request comes in, what it may take, and how its answer
// goes out and into the audit log.
type Frame struct {
	API     API
	Audit   func(Entry)
	Intent  func(e Entry, must bool) error
	Failed  func(method, path string, err error)
	TooMany func(wait time.Duration) *Problem
	Version string
	Limits  Limits
	Local   bool // requests are taken only for a name of this machine
	Zip     bool // answers are compressed for those who take it
	Bodies  *Bodies
	Answers *Answers
	Turns   *Turns
	Ending  context.Context //nolint:containedctx // of the server: streams of events end with it

	inFlight, watching *Places
	callers            *ratelimit.Buckets // by name; nil: without a bound
	origins            *http.CrossOriginProtection
	zipped             zipped
}

// NewFrame is one that tells nobody anything.
func NewFrame(l Limits) Frame {
	return Frame{Audit: func(Entry) {}, Intent: func(Entry, bool) error { return nil },
		Failed: func(string, string, error) {}, Version: "unknown", Limits: l, Ending: context.Background(),
		origins: http.NewCrossOriginProtection()}
}

func (f *Frame) frame() *Frame { return f }

// Open makes the places that requests take, once the options of an API are known.
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

// StreamDeadline ends a stream of events: whoever goes on says anew who it is.
const StreamDeadline = 5 * time.Minute

// ServeHTTP answers one request: what it is refused for, or what its row says.
func (f *Frame) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &Call{Request: r, Writer: w, Entry: NewEntry(r, time.Now())}
	defer func() { c.Holds.Release() }()
	answer := f.API.Shown(c, f.computed(c))
	if answer.Done != nil {
		defer answer.Done()
	}
	if c.Describe(answer); f.audited(c) {
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

// stream writes an answer that has no end of its own, or a long one.
func (f *Frame) stream(w http.ResponseWriter, r *http.Request, path string, answer Reply) {
	ctx := r.Context()
	var out io.Writer = Line{ResponseWriter: w, Wait: AnswerTimeout}
	if answer.Events {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, StreamDeadline)
		defer cancel()
		defer context.AfterFunc(f.Ending, cancel)()
		events := Flushing{ResponseWriter: w}
		defer events.End()
		out = events
	}
	if err := answer.Stream(ctx, out); err != nil {
		f.Failed(r.Method, path, err)
		panic(http.ErrAbortHandler) // the status is out: all that tells the caller is an answer without its end
	}
}

// audited says whether a call goes into the audit log.
func (f *Frame) audited(c *Call) bool {
	switch c.Entry.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMisdirectedRequest:
		return true
	}
	return c.known && f.API.Audited(c) // nobody's was turned away before anything was asked
}

// computed is the answer of a call that has its room until it is read: a call that reads has had its turn till then.
// What a caller asks for at once is so made one after the other, and none of it waits, made, for room.
func (f *Frame) computed(c *Call) Reply {
	defer func() {
		if c.Turn != nil {
			c.Turn.End()
		}
	}()
	return f.budgeted(c, f.answer(c))
}

// answer asks the API. A panic of a backend becomes an answer.
func (f *Frame) answer(c *Call) (out Reply) {
	defer func() {
		if v := recover(); v != nil {
			out = f.API.Refused(c, fmt.Errorf("panic: %v", v))
		}
	}()
	if p := f.foreign(c.Request); p != nil {
		return f.API.Refused(c, p)
	}
	out, err := f.API.Answer(c)
	if err != nil {
		return f.API.Refused(c, err)
	}
	return out
}

// foreign refuses what a page of another site has sent through a browser.
func (f *Frame) foreign(r *http.Request) *Problem {
	if f.Local && !LocalHost(r.Host) {
		return Refuse(TypeMisdirected,
			"Host: invalid value %s: must be localhost or a loopback address without authentication", config.Quote(r.Host))
	}
	if f.origins.Check(r) != nil {
		return Refuse(TypePermission, "Origin: requests of another site's page are refused")
	}
	return nil
}

// budgeted is an answer, if there is room for it until it is read: who does not read holds what others need.
func (f *Frame) budgeted(c *Call, r Reply) Reply {
	if !c.known || r.Stream != nil || c.Method == http.MethodHead {
		return r
	}
	give, room := f.Answers.Acquire(c.Caller.Holder(), len(r.Body))
	if !room {
		if r.Done != nil {
			r.Done()
		}
		no := f.API.Refused(c, Refuse(TypeBusy, "too many answers are on their way at once%s", f.API.Acted(c, r)))
		no.Revision = r.Revision
		return no
	}
	c.give = give
	return r
}

// deliver writes an answer that is no stream. One that has no room of its own says no, or is anybody's.
func (f *Frame) deliver(w http.ResponseWriter, asked *http.Request, c *Call, r Reply) {
	refusal := c.give == nil
	if refusal {
		who := ""
		if c.known {
			who = c.Caller.Who()
		}
		give, room := f.Answers.Refuse(asked.Context(), who)
		if !room {
			panic(http.ErrAbortHandler)
		}
		c.give = give
	}
	defer c.give()
	body := f.head(w, c, r)
	if asked.Method != http.MethodHead {
		c.Holds.Release()
		*c = Call{} // what was asked is not held while its answer waits
		f.Answers.Write(w, asked, body, refusal)
	}
}
