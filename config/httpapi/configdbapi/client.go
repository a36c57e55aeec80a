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

// Options are the address of ConfigDB and the caller's credentials.
type Options struct {
	// URL is the endpoint with its prefix, "https://controller:8443/api/v1/config" or one from a service catalog; without
	// a path, the seed's prefix is used.
	URL string
	// Authorize adds the credentials to a request; nil: none. WithToken and WithPassword make one.
	Authorize func(*http.Request)
	// Transport sends the requests and holds the trusted CAs; nil uses the system's.
	Transport http.RoundTripper
}

// WithToken authorizes with a Keystone token or an operator token.
func WithToken(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("X-Auth-Token", token) }
}

// WithPassword authorizes with a name and a password.
func WithPassword(user, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(user, password) }
}

// Error is an error answer of ConfigDB.
type Error struct {
	Status int
	Msg    string
}

func (e *Error) Error() string { return e.Msg }

// Unwrap returns the error of config/httpapi/rest that a caller branches on.
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

// Client sends requests to ConfigDB. Its errors are *Error, or ErrUnreachable and ErrTimeout of config/httpapi/rest.
// Timeouts come from the contexts. It follows a 308 only within the same host, because the credentials and the request
// are sent again.
type Client struct{ *rest.Client }

// NewClient returns a client of an endpoint. It connects on the first request.
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

// request is one request.
type request = rest.Request

// next returns the URL that a redirect leads to. The scheme does not change: a proxy may speak TLS while the server
// behind it does not.
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

// refusal returns the error for an unsuccessful answer.
func refusal(base string, status int, text []byte) error {
	var m struct{ Msg, Message string } // some answers of the original have message instead of msg
	if json.Unmarshal(text, &m) != nil || m.Msg+m.Message == "" {
		m.Msg = fmt.Sprintf("%s answered status %d without a message: is it ConfigDB?", base, status)
	}
	return &Error{Status: status, Msg: m.Msg + m.Message}
}

// count returns the number in a header; 0 if there is none.
func count(h http.Header, name string) uint64 {
	n, _ := strconv.ParseUint(h.Get(name), 10, 64)
	return n
}

// WriteOptions are the options of a write.
type WriteOptions struct {
	Message string // for the history
	DryRun  bool   // report what would change, and do nothing
	IfMatch string // the ETag that the half of the record must have; "": any
}

// Stored is the result of a write. Changes are set for a dry run, a rollback or a bulk.
type Stored struct {
	ETag     string
	Version  uint64 // of the values
	Revision uint64 // of the facts
	Changed  bool   // valid only with Changes
	Changes  []model.Change
}

// write sends a write that is answered with an empty body or with Done.
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

// to joins segments to a path and escapes each.
func to(segments ...any) string {
	out := make([]string, len(segments))
	for i, s := range segments {
		out[i] = segment(fmt.Sprint(s))
	}
	return strings.Join(out, "/")
}

// segment escapes one segment of a path. A proxy would resolve a segment of dots.
func segment(s string) string {
	if s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}
