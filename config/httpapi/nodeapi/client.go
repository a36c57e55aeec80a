package nodeapi

import (
	"bytes"
	"context"
	"edgespan/config/httpapi/rest"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// maxAnswer bounds what a client reads of one answer, in bytes: 999 networks and their
// apps are a few MiB.
const maxAnswer = 256 << 20

// Client asks a daemon over its control socket. Its methods mirror Backend, and their
// errors are those of this package, so that a caller can branch (exit codes).
type Client struct {
	socket string
	http   *http.Client
}

// NewClient returns a client of the daemon behind the unix socket. It connects when it
// is asked something.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, &dialError{err}
		}
		return c, nil
	}
	return &Client{socket: socket,
		http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true}}}
}

// Close drops the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Apply stores doc as the node's whole config.
func (c *Client) Apply(ctx context.Context, doc []byte, how How) (warnings []string, err error) {
	var out applied
	path := "/v1/apply"
	if q := how.query(); q != "" {
		path += "?" + q
	}
	err = c.post(ctx, path, doc, &out)
	return out.Warnings, err
}

// Plan says what Apply of doc would change.
func (c *Client) Plan(ctx context.Context, doc []byte) ([]Change, error) {
	var out planned
	err := c.post(ctx, "/v1/apply?dryRun=1", doc, &out)
	return out.Changes, err
}

// List returns all resources of a kind, by id as the daemon orders them; *Incomplete
// comes with the part that was there.
func (c *Client) List(ctx context.Context, kind string) ([]Resource, error) {
	var out listed
	if err := c.get(ctx, "/v1/"+url.PathEscape(kind), &out); err != nil {
		return nil, err
	}
	if len(out.Missing) > 0 {
		return out.Items, &rest.Incomplete{Missing: out.Missing}
	}
	return out.Items, nil
}

// Get returns one resource, or ErrNotFound.
func (c *Client) Get(ctx context.Context, kind, id string) (Resource, error) {
	var out Resource
	err := c.get(ctx, "/v1/"+url.PathEscape(kind)+"/"+escapeID(id), &out)
	return out, err
}

// Ready judges a network instance (kind "ni") or an app ("app").
func (c *Client) Ready(ctx context.Context, kind, id string) (Readiness, error) {
	var out Readiness
	err := c.get(ctx, "/v1/"+url.PathEscape(kind)+"/"+escapeID(id)+"/ready", &out)
	return out, err
}

// Version is the version of the daemon.
func (c *Client) Version(ctx context.Context) (string, error) {
	var out versioned
	err := c.get(ctx, "/v1/version", &out)
	return out.Version, err
}

// escapeID keeps the slash of an adapter's id and escapes the rest.
func escapeID(id string) string { return strings.ReplaceAll(url.PathEscape(id), "%2F", "/") }

func (c *Client) post(ctx context.Context, path string, doc []byte, out any) error {
	// The daemon would answer 413 and close while we still write: EPIPE instead of its words.
	if len(doc) > MaxDocument {
		return &rest.Rejected{Faults: []string{tooLarge}}
	}
	return c.do(ctx, http.MethodPost, path, doc, out)
}

func (c *Client) get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

func (c *Client) do(ctx context.Context, method, path string, doc []byte, out any) error {
	// every host is our socket
	req, err := http.NewRequestWithContext(ctx, method, "http://edgespan"+path, bytes.NewReader(doc)) //nolint:gosec
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.socket, err)
	}
	resp, err := c.http.Do(req) //nolint:gosec // every host is our socket
	if err != nil {
		return c.failed(err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return c.failed(err)
	}
	if resp.StatusCode != http.StatusOK {
		return problemError(resp.StatusCode, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read answer of %s: %w", c.socket, err)
	}
	return nil
}

// dialError marks that no connection was made, so that nothing was asked.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// failed types an error below HTTP. A connection that breaks before the answer is a
// daemon that went away: unreachable too.
func (c *Client) failed(err error) error {
	var dial *dialError
	var uerr *url.Error
	if errors.As(err, &uerr) {
		err = uerr.Err // without the made-up host name
	}
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("connect %s: %w: membership of its group or root is needed", c.socket, rest.ErrPermission)
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &dial):
		return fmt.Errorf("%w at %s: %s", rest.ErrUnreachable, c.socket, rootCause(dial.err))
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err):
		return fmt.Errorf("ask %s: %w", c.socket, rest.ErrTimeout)
	}
	return fmt.Errorf("%w at %s: it went away: %s", rest.ErrUnreachable, c.socket, rootCause(err))
}

// rootCause leaves out what net says around an error: the socket was made under
// another name, which the kernel goes on telling.
func rootCause(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err
	}
	return err.Error()
}

// problemError is the typed error of a problem body.
func problemError(status int, text []byte) error {
	var p problem
	if json.Unmarshal(text, &p) != nil || p.Type == "" {
		return fmt.Errorf("daemon answered status %d without a problem body", status)
	}
	switch p.Type {
	case typeRejected:
		return &rest.Rejected{Faults: p.Errors}
	case typeTooLarge:
		return &rest.Rejected{Faults: []string{p.Detail}}
	}
	kinds := map[string]error{
		typeConflict: rest.ErrConflict, typeBusy: rest.ErrBusy, typeNotFound: rest.ErrNotFound,
		typePermission: rest.ErrPermission, typeTimeout: rest.ErrTimeout,
	}
	return &remoteError{kind: kinds[p.Type], detail: p.Detail}
}

// remoteError speaks the daemon's words and unwraps to one of the sentinels.
type remoteError struct {
	kind   error
	detail string
}

func (e *remoteError) Error() string { return e.detail }
func (e *remoteError) Unwrap() error { return e.kind }
