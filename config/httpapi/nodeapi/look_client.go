package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"edgespan/config/httpapi/rest"
)

// Client implements Looker like the daemon.
var _ Looker = (*Client)(nil)

// Explain says why one object is ready or not.
func (c *Client) Explain(ctx context.Context, kind, id string) (Explanation, error) {
	return rest.Get[Explanation](ctx, c.Client, "/v1/explain", url.Values{"of": {kind + "/" + id}})
}

// Diff lists the differences between the host and the desired state.
func (c *Client) Diff(ctx context.Context, of string) ([]Difference, error) {
	out, err := rest.Get[differing](ctx, c.Client, "/v1/diff", url.Values{"of": {of}})
	return out.Differences, err
}

// Doctor lists problems on this node.
func (c *Client) Doctor(ctx context.Context) ([]Finding, error) {
	out, err := rest.Get[found](ctx, c.Client, "/v1/doctor", nil)
	return out.Findings, err
}

// Events emits recorded events, and with Follow new ones.
func (c *Client) Events(ctx context.Context, q EventQuery, emit func(Event) error) error {
	v := url.Values{"of": {q.Of}, "last": {strconv.Itoa(q.Last)}}
	if q.Kind != "" {
		v.Set("kind", q.Kind)
	}
	if q.Follow {
		v.Set("follow", "1")
	}
	if q.Why {
		v.Set("why", "1")
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	return readLines(ctx, c, "/v1/events", v, q.Follow, emit)
}

// Watch emits the current resources and every change of them.
func (c *Client) Watch(ctx context.Context, kinds []string, emit func(Observed) error) error {
	return readLines(ctx, c, "/v1/watch", url.Values{"kinds": {strings.Join(kinds, ",")}}, true, emit)
}

// readLines emits each line of a stream. An endless stream ends with ctx or with emit's error; if it ends otherwise,
// the daemon stopped.
func readLines[T any](ctx context.Context, c *Client, path string, q url.Values, endless bool,
	emit func(T) error) error {
	resp, err := c.Send(ctx, rest.Request{Method: http.MethodGet, Path: path, Query: q})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	lines := json.NewDecoder(resp.Body)
	for {
		var v T
		switch err := lines.Decode(&v); {
		case errors.Is(err, io.EOF) && !endless:
			return nil
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return c.Failed(err)
		}
		if err := emit(v); err != nil {
			return err
		}
	}
}
