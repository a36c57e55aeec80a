package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"edgespan/config/httpapi/rest"
)

// maxAnswer bounds the bytes of one answer that a client reads: 999 networks and their apps are a few MiB.
const maxAnswer = 256 << 20

// Client sends requests to a daemon over its control socket. Its methods mirror Backend, and its errors are those of
// config/httpapi/rest, so that a caller can branch (exit codes).
type Client struct{ *rest.Client }

// NewClient returns a client of the daemon behind the unix socket. It connects on the first request.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, &dialError{err}
		}
		return c, nil
	}
	return &Client{&rest.Client{Name: socket, Base: "http://edgespan", Max: maxAnswer, // the host name is ignored
		Transport: &http.Transport{DialContext: dial, DisableCompression: true}, Authorize: func(*http.Request) {},
		Refusal: problemError, Failed: func(err error) error { return failed(socket, err) }}}
}

// Apply stores doc as the node's complete config.
func (c *Client) Apply(ctx context.Context, doc []byte, how ApplyOptions) (warnings []string, err error) {
	out, err := post[applied](ctx, c, "/v1/apply", how.query(), doc)
	return out.Warnings, err
}

// List returns all resources of a kind, in the daemon's order; with *Incomplete it also returns the ones that the
// daemon has.
func (c *Client) List(ctx context.Context, kind string) ([]Resource, error) {
	out, err := rest.Get[listed](ctx, c.Client, "/v1/"+url.PathEscape(kind), nil)
	if len(out.Missing) > 0 {
		err = &rest.Incomplete{Missing: out.Missing}
	}
	return out.Items, err
}

// Get returns one resource, or ErrNotFound.
func (c *Client) Get(ctx context.Context, kind, id string) (Resource, error) {
	return rest.Get[Resource](ctx, c.Client, "/v1/"+url.PathEscape(kind)+"/"+escapeID(kind, id), nil)
}

// Ready returns the readiness of a network instance (kind "ni") or an app ("app").
func (c *Client) Ready(ctx context.Context, kind, id string) (Readiness, error) {
	return rest.Get[Readiness](ctx, c.Client, "/v1/"+url.PathEscape(kind)+"/"+escapeID(kind, id)+"/ready", nil)
}

// Metrics returns the metrics as text for Prometheus.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	resp, err := c.Send(ctx, rest.Request{Method: http.MethodGet, Path: "/metrics"})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, c.Failed(err)
	}
	return text, nil
}

// Version returns the version of the daemon.
func (c *Client) Version(ctx context.Context) (string, error) {
	out, err := rest.Get[versioned](ctx, c.Client, "/v1/version", nil)
	return out.Version, err
}

// escapeID escapes an id, except its slashes. The id of a network, app or adapter may be a display name with any
// characters: there, slashes are escaped too, except the one before an adapter's index, and so are dots, which would be
// path elements.
func escapeID(kind, id string) string {
	if !isUUIDKind(kind) {
		return strings.ReplaceAll(url.PathEscape(id), "%2F", "/")
	}
	name, index, ok := SplitAdapter(id)
	if kind != "adapter" || !ok {
		return strings.ReplaceAll(url.PathEscape(id), ".", "%2E")
	}
	return strings.ReplaceAll(url.PathEscape(name)+"/"+url.PathEscape(index), ".", "%2E")
}

func post[T any](ctx context.Context, c *Client, path string, q url.Values, doc []byte) (out T, err error) {
	// The daemon would answer 413 and close the connection during the upload: the client would see EPIPE.
	if len(doc) > MaxDocument {
		return out, &rest.Rejected{Faults: []string{tooLarge}}
	}
	return rest.Ask[T](ctx, c.Client, rest.Request{Method: http.MethodPost, Path: path, Query: q, Body: doc})
}

// dialError marks an error before the connection: no request was sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// DoctorHint ends the error for a daemon that can't be reached.
const DoctorHint = ": run 'edgespan doctor' to find out why"

// failed classifies an error below HTTP. A connection that breaks before the answer counts as unreachable: the daemon
// stopped.
func failed(socket string, err error) error {
	var dial *dialError
	var uerr *url.Error
	if errors.As(err, &uerr) {
		err = uerr.Err // without the URL, whose host name is invented
	}
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("connect %s: %w: run as root, or as a member of the socket's group", socket, rest.ErrPermission)
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &dial):
		return fmt.Errorf("%w at %s: %s%s", rest.ErrUnreachable, socket, rootCause(dial.err), DoctorHint)
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err):
		return fmt.Errorf("ask %s: %w", socket, rest.ErrTimeout)
	}
	return fmt.Errorf("%w at %s: it went away: %s", rest.ErrUnreachable, socket, rootCause(err))
}

// rootCause returns the innermost error without the texts that package net adds: they name the path under which the
// socket was created, which a rename does not change in the kernel.
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

// problemError returns the typed error for a problem body.
func problemError(status int, text []byte) error {
	var faults []string
	p := rest.Problem{Errors: &faults}
	if json.Unmarshal(text, &p) != nil || p.Type == "" {
		return fmt.Errorf("daemon answered status %d without a problem body", status)
	}
	switch p.Type {
	case rest.TypeRejected:
		return &rest.Rejected{Faults: faults}
	case rest.TypeTooLarge:
		return &rest.Rejected{Faults: []string{p.Detail}}
	}
	kinds := map[string]error{
		rest.TypeConflict: rest.ErrConflict, rest.TypeBusy: rest.ErrBusy, rest.TypeNotFound: rest.ErrNotFound,
		rest.TypePermission: rest.ErrPermission, rest.TypeTimeout: rest.ErrTimeout,
	}
	return &remoteError{kind: kinds[p.Type], detail: p.Detail}
}

// remoteError has the daemon's text and unwraps to one of the sentinels.
type remoteError struct {
	kind   error
	detail string
}

func (e *remoteError) Error() string { return e.detail }
func (e *remoteError) Unwrap() error { return e.kind }
