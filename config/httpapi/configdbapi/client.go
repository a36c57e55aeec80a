package configdbapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// maxAnswer bounds what a client reads of one answer, in bytes.
const maxAnswer = 1 << 30

// maxFollowed is how many redirects a client follows.
const maxFollowed = 3

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

// Client asks ConfigDB. Its errors are *Error, or ErrUnreachable and ErrTimeout of config/httpapi.
// How long it waits is its contexts' to say.
type Client struct {
	base *url.URL
	who  func(*http.Request)
	http *http.Client
}

// NewClient returns a client of an endpoint. It connects when it is asked something.
func NewClient(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" ||
		u.User != nil {
		return nil, fmt.Errorf("controller: is %s: https://HOST:PORT is allowed", config.Quote(o.URL))
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
	return &Client{base: u, who: o.Authorize, http: &http.Client{
		Transport:     o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close drops the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request is one question. path is escaped.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	header       map[string]string
}

// send sends a request and gives the answer of a success, or a 304. A 308 is followed where it stays
// with the host that was asked: who asks, and what for, goes with it.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	target := c.base.String() + r.path
	if q := r.query.Encode(); q != "" {
		target += "?" + q
	}
	for followed := 0; ; followed++ {
		req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
		if err != nil {
			return nil, fmt.Errorf("ask %s: %w", c.base, err)
		}
		if r.body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		for name, value := range r.header {
			req.Header.Set(name, value)
		}
		c.who(req)
		resp, err := c.http.Do(req)
		if err != nil {
			return nil, rest.Failed(c.base.String(), err)
		}
		if resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusNotModified {
			return resp, nil
		}
		err = c.refusal(resp)
		if resp.StatusCode != http.StatusPermanentRedirect {
			return nil, err
		}
		next, fault := c.next(resp.Header.Get("Location"))
		if fault != nil {
			return nil, fault
		}
		if followed == maxFollowed {
			return nil, fmt.Errorf("ask %s: it sends from one place to the next: the last is %s", c.base, next)
		}
		target = next
	}
}

// next is where a redirect goes. The scheme stays: a proxy may speak TLS where what stands behind
// it does not.
func (c *Client) next(location string) (string, error) {
	u, err := url.Parse(location)
	if err != nil || location == "" {
		return "", fmt.Errorf("ask %s: it sends to %s: a URL is allowed", c.base, config.Quote(location))
	}
	u = c.base.ResolveReference(u)
	if u.Host != c.base.Host {
		return "", fmt.Errorf("ask %s: it sends to %s: the same host is allowed: others are not told who asks", c.base,
			config.Quote(u.Host))
	}
	u.Scheme = c.base.Scheme
	return u.String(), nil
}

// refusal is the error of an answer that is no success.
func (c *Client) refusal(resp *http.Response) error {
	defer func() { _ = resp.Body.Close() }() // only read from
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return rest.Failed(c.base.String(), err)
	}
	var m struct{ Msg, Message string } // some answers of the original have the other
	if json.Unmarshal(text, &m) != nil || m.Msg+m.Message == "" {
		m.Msg = fmt.Sprintf("%s answered status %d without a message: is it ConfigDB?", c.base, resp.StatusCode)
	}
	return &Error{Status: resp.StatusCode, Msg: m.Msg + m.Message}
}

// ask sends a request and reads the answer whole.
func (c *Client) ask(ctx context.Context, r request) ([]byte, answered, error) {
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, answered{}, err
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, answered{}, rest.Failed(c.base.String(), err)
	}
	return text, answered{resp.StatusCode, resp.Header}, nil
}

// answered is an answer without its body.
type answered struct {
	status int
	header http.Header
}

// count is a number in a header; 0 if there is none.
func (a answered) count(name string) uint64 {
	n, _ := strconv.ParseUint(a.header.Get(name), 10, 64)
	return n
}

// get reads what a route answers into out.
func (c *Client) get(ctx context.Context, path string, q url.Values, out any) error {
	return c.do(ctx, request{method: http.MethodGet, path: path, query: q}, out)
}

func (c *Client) do(ctx context.Context, r request, out any) error {
	text, _, err := c.ask(ctx, r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read answer of %s: %w", c.base, err)
	}
	return nil
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
	text, resp, err := c.ask(ctx, r)
	if err != nil {
		return Stored{}, err
	}
	out := Stored{ETag: resp.header.Get("ETag"), Version: resp.count(VersionHeader), Revision: resp.count(RevisionHeader)}
	if len(text) > 0 {
		var done Done
		if err := json.Unmarshal(text, &done); err != nil {
			return Stored{}, fmt.Errorf("read answer of %s: %w", c.base, err)
		}
		out.Revision, out.Changed, out.Changes = done.Revision, done.Changed, done.Changes
	}
	return out, nil
}

func writeRequest(method, path string, body any, o WriteOptions) (request, error) {
	r := request{method: method, path: path, query: url.Values{}, header: map[string]string{}}
	if o.Message != "" {
		r.query.Set("message", o.Message)
	}
	if o.DryRun {
		r.query.Set("dryRun", "1")
	}
	if o.IfMatch != "" {
		r.header["If-Match"] = o.IfMatch
	}
	if body == nil {
		return r, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(body)
	r.body = b.Bytes()
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
