package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// The client is the same Looker that the daemon is.
var _ Looker = (*Client)(nil)

// Explain says why one object is ready or not.
func (c *Client) Explain(ctx context.Context, kind, id string) (Explanation, error) {
	var out Explanation
	err := c.get(ctx, "/v1/explain?of="+url.QueryEscape(kind+"/"+id), &out)
	return out, err
}

// Diff says what on the host is not as wanted.
func (c *Client) Diff(ctx context.Context, of string) ([]Difference, error) {
	var out differing
	err := c.get(ctx, "/v1/diff?of="+url.QueryEscape(of), &out)
	return out.Differences, err
}

// Doctor looks for what is in the way of the daemon.
func (c *Client) Doctor(ctx context.Context) ([]Finding, error) {
	var out found
	err := c.get(ctx, "/v1/doctor", &out)
	return out.Findings, err
}

// Events gives what happened, and with Follow what will.
func (c *Client) Events(ctx context.Context, q EventQuery, emit func(Event) error) error {
	v := url.Values{"of": {q.Of}, "last": {strconv.Itoa(q.Last)}}
	if q.Follow {
		v.Set("follow", "1")
	}
	return readLines(ctx, c, "/v1/events?"+v.Encode(), q.Follow, emit)
}

// Watch gives what there is and every change of it.
func (c *Client) Watch(ctx context.Context, kinds []string, emit func(Seen) error) error {
	return readLines(ctx, c, "/v1/watch?kinds="+url.QueryEscape(strings.Join(kinds, ",")), true, emit)
}

// readLines gives each line of a stream to emit. One that is endless ends with ctx or
// with emit's error; that it ended by itself means that the daemon went away.
func readLines[T any](ctx context.Context, c *Client, path string, endless bool, emit func(T) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://edgespan"+path, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.socket, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.failed(err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return c.failed(err)
		}
		return problemError(resp.StatusCode, text)
	}
	lines := json.NewDecoder(resp.Body)
	for {
		var v T
		switch err := lines.Decode(&v); {
		case errors.Is(err, io.EOF) && !endless:
			return nil
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return c.failed(err)
		}
		if err := emit(v); err != nil {
			return err
		}
	}
}
