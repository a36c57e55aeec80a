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
	"edgespan/pubsub/loglevel"
)

// Limits keep callers from using up the controller's resources.
type Limits = rest.Limits

// DefaultLimits are the limits of a Handler without WithLimits.
var DefaultLimits = Limits{Rate: 100, Burst: 400, InFlight: 256, Bytes: 256 << 20, Answers: 256 << 20, Watches: 64,
	Deadline: 2 * time.Minute}

// MaxBody is the largest body of a request, in bytes.
const MaxBody = 16 << 20

// readyDeadline bounds /readyz, which needs no authentication. An answer is cached for readyAgain, so that the store is
// read at most four times a second.
const (
	readyDeadline = time.Second
	readyAgain    = 250 * time.Millisecond
)

// readiness caches the backend's last answer to Ready.
type readiness struct {
	mu  sync.Mutex // callers during a check wait for its answer
	at  time.Time
	err error

	list   func(context.Context) []Check
	listed time.Time
	checks []Check
}

// verbose returns the checks.
func (r *readiness) verbose() []Check {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := time.Since(r.listed); r.list != nil && (d < 0 || d >= readyAgain) {
		ctx, cancel := context.WithTimeout(context.Background(), readyDeadline)
		defer cancel()
		r.checks = r.list(ctx)
		r.listed = time.Now()
	}
	return r.checks
}

// ask returns the readiness error, and whether the backend was asked for it now.
func (r *readiness) ask(b Backend) (asked bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := time.Since(r.at); d < 0 || d >= readyAgain {
		ctx, cancel := context.WithTimeout(context.Background(), readyDeadline) // not the caller's: others wait too
		defer cancel()
		r.err = b.Ready(ctx)
		r.at, asked = time.Now(), true
	}
	return asked, r.err
}

// Option changes a Handler.
type Option = rest.Option

// WithTokens makes operator tokens known by their hash (platform/pki.OperatorTokenHash). A Handler without it and
// without WithNoAuth refuses every caller.
func WithTokens(hash func(text string) (string, error)) Option {
	return func(a rest.API) { a.(*api).hash = hash }
}

// WithNoAuth makes every caller the admin "local", and accepts requests only for a name of this machine, so that no web
// page can reach it through its own DNS name (DNS rebinding).
func WithNoAuth() Option { return func(a rest.API) { a.(*api).Local = true } }

// WithAuthLimiter shares the count of failed logins with other handlers of the same listener.
func WithAuthLimiter(g *rest.AuthLimiter) Option { return func(a rest.API) { a.(*api).limiter = g } }

// WithWarnings adds warnings for people to the answer of /readyz, which needs no authentication.
func WithWarnings(f func() []string) Option { return func(a rest.API) { a.(*api).warnings = f } }

// WithMetrics sets what returns the text of /metrics.
func WithMetrics(text func(context.Context) ([]byte, error)) Option {
	return func(a rest.API) { a.(*api).metrics = text }
}

// WithLogLevels sets the levels of the log that callers may read and change.
func WithLogLevels(l *loglevel.Levels) Option { return func(a rest.API) { a.(*api).levels = l } }

// WithChecks sets the checks that /readyz?verbose lists. They are run no more often than the backend is asked.
func WithChecks(f func(context.Context) []Check) Option {
	return func(a rest.API) { a.(*api).ready.list = f }
}

// Entry is one line of the audit log.
type Entry = rest.Entry

type api struct {
	rest.Frame
	backend  Backend
	rows     []row
	hash     func(string) (string, error)
	warnings func() []string
	metrics  func(context.Context) ([]byte, error)
	levels   *loglevel.Levels
	end      context.CancelFunc // ends the streams of events
	ready    readiness
	// described is computed once: it needs no authentication, and every unread answer holds it.
	described func() (reply, error)
	limiter   *rest.AuthLimiter // of failed logins, by address
}

// call is one request on its way through the checks.
type call struct {
	*rest.Call
	row    *row
	values map[string]string // of the {segments}
	texts  map[string]string // of the query
	flags  map[string]bool
	nums   map[string]uint64
	lists  map[string][]string
	paths  map[string][][]string // paths; one path is a list of one
	body   config.Object
}

// own returns the call of this API.
func own(c *rest.Call) *call { return c.Own.(*call) }

// Handler serves the routes from b. Every answer is JSON, lines of JSON or events, every error problem+json (RFC 9457).
func Handler(b Backend, opts ...Option) http.Handler {
	a := &api{Frame: rest.NewFrame(DefaultLimits), backend: b, rows: table, limiter: rest.NewAuthLimiter(),
		warnings: func() []string { return nil },
		metrics:  func(context.Context) ([]byte, error) { return nil, nil },
		levels:   loglevel.New(nil, loglevel.Info, func(loglevel.Change) {})}
	a.TooMany = tooMany
	a.Ending, a.end = context.WithCancel(context.Background()) //nolint:gosec // called by the server's shutdown
	for _, o := range opts {
		o(a)
	}
	a.Open(a, DefaultLimits)
	a.described = sync.OnceValues(func() (reply, error) {
		return answerDocument(ops.DocumentAnswer{Object: describe(a.rows, a.Version)}, nil)
	})
	return a
}

// Limits on an HTTP/2 connection. maxStreams bounds its concurrent requests, each of which may wait for its reader. A
// frame is small because its buffer is allocated when it is announced. A connection that reads nothing is closed
// (WriteByteTimeout).
const (
	maxStreams = 16
	maxFrame   = 16 << 10 // bytes: the minimum of the protocol
)

// NewServer returns a server of h with limits on the size and pace of requests. The caller sets address and
// certificate. Its shutdown ends streams of events.
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
	if a, ok := h.(*api); ok {
		s.RegisterOnShutdown(a.end)
	}
	return s
}

// Answer runs the checks, the cheapest first, and calls the route.
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
	for _, check := range []func(*call) error{(*call).readQuery, a.await, a.mayReveal, a.readBody, a.recordIntent,
		(*call).acquireTurn} {
		if err := check(c); err != nil {
			return reply{}, err
		}
	}
	r, err := c.row.Serve(a, c)
	return finishReply(c, r), err
}

// recordIntent refuses an action that can't be written to the audit log.
func (a *api) recordIntent(c *call) error {
	if c.row.Effect == rest.Reads && !c.Entry.Reveal {
		return nil
	}
	// A restore or revert by an admin may bring back content that only an admin may write: each action of an admin counts
	// as such.
	return a.RecordIntent(c.Call, c.row.Role == Admin || c.Caller.Role == Admin || c.Entry.Reveal)
}

// revisionHeader is the revision that a caller has seen: the replica must know it before it answers.
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

// route finds the row of a call. The error lists the alternatives.
func (a *api) route(c *call) error {
	m := match(a.rows, c.Method, c.URL.EscapedPath())
	switch {
	case m.row != nil:
		c.row, c.values, c.Route = m.row, m.values, m.row.Path
		return nil
	case len(m.allow) > 0:
		p := rest.Refuse(rest.TypeMethod, "%s: method not allowed: must be %s", c.Method, config.OrList(m.allow))
		p.Allow = m.allow
		return p
	}
	return rest.Refuse(rest.TypeNoRoute, "no such route: must be one of %s", strings.Join(m.near, ", "))
}
