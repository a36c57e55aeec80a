package configdbapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
)

// maxEvent bounds one line of a watch, in bytes: the record of a large revision.
const maxEvent = 16 << 20

// History returns the revisions of the facts, the newest first.
func (c *Client) History(ctx context.Context, q model.RecordsQuery) ([]model.Record, error) {
	v := part(q.Before, q.Limit)
	rest.SetCount(v, "environment", uint64(max(q.Environment, 0)))
	return rest.Get[[]model.Record](ctx, c.Client, toHistory, v)
}

// Revision returns one revision.
func (c *Client) Revision(ctx context.Context, revision uint64) (model.Record, error) {
	return rest.Get[model.Record](ctx, c.Client, to(toHistory, revision), nil)
}

// WatchOptions select the revisions that a watch delivers.
type WatchOptions struct {
	Since       uint64 // the revision to begin after; 0: the current one
	FromStart   bool   // begin with the first revision
	Environment int64  // 0: all
	Resource    string // "": all; a name requires Environment
	Level       *model.LevelValue
}

// Watch delivers each revision, in order and once, until the context ends or deliver returns an error, which Watch
// returns. It reconnects when a stream ends, and continues after the last delivered revision; while the server is
// unreachable or busy, it tries again after each pause.
func (c *Client) Watch(ctx context.Context, o WatchOptions, pause time.Duration,
	deliver func(model.Record) error) error {
	q := url.Values{}
	rest.SetCount(q, "environment", uint64(max(o.Environment, 0)))
	rest.SetText(q, "resource", o.Resource)
	if o.Level != nil {
		q.Set("level", o.Level.Level+"="+o.Level.Value)
	}
	if o.FromStart {
		q.Set("since", "0")
	}
	rest.SetCount(q, "since", o.Since)
	for {
		began := time.Now()
		err := c.watchOnce(ctx, q, deliver)
		var stop stopped
		switch {
		case errors.As(err, &stop):
			return stop.error
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, rest.ErrBusy) && !errors.Is(err, rest.ErrUnreachable) &&
			!errors.Is(err, rest.ErrTimeout):
			return err
		}
		if err == nil && time.Since(began) > pause {
			continue // the stream reached its time limit
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stopped wraps an error of deliver.
type stopped struct{ error }

// watchOnce follows one stream, and sets the query to where the next one begins.
func (c *Client) watchOnce(ctx context.Context, q url.Values, deliver func(model.Record) error) error {
	resp, err := c.Send(ctx, request{Method: http.MethodGet, Path: toWatch, Query: q})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	if !q.Has("since") {
		q.Set("since", fmt.Sprint(count(resp.Header, RevisionHeader)))
	}
	for text, err := range rest.Events(resp.Body, maxEvent) {
		var r model.Record
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return c.Failed(err)
		}
		if err := c.Decode(text, &r); err != nil {
			return err
		}
		if err := deliver(r); err != nil {
			return stopped{err}
		}
		q.Set("since", fmt.Sprint(r.Revision))
	}
	return nil
}
