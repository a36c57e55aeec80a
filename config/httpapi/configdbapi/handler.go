package configdbapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// Limits keep one caller, or many, from taking the controller away from the others.
type Limits struct {
	Rate     float64       // requests a second of one caller, in the long run; 0: as many as it can
	Burst    int           // and at once
	InFlight int           // requests under way, of all callers
	Bytes    int64         // of bodies under way, of all callers (httpapi.NewBodies)
	Answers  int64         // bytes of answers under way (httpapi.Answers); 0: those of DefaultLimits
	Watches  int           // streams of events
	Deadline time.Duration // of one request
}

// DefaultLimits are those of a Handler that was given none. One caller may be a Puppet server that
// validates its caches for thousands of nodes.
var DefaultLimits = Limits{Rate: 40_000, Burst: 80_000, InFlight: 1024, Bytes: 256 << 20, Answers: 256 << 20,
	Watches: 256, Deadline: time.Minute}

// MaxBody is the largest body of a request, in bytes.
const MaxBody = 8 << 20

// Entry is one line of the audit log.
type Entry = rest.Entry

// Option changes a Handler.
type Option func(*api)

// WithLimits sets other limits than DefaultLimits.
func WithLimits(l Limits) Option { return func(a *api) { a.limits = l } }

// WithAudit hears of every write, every refusal of a caller and every answer in which secrets
// may be seen, before the caller has the answer. It is called by many goroutines at once.
func WithAudit(audit func(Entry)) Option { return func(a *api) { a.audit = audit } }

// WithIntents is asked before an act that goes into the audit log; must is that it needs an admin or
// shows a secret: it is not done unless its line is written. An error refuses the act. What shows a
// secret has this line alone.
func WithIntents(intent func(e Entry, must bool) error) Option {
	return func(a *api) { a.intent = intent }
}

// WithBodies shares the budget of bodies under way with other doors of the same process, in place of
// Limits.Bytes.
func WithBodies(b *rest.Bodies) Option { return func(a *api) { a.bodies = b } }

// WithStored shares with other doors what callers who are no admins may have stored, and refuses their writes while
// the store is scarce.
func WithStored(b *rest.Buckets, scarce func() error) Option {
	return func(a *api) { a.stored, a.scarce = b, scarce }
}

// WithAnswers shares the budget of answers under way with other doors of the same process, in place of
// Limits.Answers.
func WithAnswers(b *rest.Answers) Option { return func(a *api) { a.answers = b } }

// WithFailures hears what the caller of a 500 is not told.
func WithFailures(f func(method, path string, err error)) Option {
	return func(a *api) { a.failed = f }
}

// WithVersion sets the version that the description names.
func WithVersion(v string) Option { return func(a *api) { a.version = v } }

// WithTrustedProxy takes scheme and host of a Location from X-Forwarded-Proto and
// X-Forwarded-Host, which only a proxy may set that stands before all clients.
func WithTrustedProxy() Option { return func(a *api) { a.proxied = true } }

// WithRoot serves the routes at / too, as the original stood by itself.
func WithRoot() Option { return func(a *api) { a.root = true } }

// WithLocalHosts takes requests only for a name of this machine: where nobody says who it is, no
// page on the web shall ask by a name of its own that resolves to here.
func WithLocalHosts() Option { return func(a *api) { a.local = true } }

// WithDirectNames answers a PUT by the name of a resource itself, with 204, as the last
// implementation of the seed did, rather than with the seed's 308.
func WithDirectNames() Option { return func(a *api) { a.direct = true } }

// WithNamed tells which environment the config of a node of the fleet names, 0 for none: there it may register itself.
func WithNamed(named func(ctx context.Context, node string) (environment int64, err error)) Option {
	return func(a *api) { a.named = named }
}

// WithEnd ends the streams of events with a context: that of the server.
func WithEnd(ctx context.Context) Option { return func(a *api) { a.ending = ctx } }

type api struct {
	backend  Backend
	auth     Authenticator
	all      []row
	rows     map[string][]*row // by path
	audit    func(Entry)
	intent   func(e Entry, must bool) error
	failed   func(method, path string, err error)
	named    func(ctx context.Context, node string) (int64, error)
	version  string
	limits   Limits
	proxied  bool
	root     bool
	local    bool
	direct   bool
	ending   context.Context //nolint:containedctx // of the server: streams of events end with it
	inFlight *rest.Places
	watching *rest.Places
	bodies   *rest.Bodies
	answers  *rest.Answers
	turns    *rest.Turns
	callers  *rest.Buckets
	uploads  *rest.Buckets // bytes that nodes upload of themselves
	stored   *rest.Buckets // and that others who are no admins write
	scarce   func() error  // why they may not now
	origins  *http.CrossOriginProtection
	zipped   *zipped
}

// call is one request on its way through the checks.
type call struct {
	*http.Request
	target
	w       http.ResponseWriter
	prefix  string // of the path
	rest    string // the escaped path behind it
	row     *row
	query   query
	caller  Caller
	own     bool       // a node asks for what is its own
	changed bool       // a write of the call changed something
	told    bool       // the audit log has its line already
	node    model.Node // which that is, if it is registered
	entry   Entry
	holds   *rest.Body      // nil: of no body yet
	turn    *rest.Hold      // nil: of who has not said who it is
	give    func()          // lets go of what the answer holds until it is read; nil: of nothing yet
	alive   context.Context //nolint:containedctx // of the caller's connection, without the deadline of an answer
}

// Handler serves the routes below each of Prefixes. Every error is {"msg": text}.
func Handler(b Backend, who Authenticator, opts ...Option) http.Handler {
	a := &api{
		backend: b, auth: who, all: table, rows: rowsByPath(), version: "unknown", limits: DefaultLimits,
		audit: func(Entry) {}, intent: func(Entry, bool) error { return nil }, failed: func(string, string, error) {},
		ending:  context.Background(),
		named:   func(context.Context, string) (int64, error) { return 0, nil },
		origins: http.NewCrossOriginProtection(), zipped: &zipped{}, stored: rest.NewStored(),
		scarce: func() error { return nil },
	}
	for _, o := range opts {
		o(a)
	}
	a.inFlight, a.watching = rest.NewPlaces(max(a.limits.InFlight, 1)), rest.NewPlaces(max(a.limits.Watches, 1))
	a.turns = rest.NewTurns()
	if a.answers == nil {
		a.answers = rest.NewAnswers(cmp.Or(a.limits.Answers, DefaultLimits.Answers))
	}
	if a.bodies == nil {
		a.bodies = rest.NewBodies(a.limits.Bytes)
	}
	a.uploads = rest.NewBuckets(nodeRate, nodeBurst).Of(mostNodes)
	if a.limits.Rate > 0 {
		a.callers = rest.NewBuckets(a.limits.Rate, max(a.limits.Burst, 1))
	}
	return a
}

// ServeHTTP answers one request: what it is refused for, or what its row says.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Request: r, w: w, alive: r.Context(), entry: rest.NewEntry(r, time.Now())}
	defer func() { c.holds.Give() }()
	answer := a.shown(c, a.computed(c))
	if answer.done != nil {
		defer answer.done()
	}
	if c.describe(answer); c.audited() {
		a.audit(c.entry)
	}
	a.write(r, c, answer)
	if answer.stream != nil && r.Method != http.MethodHead {
		out := rest.Flushing{ResponseWriter: w}
		answer.stream(out)
		out.End()
	}
}

// describe says in the entry of a call how it is answered.
func (c *call) describe(r reply) {
	c.entry.Status, c.entry.Revision = r.status, r.wrote
	c.entry.Reveal = r.secret && r.status == http.StatusOK
	c.entry.Caller, c.entry.Role, c.entry.Via = c.caller.Name, c.caller.Role, c.caller.Via
}

// shown is an answer, if the audit log has that its secrets are seen.
func (a *api) shown(c *call, r reply) reply {
	if !r.secret || r.status != http.StatusOK {
		return r
	}
	c.describe(r)
	if err := a.intent(c.entry, true); err != nil {
		if r.done != nil {
			r.done()
		}
		a.failed(c.Method, c.entry.Path, err)
		text := "the audit log can't be written: no secret is shown"
		if c.row.writes {
			text += "; the write is done"
		}
		return a.refused(c, &refusal{status: http.StatusServiceUnavailable, retry: time.Second, text: text})
	}
	c.told = true
	return r
}

// audited says whether a call goes into the audit log.
func (c *call) audited() bool {
	switch {
	case c.told:
		return false // its line is there
	case c.entry.Status == http.StatusUnauthorized, c.entry.Status == http.StatusForbidden,
		c.entry.Status == http.StatusMisdirectedRequest:
		return true
	case c.row == nil || c.caller.Name == "":
		return false // nobody's: it was turned away before anything was asked
	case c.row.writes && c.entry.Status == http.StatusPermanentRedirect:
		return false // it comes again
	case c.ofNode() && !c.changed && c.entry.Status < http.StatusBadRequest:
		return c.entry.Reveal // it uploads what is there: ten thousand nodes do so each half hour
	}
	return c.row.writes || c.entry.Reveal
}

// who is whose share a call takes: callers of one name by other sources are others.
func (c *call) who() string { return c.caller.Via.Of(c.caller.Name) }

// holder is the caller as one who holds what is bounded.
func (c *call) holder() rest.Holder {
	return rest.HolderOf(c.caller.Name, c.caller.Role, c.caller.Via)
}

// ofNode says whether a machine asks, by its certificate.
func (c *call) ofNode() bool { return c.caller.Node != "" || c.caller.Certname != "" }

// answer makes the checks in the order of what they cost, and asks the row. A panic of a
// backend becomes an answer.
func (a *api) answer(c *call) (out reply) {
	defer func() {
		if v := recover(); v != nil {
			out = a.refused(c, fmt.Errorf("panic: %v", v))
		}
	}()
	if err := a.foreign(c.Request); err != nil {
		return a.refused(c, err)
	}
	if err := a.route(c); err != nil {
		return a.refused(c, err)
	}
	if c.Method == http.MethodOptions {
		return reply{status: http.StatusOK, allow: a.allow(c.path)}
	}
	ctx, cancel := context.WithTimeout(c.Context(), a.limits.Deadline)
	defer cancel()
	c.Request = c.WithContext(ctx)
	if err := a.admit(c); err != nil {
		return a.refused(c, err)
	}
	leave, err := a.inFlight.Take(c.holder(), "requests") // who has not said who it is takes no place
	if err != nil {
		return a.refused(c, &refusal{status: http.StatusServiceUnavailable, retry: time.Second, text: err.Error()})
	}
	defer leave()
	ctx, c.turn = a.turns.Of(ctx, c.holder())
	c.Request = c.WithContext(withMeter(ctx))
	if c.ofNode() {
		if err := a.admitNode(c); err != nil {
			return a.refused(c, err)
		}
	}
	if err := a.intends(c); err != nil {
		return a.refused(c, err)
	}
	c.keepTurn()
	done, err := c.row.serve(a, c)
	if err != nil {
		return a.refused(c, err)
	}
	return done.settle(c)
}

// computed is the answer of a call that has its room until it is read: a read that took its turn, for what is not at
// hand, has had it till then.
func (a *api) computed(c *call) reply {
	defer func() {
		if c.turn != nil {
			c.turn.End()
		}
	}()
	return a.budgeted(c, a.answer(c))
}

// keepTurn has a read keep its turn from when it takes it.
func (c *call) keepTurn() {
	if !c.row.writes && !c.row.events {
		c.turn.Keep()
	}
}

// budgeted is an answer, if there is room for it until it is read: who does not read holds what others need.
func (a *api) budgeted(c *call, r reply) reply {
	if c.caller.Name == "" || r.stream != nil || c.Method == http.MethodHead {
		return r
	}
	give, room := a.answers.Take(c.holder(), len(r.body))
	if !room {
		if r.done != nil {
			r.done()
		}
		wrote, text := r.wrote, "too many answers are on their way at once"
		if wrote > 0 {
			text += "; the write is done"
		}
		r = a.refused(c, &refusal{status: http.StatusServiceUnavailable, retry: time.Second, text: text})
		r.wrote = wrote
		return r
	}
	c.give = give
	return r
}

// intends refuses an act that can't go into the audit log. What a node uploads is no such act.
func (a *api) intends(c *call) error {
	if !c.row.writes || c.own {
		return nil
	}
	e := c.entry
	e.Caller, e.Role, e.Via, e.Begun = c.caller.Name, c.caller.Role, c.caller.Via, true
	if err := a.intent(e, c.row.role == Admin); err != nil {
		a.failed(c.Method, c.entry.Path, err)
		return &refusal{status: http.StatusServiceUnavailable, retry: time.Second,
			text: "the audit log can't be written: nothing was done"}
	}
	return nil
}
