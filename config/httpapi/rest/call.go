package rest

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"edgespan/pubsub/trace"
)

// Caller is the authenticated sender of a request.
type Caller struct {
	Name string
	Role Role
	// Via is how the caller authenticated; "" for the controller itself.
	Via Via `json:",omitempty"`
}

// ShareKey identifies the caller for shares and turns: the same name from another source is another caller.
func (c Caller) ShareKey() string { return c.Via.Of(c.Name) }

// Holder returns the caller as the holder of a budget.
func (c Caller) Holder() Holder { return HolderOf(c.Name, c.Role, c.Via) }

// Call is one request on its way through the checks.
type Call struct {
	*http.Request
	Writer http.ResponseWriter
	Route  string // the path pattern of its route
	Caller Caller
	Entry  Entry
	Own    any   // data of its API
	Holds  *Body // the budget that its body holds; nil for none yet
	Turn   *Hold // nil until the caller has authenticated

	known bool // the caller has authenticated
	span  trace.Span
	give  func() // releases the budget of the answer; nil if none is held yet
}

// Describe records the reply in the audit entry of the call.
func (c *Call) Describe(r Reply) {
	c.Entry.Status, c.Entry.Revision = r.Status, r.Revision
	c.Entry.Caller, c.Entry.Role, c.Entry.Via = c.Caller.Name, c.Caller.Role, c.Caller.Via
}

// Deadline limits a call to the time allowed for one request.
func (f *Frame) Deadline(c *Call) context.CancelFunc {
	ctx, cancel := context.WithTimeout(c.Context(), f.Limits.Deadline)
	c.Request = c.WithContext(ctx)
	return cancel
}

// Begin admits a call of an authenticated caller, which needs the role need ("" for none), until leave is called.
func (f *Frame) Begin(c *Call, caller Caller, need Role) (leave func(), err error) {
	c.Caller, c.known = caller, true
	if !Known(c.Context(), caller.Name, caller.Role, caller.Via) {
		return nil, Refuse(TypeBusy, "too many connections of the same caller are open already")
	}
	if f.callers != nil {
		if wait := f.callers.Allow(caller.ShareKey(), c.Entry.Time); wait > 0 {
			return nil, f.TooMany(wait)
		}
	}
	if !caller.Role.Includes(need) {
		return nil, Refuse(TypePermission, "%s %s: not permitted to a %s: an %s can", c.Method, c.Route, caller.Role, need)
	}
	if leave, err = f.inFlight.Acquire(caller.Holder(), "requests"); err != nil {
		return nil, Refuse(TypeBusy, "%s", err)
	}
	ctx, turn := f.Turns.Of(c.Context(), caller.Holder())
	c.Request, c.Turn = c.WithContext(f.startSpan(ctx, c)), turn
	return leave, nil
}

// startSpan starts the span of a call that is no read, and returns the context that carries it. A caller continues a
// trace of its own by the header traceparent.
func (f *Frame) startSpan(ctx context.Context, c *Call) context.Context {
	if f.Tracer == nil || c.Method == http.MethodGet || c.Method == http.MethodHead {
		return ctx
	}
	c.span = f.Tracer.Start(trace.Parse(c.Header.Get("Traceparent")), "rest.write", trace.Server)
	if c.span.On() {
		c.Entry.Trace = c.span.Context().TraceID()
	}
	return trace.With(ctx, c.span.Context())
}

// endSpan ends the span of a call whose answer is known.
func (c *Call) endSpan() {
	if !c.span.On() {
		return
	}
	c.span.Set("http.request.method", c.Method)
	c.span.Set("http.route", c.Route)
	c.span.Set("http.response.status_code", strconv.Itoa(c.Entry.Status))
	c.span.Set("edgespan.caller", c.Caller.Name)
	if c.Entry.Revision > 0 {
		c.span.Set("edgespan.revision", strconv.FormatUint(c.Entry.Revision, 10))
	}
	if c.Entry.Status >= http.StatusBadRequest {
		c.span.Fail(http.StatusText(c.Entry.Status))
	}
	c.span.End()
}

// Watch takes a slot for a stream of events.
func (f *Frame) Watch(c *Call) (leave func(), err error) {
	if leave, err = f.watching.Acquire(c.Caller.Holder(), "watches"); err != nil {
		return nil, Refuse(TypeBusy, "%s", err)
	}
	return leave, nil
}

// ReadBody reads the body of a call, of at most limit bytes.
func (f *Frame) ReadBody(c *Call, limit int64) ([]byte, error) {
	text, held, err := f.Bodies.Read(c.Writer, c.Request, c.Caller.Holder(), limit)
	c.Holds = held
	switch {
	case errors.Is(err, ErrBodyTooLarge):
		return nil, Refuse(TypeTooLarge, "%s: must be %d MiB at most", err, limit>>20)
	case errors.Is(err, ErrBodyCrowded):
		return nil, Refuse(TypeBusy, "%s", err)
	case err != nil:
		return nil, Refuse(TypeBadRequest, "%s", err)
	}
	return text, nil
}

// Intents refuses an action that can't be written to the audit log; with must, the action is not done without its line.
func (f *Frame) RecordIntent(c *Call, must bool) error {
	e := c.Entry
	e.Caller, e.Role, e.Via, e.Begun = c.Caller.Name, c.Caller.Role, c.Caller.Via, true
	if err := f.Intent(e, must); err != nil {
		f.Failed(c.Method, c.Entry.Path, err)
		return Refuse(TypeBusy, "the audit log can't be written: nothing was done")
	}
	return nil
}
