package fleetapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
)

// maxAnswer bounds what a client reads of one answer, in bytes: the configs of ten thousand
// nodes are some hundred MiB.
const maxAnswer = 1 << 30

// Options say where a controller is and who asks.
type Options struct {
	URL   string // "https://controller:8443"; a path before the routes is kept
	Token string // an operator token; "" for a controller without authentication
	// Transport carries the requests. It holds whom to trust (TLSClientConfig, made by
	// platform/pki); nil trusts what the system trusts.
	Transport http.RoundTripper
}

// Client asks a controller. Its errors are *Problem, which unwraps to the errors of
// config/httpapi, or those of config/httpapi themselves: ErrUnreachable and ErrTimeout. How
// long it waits is its contexts' to say.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// NewClient returns a client of the controller at a URL. It connects when it is asked
// something. It never follows a redirect: the token would go with it.
func NewClient(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" ||
		u.User != nil {
		return nil, fmt.Errorf("controller: is %s: https://HOST:PORT is allowed", config.Quote(o.URL))
	}
	t := o.Transport
	if t == nil {
		t = http.DefaultTransport
	}
	return &Client{base: strings.TrimSuffix(u.String(), "/"), token: o.Token, http: &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close drops the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request is one question. path is already escaped.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	ifMatch      string
}

// ask sends a request and gives the answer's text and header. What is no success is an error.
func (c *Client) ask(ctx context.Context, r request) ([]byte, http.Header, error) {
	var text bytes.Buffer
	h, err := c.send(ctx, r, &text, maxAnswer)
	return text.Bytes(), h, err
}

// stream sends a request and writes the answer as it comes, however long it is.
func (c *Client) stream(ctx context.Context, r request, w io.Writer) error {
	_, err := c.send(ctx, r, w, math.MaxInt64)
	return err
}

// send sends a request and writes so many bytes of the answer of a success.
func (c *Client) send(ctx context.Context, r request, w io.Writer, most int64) (http.Header, error) {
	target := c.base + r.path
	if q := r.query.Encode(); q != "" {
		target += "?" + q
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.base, err)
	}
	if r.method != http.MethodGet {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.ifMatch != "" {
		req.Header.Set("If-Match", r.ifMatch)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, rest.Failed(c.base, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	if resp.StatusCode/100 != 2 {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return nil, rest.Failed(c.base, err)
		}
		return nil, c.refusal(resp.StatusCode, text)
	}
	out := &taking{Writer: w}
	if _, err = io.Copy(out, io.LimitReader(resp.Body, most)); err != nil && out.err == nil {
		return nil, rest.Failed(c.base, err)
	}
	return resp.Header, err
}

// taking tells the errors of who takes an answer from those of the connection.
type taking struct {
	io.Writer
	err error
}

func (t *taking) Write(p []byte) (n int, err error) {
	n, err = t.Writer.Write(p)
	t.err = err
	return n, err
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

// document reads a route that answers with an object.
func (c *Client) document(ctx context.Context, path string, q url.Values) (ops.Document, error) {
	text, h, err := c.ask(ctx, request{method: http.MethodGet, path: path, query: q})
	if err != nil {
		return ops.Document{}, err
	}
	d, err := documentOf(text, h)
	if err != nil {
		return ops.Document{}, fmt.Errorf("read answer of %s: %w", c.base, err)
	}
	return d, nil
}

// documentOf is the document of an answer.
func documentOf(text []byte, h http.Header) (ops.Document, error) {
	o, faults := config.ParseObject(text)
	if len(faults) > 0 {
		return ops.Document{}, errors.New(faults.Error())
	}
	// An ETag that is no number is that of a document without revisions.
	n, _ := strconv.ParseUint(strings.Trim(h.Get("ETag"), `"`), 10, 64)
	return ops.Document{Object: o, Revision: n, Digest: h.Get(DigestHeader)}, nil
}

// refusal is the error of an answer that is no success.
func (c *Client) refusal(status int, text []byte) error {
	var p Problem
	if json.Unmarshal(text, &p) != nil || p.Type == "" {
		return fmt.Errorf("%s answered status %d without a problem body: is it a controller?", c.base, status)
	}
	return &p
}
