package configdbapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// Options say where ConfigDB is and who asks.
type Options struct {
	// URL is the endpoint with its prefix, "https://controller:8443/api/v1/config" or what a catalog
	// names; without a path it is that of the seed.
	URL string
	// Authorize puts into a request who asks; nil: nobody. WithToken and WithPassword make one.
	Authorize func(*http.Request)
	// Transport carries the requests. It holds whom to trust; nil trusts what the system trusts.
	Transport http.RoundTripper
}

// WithToken shows a token of Keystone or of an operator.
func WithToken(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("X-Auth-Token", token) }
}

// WithPassword shows a name and a password.
func WithPassword(user, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(user, password) }
}

// Error is what ConfigDB has answered in the place of what was asked for.
type Error struct {
	Status int
	Msg    string
}

func (e *Error) Error() string { return e.Msg }

// Unwrap is the error of config/httpapi that a caller branches on.
func (e *Error) Unwrap() error {
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return &rest.Rejected{Faults: []string{e.Msg}}
	case http.StatusUnauthorized, http.StatusForbidden:
		return rest.ErrPermission
	case http.StatusNotFound:
		return rest.ErrNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return rest.ErrConflict
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return rest.ErrBusy
	case http.StatusGatewayTimeout:
		return rest.ErrTimeout
	}
	return nil
}

// Client asks ConfigDB. Its errors are *Error, or ErrUnreachable and ErrTimeout of config/httpapi/rest.
// How long it waits is its contexts' to say. A 308 is followed where it stays with the host that was
// asked: who asks, and what for, goes with it.
type Client struct{ *rest.Client }

// NewClient returns a client of an endpoint. It connects when it is asked something.
func NewClient(o Options) (*Client, error) {
	u, err := rest.Endpoint(o.URL)
	if err != nil {
		return nil, err
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = Prefixes[0]
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/")+"/", ""
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.Authorize == nil {
		o.Authorize = func(*http.Request) {}
	}
	base := u.String()
	return &Client{&rest.Client{Name: base, Base: base, Transport: o.Transport, Authorize: o.Authorize,
		Refusal: func(status int, text []byte) error { return refusal(base, status, text) },
		Failed:  func(err error) error { return rest.Unreachable(base, err) },
		Next:    func(location string) (string, error) { return next(u, location) }}}, nil
}

// request is one question.
type request = rest.Request

// next is where a redirect goes. The scheme stays: a proxy may speak TLS where what stands behind
// it does not.
func next(base *url.URL, location string) (string, error) {
	u, err := url.Parse(location)
	if err != nil || location == "" {
		return "", fmt.Errorf("ask %s: it sends to %s: must be a URL", base, config.Quote(location))
	}
	u = base.ResolveReference(u)
	if u.Host != base.Host {
		return "", fmt.Errorf("ask %s: it sends to %s: must be the same host: others are not told who asks", base,
			config.Quote(u.Host))
	}
	u.Scheme = base.Scheme
	return u.String(), nil
}

// refusal is the error of an answer that is no success.
func refusal(base string, status int, text []byte) error {
	var m struct{ Msg, Message string } // some answers of the original have the other
	if json.Unmarshal(text, &m) != nil || m.Msg+m.Message == "" {
		m.Msg = fmt.Sprintf("%s answered status %d without a message: is it ConfigDB?", base, status)
	}
	return &Error{Status: status, Msg: m.Msg + m.Message}
}

// count is a number in a header; 0 if there is none.
func count(h http.Header, name string) uint64 {
	n, _ := strconv.ParseUint(h.Get(name), 10, 64)
	return n
}

// WriteOptions go with a write.
type WriteOptions struct {
	Message string // for the history
	DryRun  bool   // say what would change, and do nothing
	IfMatch string // the ETag that the half of a record must have; "": any
}

// Stored is what came of a write. Changes are those of a dry run, a rollback or a bulk.
type Stored struct {
	ETag     string
	Version  uint64 // of the values
	Revision uint64 // of the facts
	Changed  bool   // known of those that have Changes only
	Changes  []model.Change
}

// write does a write that is answered with nothing, or with Done.
func (c *Client) write(ctx context.Context, method, path string, body any, o WriteOptions) (Stored, error) {
	r, err := writeRequest(method, path, body, o)
	if err != nil {
		return Stored{}, err
	}
	text, resp, err := c.Ask(ctx, r)
	if err != nil {
		return Stored{}, err
	}
	out := Stored{ETag: resp.Header.Get("ETag"), Version: count(resp.Header, VersionHeader),
		Revision: count(resp.Header, RevisionHeader)}
	if len(text) > 0 {
		var done Done
		if err := c.Decode(text, &done); err != nil {
			return Stored{}, err
		}
		out.Revision, out.Changed, out.Changes = done.Revision, done.Changed, done.Changes
	}
	return out, nil
}

func writeRequest(method, path string, body any, o WriteOptions) (request, error) {
	r := request{Method: method, Path: path, Query: url.Values{}, Header: map[string]string{}}
	rest.SetText(r.Query, "message", o.Message)
	rest.SetFlag(r.Query, "dryRun", o.DryRun)
	if o.IfMatch != "" {
		r.Header["If-Match"] = o.IfMatch
	}
	if body == nil {
		return r, nil
	}
	text, err := rest.JSON(body)
	r.Body = text
	return r, err
}

// to is a path of segments, each escaped.
func to(segments ...any) string {
	out := make([]string, len(segments))
	for i, s := range segments {
		out[i] = segment(fmt.Sprint(s))
	}
	return strings.Join(out, "/")
}

// segment is one segment of a path. One of dots only would mean another place to a proxy.
func segment(s string) string {
	if s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}
