package configdbapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
	"edgespan/pubsub/ratelimit"
)

// Limits keep one caller, or many, from taking the controller away from the others.
type Limits = rest.Limits

// DefaultLimits are those of a Handler that was given none. One caller may be a Puppet server that
// validates its caches for thousands of nodes.
var DefaultLimits = Limits{Rate: 40_000, Burst: 80_000, InFlight: 1024, Bytes: 256 << 20, Answers: 256 << 20,
	Watches: 256, Deadline: time.Minute}

// MaxBody is the largest body of a request, in bytes.
const MaxBody = 8 << 20

// Entry is one line of the audit log.
type Entry = rest.Entry

// Option changes a Handler.
type Option = rest.Option

// WithStored shares with other doors what callers who are no admins may have stored, and refuses their writes while
// the store is scarce.
func WithStored(b *ratelimit.Buckets, scarce func() error) Option {
	return func(a rest.API) { a.(*api).stored, a.(*api).scarce = b, scarce }
}

// WithTrustedProxy takes scheme and host of a Location from X-Forwarded-Proto and
// X-Forwarded-Host, which only a proxy may set that stands before all clients.
func WithTrustedProxy() Option { return func(a rest.API) { a.(*api).proxied = true } }

// WithRoot serves the routes at / too, as the original stood by itself.
func WithRoot() Option { return func(a rest.API) { a.(*api).root = true } }

// WithLocalHosts takes requests only for a name of this machine: where nobody says who it is, no
// page on the web shall ask by a name of its own that resolves to here.
func WithLocalHosts() Option { return func(a rest.API) { a.(*api).Local = true } }

// WithDirectNames answers a PUT by the name of a resource itself, with 204, as the last
// implementation of the seed did, rather than with the seed's 308.
func WithDirectNames() Option { return func(a rest.API) { a.(*api).direct = true } }

// WithNamed tells which environment the config of a node of the fleet names, 0 for none: there it may register itself.
func WithNamed(named func(ctx context.Context, node string) (environment int64, err error)) Option {
	return func(a rest.API) { a.(*api).named = named }
}

type api struct {
	rest.Frame
	backend Backend
	auth    Authenticator
	all     []row
	rows    map[string][]*row // by path
	named   func(ctx context.Context, node string) (int64, error)
	proxied bool
	root    bool
	direct  bool
	uploads *ratelimit.Buckets // bytes that nodes upload of themselves
	stored  *ratelimit.Buckets // and that others who are no admins write
	scarce  func() error       // why they may not now
}

// call is one request on its way through the checks.
type call struct {
	*rest.Call
	target
	prefix   string // of the path
	behind   string // the escaped path behind it
	row      *row
	query    query
	caller   Caller
	own      bool       // a node asks for what is its own
	changed  bool       // a write of the call changed something
	reported bool       // the audit log has its line already
	node     model.Node // which that is, if it is registered
}

// own is a call as this API has it.
func own(c *rest.Call) *call { return c.Own.(*call) }

// Handler serves the routes below each of Prefixes. Every error is {"msg": text}.
func Handler(b Backend, who Authenticator, opts ...Option) http.Handler {
	a := &api{
		Frame: rest.NewFrame(DefaultLimits), backend: b, auth: who, all: table, rows: rowsByPath(),
		named:   func(context.Context, string) (int64, error) { return 0, nil },
		uploads: ratelimit.NewBuckets(nodeRate, nodeBurst).Of(maxNodes), stored: rest.NewStored(),
		scarce: func() error { return nil },
	}
	a.Zip = true
	a.TooMany = func(wait time.Duration) *rest.Problem {
		p := rest.Refuse(rest.TypeTooMany, "too many requests")
		p.Retry = wait
		return p
	}
	for _, o := range opts {
		o(a)
	}
	a.Limits.InFlight = max(a.Limits.InFlight, 1)
	a.Open(a, DefaultLimits)
	return a
}

// Answer makes the checks in the order of what they cost, and asks the row.
func (a *api) Answer(in *rest.Call) (reply, error) {
	c := &call{Call: in}
	in.Own = c
	if err := a.route(c); err != nil {
		return reply{}, err
	}
	if c.Method == http.MethodOptions {
		r := reply{Status: http.StatusOK}
		r.Add("Allow", strings.Join(a.allow(c.path), ", "))
		return r, nil
	}
	defer a.Deadline(in)()
	leave, err := a.admit(c)
	if err != nil {
		return reply{}, err
	}
	defer leave()
	c.Request = c.WithContext(withMeter(c.Context()))
	if err := a.admitNode(c); err != nil {
		return reply{}, err
	}
	if err := a.intends(c); err != nil {
		return reply{}, err
	}
	c.holdTurn()
	r, err := c.row.Serve(a, c)
	return finishReply(c, r), err
}

// Shown is an answer, if the audit log has that its secrets are seen.
func (a *api) Shown(in *rest.Call, r reply) reply {
	in.Entry.Reveal = r.Secret && r.Status == http.StatusOK
	if !in.Entry.Reveal {
		return r
	}
	in.Describe(r)
	c := own(in)
	if err := a.Intent(in.Entry, true); err != nil {
		if r.Done != nil {
			r.Done()
		}
		in.Entry.Reveal = false
		a.Failed(in.Method, in.Entry.Path, err)
		text := "the audit log can't be written: no secret is shown"
		if c.row.Effect == rest.Writes {
			text += "; the write is done"
		}
		return a.Refused(in, rest.Refuse(rest.TypeBusy, "%s", text))
	}
	c.reported = true
	return r
}

// Audited says whether a call goes into the audit log.
func (a *api) Audited(in *rest.Call) bool {
	c := own(in)
	switch {
	case c.reported:
		return false // its line is there
	case c.row.Effect == rest.Writes && c.Entry.Status == http.StatusPermanentRedirect:
		return false // it comes again
	case c.ofNode() && !c.changed && c.Entry.Status < http.StatusBadRequest:
		return c.Entry.Reveal // it uploads what is there: ten thousand nodes do so each half hour
	}
	return c.row.Effect == rest.Writes || c.Entry.Reveal
}

// Acted is what a caller is told of a write whose answer can't be given.
func (a *api) Acted(_ *rest.Call, r reply) string {
	if r.Revision > 0 {
		return "; the write is done"
	}
	return ""
}

// ofNode says whether a machine asks, by its certificate.
func (c *call) ofNode() bool { return c.caller.Node != "" || c.caller.Certname != "" }

// holdTurn has a read keep its turn from when it takes it.
func (c *call) holdTurn() {
	if c.row.Effect != rest.Writes && !c.row.Events {
		c.Turn.Hold()
	}
}

// intends refuses an act that can't go into the audit log. What a node uploads is no such act.
func (a *api) intends(c *call) error {
	if c.row.Effect != rest.Writes || c.own {
		return nil
	}
	return a.Intends(c.Call, c.row.Role == Admin)
}
