package rest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"

	"edgespan/config"
)

// maxAnswer is the default bound on the bytes of one answer that a client reads: the configs of ten thousand nodes are
// some hundred MiB.
const maxAnswer = 1 << 30

// maxFollowed is how many redirects a client follows.
const maxFollowed = 3

// Client sends requests to one API. It does not let net/http follow redirects, which would pass the credentials on.
// Timeouts come from the contexts.
type Client struct {
	Name      string // of the server, for error texts
	Base      string // prefix of each path
	Max       int64  // bytes of an answer that is read into memory; 0: maxAnswer
	Transport http.RoundTripper
	Authorize func(*http.Request)                   // adds the credentials to a request
	Refusal   func(status int, text []byte) error   // returns the error for an unsuccessful answer
	Failed    func(error) error                     // returns the error for a failure below HTTP
	Next      func(location string) (string, error) // returns the URL that a 308 redirects to; nil: no redirects
}

// Endpoint parses the URL of a controller.
func Endpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" ||
		u.User != nil {
		return nil, fmt.Errorf("controller: invalid value %s: must be https://HOST:PORT", config.Quote(text))
	}
	return u, nil
}

// Close closes the idle connections.
func (c *Client) Close() { (&http.Client{Transport: c.Transport}).CloseIdleConnections() }

// Request is one request. Path is already escaped.
type Request struct {
	Method, Path string
	Query        url.Values
	Body         []byte
	Header       map[string]string
}

// Send sends a request and returns a successful answer, or a 304. The caller closes its body.
func (c *Client) Send(ctx context.Context, r Request) (*http.Response, error) {
	target := c.Base + r.Path
	if q := r.Query.Encode(); q != "" {
		target += "?" + q
	}
	ask := http.Client{Transport: c.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for followed := 0; ; followed++ {
		req, err := http.NewRequestWithContext(ctx, r.Method, target, bytes.NewReader(r.Body))
		if err != nil {
			return nil, fmt.Errorf("ask %s: %w", c.Name, err)
		}
		if r.Body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		for name, value := range r.Header {
			req.Header.Set(name, value)
		}
		c.Authorize(req)
		resp, err := ask.Do(req) //nolint:bodyclose // closed by read, or by the caller of Send
		if err != nil {
			return nil, c.Failed(err)
		}
		if resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusNotModified {
			return resp, nil
		}
		text, err := c.read(resp)
		switch {
		case err != nil:
			return nil, err
		case c.Next == nil || resp.StatusCode != http.StatusPermanentRedirect:
			return nil, c.Refusal(resp.StatusCode, text)
		}
		if target, err = c.Next(resp.Header.Get("Location")); err != nil {
			return nil, err
		}
		if followed == maxFollowed {
			return nil, fmt.Errorf("ask %s: it sends from one place to the next: the last is %s", c.Name, target)
		}
	}
}

// read reads an answer completely.
func (c *Client) read(resp *http.Response) ([]byte, error) {
	defer func() { _ = resp.Body.Close() }() // only read from
	text, err := io.ReadAll(io.LimitReader(resp.Body, cmp.Or(c.Max, maxAnswer)))
	if err != nil {
		return nil, c.Failed(err)
	}
	return text, nil
}

// Ask sends a request and reads the answer completely.
func (c *Client) Ask(ctx context.Context, r Request) ([]byte, *http.Response, error) {
	resp, err := c.Send(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	text, err := c.read(resp)
	return text, resp, err
}

// Copy sends a request and writes the answer as it arrives, however long it is.
func (c *Client) Copy(ctx context.Context, r Request, w io.Writer) error {
	resp, err := c.Send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	out := &taking{Writer: w}
	if _, err = io.Copy(out, resp.Body); err != nil && out.err == nil {
		return c.Failed(err)
	}
	return err
}

// taking keeps the errors of the writer apart from those of the connection.
type taking struct {
	io.Writer
	err error
}

func (t *taking) Write(p []byte) (n int, err error) {
	n, err = t.Writer.Write(p)
	t.err = err
	return n, err
}

// Decode parses the JSON of an answer.
func (c *Client) Decode(text []byte, out any) error {
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read answer of %s: %w", c.Name, err)
	}
	return nil
}

// Ask sends a request and decodes the answer.
func Ask[T any](ctx context.Context, c *Client, r Request) (out T, err error) {
	text, _, err := c.Ask(ctx, r)
	if err == nil {
		err = c.Decode(text, &out)
	}
	return out, err
}

// Get gets a path and decodes the answer.
func Get[T any](ctx context.Context, c *Client, path string, q url.Values) (T, error) {
	return Ask[T](ctx, c, Request{Method: http.MethodGet, Path: path, Query: q})
}

// SetText adds a parameter to a query, unless it is empty.
func SetText(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// SetFlag adds a flag to a query, if it is on.
func SetFlag(q url.Values, name string, on bool) {
	if on {
		q.Set(name, "1")
	}
}

// SetCount adds a number to a query, unless it is 0.
func SetCount(q url.Values, name string, n uint64) {
	if n > 0 {
		q.Set(name, strconv.FormatUint(n, 10))
	}
}

// Events yields the data of the server-sent events in an answer, each at most limit bytes. An incomplete event at the
// end is dropped.
func Events(body io.Reader, limit int) iter.Seq2[[]byte, error] {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, limit)
	lines.Split(func(data []byte, ended bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			return i + 1, data[:i], nil
		}
		return 0, nil, nil
	})
	return func(yield func([]byte, error) bool) {
		for lines.Scan() {
			if text, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok && !yield(text, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// Unreachable classifies an error below HTTP from a request to the controller at base: ErrTimeout, ErrUnreachable or
// the caller's cancellation.
func Unreachable(base string, err error) error {
	var uerr *url.Error
	if errors.As(err, &uerr) {
		err = uerr.Err
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err):
		return &failure{fmt.Sprintf("ask %s: no answer in time", base), ErrTimeout}
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return &failure{fmt.Sprintf("controller not reachable at %s: %s", base, err), ErrUnreachable}
}

// failure has the kind of a sentinel and a text about a controller, where the sentinel's is about a daemon.
type failure struct {
	text string
	kind error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.kind }
