package fleetapi

import (
	"context"
	"errors"
	"fmt"
	"io"
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
type Limits struct {
	Rate     float64       // requests a second of one caller, in the long run
	Burst    int           // and at once
	InFlight int           // requests under way, of all callers
	Watches  int           // and streams of events, which are long; 0: as many as DefaultLimits has
	Deadline time.Duration // of one request
}

// DefaultLimits are those of a Handler that was given none.
var DefaultLimits = Limits{Rate: 100, Burst: 400, InFlight: 256, Watches: 64, Deadline: 2 * time.Minute}

// MaxBody is the largest body of a request, in bytes.
const MaxBody = 16 << 20

// bodyBytes bounds the bodies under way of all callers, in bytes (httpapi.NewBodies).
const bodyBytes = 256 << 20

// answerBytes bounds the answers under way of all callers, in bytes, until they are read.
const answerBytes = 256 << 20

// streamDeadline bounds a stream of events; NewServer's WriteTimeout is no longer.
const streamDeadline = 5 * time.Minute

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
type Option func(*api)

// WithTokens makes operator tokens known by their hash (platform/pki.OperatorTokenHash). A
// Handler without it and without WithNoAuth refuses everybody.
func WithTokens(hash func(text string) (string, error)) Option {
	return func(a *api) { a.hash = hash }
}

// WithNoAuth makes every caller the admin "local", and takes requests only for a name of this
// machine, so that no page on the web can ask by a name of its own that resolves to here.
func WithNoAuth() Option { return func(a *api) { a.noAuth = true } }

// WithGuesses shares the count of failed guesses with other doors of the same listener.
func WithGuesses(g *rest.Guesses) Option { return func(a *api) { a.guesses = g } }

// WithAudit hears of every write, every refusal of a caller and every secret that is shown,
// before the caller has the answer. It is called by many goroutines at once.
func WithAudit(audit func(Entry)) Option { return func(a *api) { a.audit = audit } }

// WithIntents is asked before an act that goes into the audit log; must is that an admin does it or
// that it shows a secret: it is not done unless its line is written. An error refuses the act.
func WithIntents(intent func(e Entry, must bool) error) Option {
	return func(a *api) { a.intent = intent }
}

// WithBodies shares the budget of bodies under way with other doors of the same process.
func WithBodies(b *rest.Bodies) Option { return func(a *api) { a.bodies = b } }

// WithAnswers shares the budget of answers under way with other doors of the same process.
func WithAnswers(b *rest.Answers) Option { return func(a *api) { a.answers = b } }

// WithFailures hears what the caller of a 500 or of an unready controller is not told.
func WithFailures(f func(method, path string, err error)) Option {
	return func(a *api) { a.failed = f }
}

// WithWarnings has /readyz tell, to whoever asks, what a person should look at.
func WithWarnings(f func() []string) Option { return func(a *api) { a.warnings = f } }

// WithVersion sets the version that the description names.
func WithVersion(v string) Option { return func(a *api) { a.version = v } }

// WithLimits sets other limits than DefaultLimits.
func WithLimits(l Limits) Option { return func(a *api) { a.limits = l } }

// Entry is one line of the audit log.
type Entry = rest.Entry

type api struct {
	backend  Backend
	rows     []row
	hash     func(string) (string, error)
	noAuth   bool
	audit    func(Entry)
	intent   func(e Entry, must bool) error
	failed   func(method, path string, err error)
	warnings func() []string
	version  string
	limits   Limits
	inFlight *rest.Places
	bodies   *rest.Bodies
	answers  *rest.Answers
	turns    *rest.Turns
	watching *rest.Places
	ending   context.Context //nolint:containedctx // of the server: streams of events end with it
	end      context.CancelFunc
	ready    readiness
	// described is made once: who has no token may ask for it, and each answer that is not read holds it.
	described func() (reply, error)
	callers   *rest.Buckets // by name
	guesses   *rest.Guesses // of who failed to say who it is, by address
	origins   *http.CrossOriginProtection
}

// call is one request on its way through the checks.
type call struct {
	*http.Request
	row    *row
	caller Caller
	values map[string]string     // of the {segments}
	texts  map[string]string     // of the query
	flags  map[string]bool       //
	nums   map[string]uint64     //
	lists  map[string][]string   //
	paths  map[string][][]string // lists of paths; one path is a list of one
	body   config.Object
	holds  *rest.Body // nil: of nothing yet
	entry  Entry
	give   func()     // lets go of what the answer holds until it is read; nil: of nothing yet
	turn   *rest.Hold // nil: of who has not said who it is
}

// Handler serves the routes from b. Every answer is JSON, or lines or events of it, every error problem+json (RFC
// 9457).
func Handler(b Backend, opts ...Option) http.Handler {
	a := &api{
		backend: b, rows: table, version: "unknown", limits: DefaultLimits, origins: http.NewCrossOriginProtection(),
		warnings: func() []string { return nil }, audit: func(Entry) {}, intent: func(Entry, bool) error { return nil },
		failed: func(string, string, error) {},
	}
	for _, o := range opts {
		o(a)
	}
	a.inFlight = rest.NewPlaces(a.limits.InFlight)
	a.turns = rest.NewTurns()
	if a.limits.Watches <= 0 {
		a.limits.Watches = DefaultLimits.Watches
	}
	a.watching = rest.NewPlaces(a.limits.Watches)
	a.described = sync.OnceValues(func() (reply, error) {
		return giveDocument(ops.Document{Object: describe(a.rows, a.version)}, false)
	})
	a.ending, a.end = context.WithCancel(context.Background()) //nolint:gosec // the server's shutdown calls it, or nobody
	a.callers = rest.NewBuckets(a.limits.Rate, a.limits.Burst)
	if a.bodies == nil {
		a.bodies = rest.NewBodies(bodyBytes)
	}
	if a.answers == nil {
		a.answers = rest.NewAnswers(answerBytes)
	}
	if a.guesses == nil {
		a.guesses = rest.NewGuesses()
	}
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
			WriteByteTimeout: rest.AnswerWait},
	}
	if a, is := h.(*api); is {
		s.RegisterOnShutdown(a.end)
	}
	return s
}

// ServeHTTP answers one request: what it is refused for, or what its row says.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Request: r, entry: rest.NewEntry(r, time.Now())}
	defer func() { c.holds.Give() }()
	answer := a.computed(w, c)
	if answer.done != nil {
		defer answer.done()
	}
	c.entry.Status, c.entry.Revision = answer.status, answer.revision
	if c.audited() {
		c.entry.Caller, c.entry.Role, c.entry.Via = c.caller.Name, c.caller.Role, c.caller.Via
		a.audit(c.entry)
	}
	if answer.stream == nil {
		a.deliver(w, r, c, answer)
		return
	}
	answer.head(w)
	if r.Method == http.MethodHead {
		return
	}
	ctx := r.Context()
	var out io.Writer = rest.Line{ResponseWriter: w, Wait: rest.AnswerWait}
	if answer.events {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, streamDeadline)
		defer cancel()
		events := rest.Flushing{ResponseWriter: w}
		defer events.End()
		out = events
	}
	if err := answer.stream(ctx, out); err != nil {
		a.failed(r.Method, c.entry.Path, err)
		panic(http.ErrAbortHandler) // the status is out: all that tells the caller is an answer without its end
	}
}

// audited says whether a call goes into the audit log.
func (c *call) audited() bool {
	switch {
	case c.entry.Status == http.StatusUnauthorized, c.entry.Status == http.StatusForbidden,
		c.entry.Status == http.StatusMisdirectedRequest:
		return true
	case c.row == nil || c.caller.Role == "":
		return false // nobody's: it was turned away before anything was asked
	}
	return c.row.effect != reads || c.entry.Reveal
}

// answer makes the checks in the order of what they cost, and asks the row. A panic of a
// backend becomes an answer.
func (a *api) answer(w http.ResponseWriter, c *call) (out reply) {
	defer func() {
		if v := recover(); v != nil {
			a.failed(c.Method, c.entry.Path, fmt.Errorf("panic: %v", v))
			out = refused(internal())
		}
	}()
	if p := a.foreign(c.Request); p != nil {
		return refused(p)
	}
	if p := a.route(c); p != nil {
		return refused(p)
	}
	ctx, cancel := context.WithTimeout(c.Context(), a.limits.Deadline)
	defer cancel()
	c.Request = c.WithContext(ctx)
	if p := a.admit(c); p != nil {
		return refused(p)
	}
	if c.row.role != "" { // whether the process lives can always be asked; who has not said who it is takes no place
		leave, err := a.inFlight.Take(c.caller.Holder(), "requests")
		if err != nil {
			return refused(problem(TypeBusy, "%s", err))
		}
		defer leave()
		ctx, c.turn = a.turns.Of(ctx, c.caller.Holder())
		c.Request = c.WithContext(ctx)
	}
	if p := c.readQuery(); p != nil {
		return refused(p)
	}
	if p := a.await(c); p != nil {
		return refused(p)
	}
	if p := a.mayReveal(c); p != nil {
		return refused(p)
	}
	if p := a.readBody(w, c); p != nil {
		return refused(p)
	}
	if p := a.intends(c); p != nil {
		return refused(p)
	}
	if err := c.takeTurn(); err != nil {
		return refused(a.problemOf(c, err))
	}
	done, err := c.row.serve(a, c)
	if err != nil {
		return refused(a.problemOf(c, err))
	}
	return done.settle(c)
}

// intends refuses an act that can't go into the audit log.
func (a *api) intends(c *call) *Problem {
	if c.row.effect == reads && !c.entry.Reveal {
		return nil
	}
	e := c.entry
	e.Caller, e.Role, e.Via, e.Begun = c.caller.Name, c.caller.Role, c.caller.Via, true
	// What an admin's restore or revert brings back may be an admin's alone: each of an admin's acts counts as such.
	if err := a.intent(e, c.row.role == Admin || c.caller.Role == Admin || c.entry.Reveal); err != nil {
		a.failed(c.Method, c.entry.Path, err)
		return problem(TypeBusy, "the audit log can't be written: nothing was done")
	}
	return nil
}

// revisionHeader is the revision that a caller has seen: what is asked is answered by a replica
// that knows it.
const revisionHeader = "Edgespan-Revision"

// await waits for that revision.
func (a *api) await(c *call) *Problem {
	text := c.Header.Get(revisionHeader)
	if text == "" || c.row.role == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return problem(TypeBadRequest, "%s: is %s: the number of a revision is allowed", revisionHeader, config.Quote(text))
	}
	if err := a.backend.Await(c.Context(), n); errors.Is(err, ErrNoRevision) {
		return problem(TypeBadRequest, "%s: %d: %s", revisionHeader, n, err)
	} else if err != nil {
		return a.problemOf(c, err)
	}
	return nil
}

// foreign refuses what a page of another site has sent through a browser.
func (a *api) foreign(r *http.Request) *Problem {
	if a.noAuth && !rest.LocalHost(r.Host) {
		return problem(TypeMisdirected,
			"Host: is %s: localhost and addresses of the loopback are allowed without authentication", config.Quote(r.Host))
	}
	if a.origins.Check(r) != nil {
		return problem(TypePermission, "Origin: a request of another site's page is not allowed")
	}
	return nil
}

// route finds the row of a call, and says which there are where there is none.
func (a *api) route(c *call) *Problem {
	m := match(a.rows, c.Method, c.URL.EscapedPath())
	switch {
	case m.row != nil:
		c.row, c.values = m.row, m.values
		return nil
	case len(m.allow) > 0:
		p := problem(TypeMethod, "%s: is not allowed here: %s", c.Method, config.OrList(m.allow))
		p.allow = m.allow
		return p
	}
	return problem(TypeNoRoute, "no such route: %s are allowed", strings.Join(m.near, ", "))
}
