package fleetapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
)

// Limits keep one caller, or many, from taking the controller away from the others.
type Limits = rest.Limits

// DefaultLimits are those of a Handler that was given none.
var DefaultLimits = Limits{Rate: 100, Burst: 400, InFlight: 256, Bytes: 256 << 20, Answers: 256 << 20, Watches: 64,
	Deadline: 2 * time.Minute}

// MaxBody is the largest body of a request, in bytes.
const MaxBody = 16 << 20

// readyDeadline bounds /readyz, which anybody may ask: its answer counts for readyAgain, so that the
// store is read four times a second at most.
const (
	readyDeadline = time.Second
	readyAgain    = 250 * time.Millisecond
)

// readiness is the last answer of a backend to whether it is ready.
type readiness struct {
	mu  sync.Mutex // who comes while it is asked waits for the answer
	at  time.Time
	err error
}

// ask is why a backend is not ready, and whether it was asked for that.
func (r *readiness) ask(b Backend) (asked bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := time.Since(r.at); d < 0 || d >= readyAgain {
		ctx, cancel := context.WithTimeout(context.Background(), readyDeadline) // for all who wait, whoever of them leaves
		defer cancel()
		r.err = b.Ready(ctx)
		r.at, asked = time.Now(), true
	}
	return asked, r.err
}

// Option changes a Handler.
type Option = rest.Option

// WithTokens makes operator tokens known by their hash (platform/pki.OperatorTokenHash). A
// Handler without it and without WithNoAuth refuses everybody.
func WithTokens(hash func(text string) (string, error)) Option {
	return func(a rest.API) { a.(*api).hash = hash }
}

// WithNoAuth makes every caller the admin "local", and takes requests only for a name of this
// machine, so that no page on the web can ask by a name of its own that resolves to here.
func WithNoAuth() Option { return func(a rest.API) { a.(*api).Local = true } }

// WithAuthLimiter shares the count of failed guesses with other doors of the same listener.
func WithAuthLimiter(g *rest.AuthLimiter) Option { return func(a rest.API) { a.(*api).limiter = g } }

// WithWarnings has /readyz tell, to whoever asks, what a person should look at.
func WithWarnings(f func() []string) Option { return func(a rest.API) { a.(*api).warnings = f } }

// Entry is one line of the audit log.
type Entry = rest.Entry

type api struct {
	rest.Frame
	backend  Backend
	rows     []row
	hash     func(string) (string, error)
	warnings func() []string
	end      context.CancelFunc // of the streams of events
	ready    readiness
	// described is made once: who has no token may ask for it, and each answer that is not read holds it.
	described func() (reply, error)
	limiter   *rest.AuthLimiter // of who failed to say who it is, by address
}

// call is one request on its way through the checks.
type call struct {
	*rest.Call
	row    *row
	values map[string]string     // of the {segments}
	texts  map[string]string     // of the query
	flags  map[string]bool       //
	nums   map[string]uint64     //
	lists  map[string][]string   //
	paths  map[string][][]string // lists of paths; one path is a list of one
	body   config.Object
}

// own is a call as this API has it.
func own(c *rest.Call) *call { return c.Own.(*call) }

// Handler serves the routes from b. Every answer is JSON, or lines or events of it, every error problem+json (RFC
// 9457).
func Handler(b Backend, opts ...Option) http.Handler {
	a := &api{Frame: rest.NewFrame(DefaultLimits), backend: b, rows: table, limiter: rest.NewAuthLimiter(),
		warnings: func() []string { return nil }}
	a.TooMany = tooMany
	a.Ending, a.end = context.WithCancel(context.Background()) //nolint:gosec // the server's shutdown calls it, or nobody
	for _, o := range opts {
		o(a)
	}
	a.Open(a, DefaultLimits)
	a.described = sync.OnceValues(func() (reply, error) {
		return answerDocument(ops.Document{Object: describe(a.rows, a.Version)}, nil)
	})
	return a
}

// maxStreams bounds the requests of one connection of HTTP/2: each may wait for its reader. A frame that has
// only been announced has its room, and a line that takes nothing at all is no line.
const (
	maxStreams = 16
	maxFrame   = 16 << 10 // bytes: the least that the protocol has
)

// NewServer is a server of h with limits on what a peer may send and how slowly. Its address
// and certificate are the caller's. Its shutdown ends streams of events.
func NewServer(h http.Handler) *http.Server {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      5 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			WriteByteTimeout: rest.AnswerTimeout},
	}
	if a, is := h.(*api); is {
		s.RegisterOnShutdown(a.end)
	}
	return s
}

// Answer makes the checks in the order of what they cost, and asks the row.
func (a *api) Answer(in *rest.Call) (reply, error) {
	c := &call{Call: in}
	in.Own = c
	if err := a.route(c); err != nil {
		return reply{}, err
	}
	defer a.Deadline(in)()
	leave, err := a.admit(c)
	if err != nil {
		return reply{}, err
	}
	defer leave()
	for _, check := range []func(*call) error{(*call).readQuery, a.await, a.mayReveal, a.readBody, a.intends,
		(*call).acquireTurn} {
		if err := check(c); err != nil {
			return reply{}, err
		}
	}
	r, err := c.row.Serve(a, c)
	return finishReply(c, r), err
}

// intends refuses an act that can't go into the audit log.
func (a *api) intends(c *call) error {
	if c.row.Effect == rest.Reads && !c.Entry.Reveal {
		return nil
	}
	// What an admin's restore or revert brings back may be an admin's alone: each of an admin's acts counts as such.
	return a.Intends(c.Call, c.row.Role == Admin || c.Caller.Role == Admin || c.Entry.Reveal)
}

// revisionHeader is the revision that a caller has seen: what is asked is answered by a replica
// that knows it.
const revisionHeader = "Edgespan-Revision"

// await waits for that revision.
func (a *api) await(c *call) error {
	text := c.Header.Get(revisionHeader)
	if text == "" || c.row.Role == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return rest.Refuse(rest.TypeBadRequest, "%s: invalid value %s: must be the number of a revision", revisionHeader,
			config.Quote(text))
	}
	if err := a.backend.Await(c.Context(), n); errors.Is(err, ErrNoRevision) {
		return rest.Refuse(rest.TypeBadRequest, "%s: %d: %s", revisionHeader, n, err)
	} else if err != nil {
		return err
	}
	return nil
}

// route finds the row of a call, and says which there are where there is none.
func (a *api) route(c *call) error {
	m := match(a.rows, c.Method, c.URL.EscapedPath())
	switch {
	case m.row != nil:
		c.row, c.values, c.Route = m.row, m.values, m.row.Path
		return nil
	case len(m.allow) > 0:
		p := rest.Refuse(rest.TypeMethod, "%s: is not allowed here: %s", c.Method, config.OrList(m.allow))
		p.Allow = m.allow
		return p
	}
	return rest.Refuse(rest.TypeNoRoute, "no such route: must be one of %s", strings.Join(m.near, ", "))
}
