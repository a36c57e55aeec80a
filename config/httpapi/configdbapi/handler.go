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

// Limits keep callers from using up the controller's resources.
type Limits = rest.Limits

// DefaultLimits are the limits of a Handler without WithLimits. One caller may be a Puppet server that validates its
// caches for thousands of nodes.
var DefaultLimits = Limits{Rate: 40_000, Burst: 80_000, InFlight: 1024, Bytes: 256 << 20, Answers: 256 << 20,
	Watches: 256, Deadline: time.Minute}

// MaxBody is the largest body of a request, in bytes.
const MaxBody = 8 << 20

// Entry is one line of the audit log.
type Entry = rest.Entry

// Option changes a Handler.
type Option = rest.Option

// WithStored shares the budget of bytes that callers who are no admins may store with other handlers, and refuses their
// writes while the store is scarce.
func WithStored(b *ratelimit.Buckets, scarce func() error) Option {
	return func(a rest.API) { a.(*api).stored, a.(*api).scarce = b, scarce }
}

// WithTrustedProxy takes scheme and host of a Location from X-Forwarded-Proto and X-Forwarded-Host. Use it only if all
// clients connect through a proxy that sets them.
func WithTrustedProxy() Option { return func(a rest.API) { a.(*api).proxied = true } }

// WithLocalHosts accepts requests only for a name of this machine: without authentication, no web page may reach the
// API through its own DNS name (DNS rebinding).
func WithLocalHosts() Option { return func(a rest.API) { a.(*api).Local = true } }

// WithDirectNames executes a PUT by the name of a resource and answers 204, as the last implementation of the seed
// does, instead of the seed's 308.
func WithDirectNames() Option { return func(a rest.API) { a.(*api).direct = true } }

// WithEnvironmentOf sets the function that returns the environment that the config of a fleet node names, 0 for none:
// the node may register itself there.
func WithEnvironmentOf(named func(ctx context.Context, node string) (environment int64, err error)) Option {
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
	direct  bool
	uploads *ratelimit.Buckets // bytes that nodes upload to their own data
	stored  *ratelimit.Buckets // bytes that other callers who are no admins write
	scarce  func() error       // why those may not write now; nil if they may
}

// call is one request on its way through the checks.
type call struct {
	*rest.Call
	target
	prefix   string // prefix of the path
	behind   string // the escaped path after the prefix
	row      *row
	query    query
	caller   Caller
	own      bool       // a node accesses its own data
	changed  bool       // the call changed something by a write
	reported bool       // the audit log has the call's line already
	node     model.Node // that node, if it is registered
}

// own returns the call of this API.
func own(c *rest.Call) *call { return c.Own.(*call) }

// Handler serves the routes below each of Prefixes. Every error is {"msg": text}.
func Handler(b Backend, who Authenticator, opts ...Option) http.Handler {
	a := &api{
		Frame: rest.NewFrame(DefaultLimits), backend: b, auth: who, all: table, rows: rowsByPath(),
		named:   func(context.Context, string) (int64, error) { return 0, nil },
		uploads: ratelimit.NewBuckets(nodeRate, nodeBurst).SetMaxNames(maxNodes), stored: rest.NewStored(),
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

// Answer runs the checks, the cheapest first, and calls the route.
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
	if err := a.recordIntent(c); err != nil {
		return reply{}, err
	}
	c.holdTurn()
	r, err := c.row.Serve(a, c)
	return finishReply(c, r), err
}

// Shown returns the reply; one with secrets only if the audit log has recorded it.
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

// Audited reports whether a call goes to the audit log.
func (a *api) Audited(in *rest.Call) bool {
	c := own(in)
	switch {
	case c.reported:
		return false // already written
	case c.row.Effect == rest.Writes && c.Entry.Status == http.StatusPermanentRedirect:
		return false // the client repeats it at the new URL
	case c.ofNode() && !c.changed && c.Entry.Status < http.StatusBadRequest:
		return c.Entry.Reveal // an unchanged upload, which ten thousand nodes send each half hour
	}
	return c.row.Effect == rest.Writes || c.Entry.Reveal
}

// Acted says that a write was done although its answer can't be sent.
func (a *api) Acted(_ *rest.Call, r reply) string {
	if r.Revision > 0 {
		return "; the write is done"
	}
	return ""
}

// ofNode reports whether the caller is a node, authenticated by certificate.
func (c *call) ofNode() bool { return c.caller.Node != "" || c.caller.Certname != "" }

// holdTurn makes a read keep its turn once taken.
func (c *call) holdTurn() {
	if c.row.Effect != rest.Writes && !c.row.Events {
		c.Turn.Hold()
	}
}

// recordIntent refuses an action that can't be written to the audit log. Uploads of nodes are exempt.
func (a *api) recordIntent(c *call) error {
	if c.row.Effect != rest.Writes || c.own {
		return nil
	}
	return a.RecordIntent(c.Call, c.row.Role == Admin)
}
