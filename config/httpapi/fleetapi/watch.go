package fleetapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
)

// Server-sent events (WHATWG HTML §9.2): an event named "state" at once, and one for each change. A watch ends after
// rest.StreamDeadline, when its object is deleted, and when the controller shuts down: the client then watches again,
// and gets the state at once.
const (
	pace = 100 * time.Millisecond // minimum time between two events
)

// watch answers with events: the result of look, whenever quiet(look) has changed.
func watch[T any](look func(*api, *call) (T, error), quiet func(T) T) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		mark, err := a.backend.Changed(c.Context(), 0)
		if err != nil {
			return reply{}, err
		}
		first, err := look(a, c)
		if err != nil {
			return reply{}, err
		}
		leave, err := a.Watch(c.Call)
		if err != nil {
			return reply{}, err
		}
		asked := c.Clone(c.Context()) // the headers of the original are cleared with its answer
		r := reply{Events: true, Done: leave}
		r.Stream = func(ctx context.Context, w io.Writer) error {
			out := rest.KnownCallerWriter{Writer: w, Known: func() bool {
				return a.isStillPermitted(asked.WithContext(ctx),
					c.Caller)
			}}
			return ending(ctx, rest.StreamEvents(ctx, out, func(ctx context.Context, tell func([]byte) error) error {
				c.Request = c.WithContext(ctx)
				s := watcher[T]{tell: tell, quiet: quiet, look: func() (T, error) { return look(a, c) }}
				return s.run(ctx, mark, first, a.backend.Changed)
			}))
		}
		return r, nil
	}
}

// isStillPermitted reports whether the caller's token is still valid for the same role.
func (a *api) isStillPermitted(r *http.Request, was Caller) bool {
	if a.Local {
		return true
	}
	again, err := a.authenticate(r)
	if err != nil {
		a.problemOf(&rest.Call{Request: r}, err) // logs an error of the store
	}
	return err == nil && again == was
}

// ending drops the errors that end a watch normally: its time is over, or there is nothing more to send.
func ending(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, ErrBusy) || errors.As(err, new(*ops.NotFoundError)) {
		return nil
	}
	return err
}

// watcher sends a value to one reader whenever quiet of it changes.
type watcher[T any] struct {
	tell  func(text []byte) error
	look  func() (T, error)
	quiet func(T) T
	last  []byte // quiet form of the value sent last
}

func (s *watcher[T]) run(ctx context.Context, mark uint64, v T,
	changed func(context.Context, uint64) (uint64, error)) error {
	if err := s.show(v); err != nil {
		return err
	}
	for {
		next, err := changed(ctx, mark)
		if err != nil {
			return err
		}
		mark = next
		if v, err = s.look(); err != nil {
			return err
		}
		if err := s.show(v); err != nil {
			return err
		}
		select {
		case <-time.After(pace):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// show sends an event, if the value has changed.
func (s *watcher[T]) show(v T) error {
	key, err := encode(s.quiet(v))
	if err != nil || bytes.Equal(key, s.last) {
		return err
	}
	s.last = key
	text, err := encode(fillEmpty(reflect.ValueOf(v)).Interface())
	if err != nil {
		return err
	}
	return s.tell(slices.Concat([]byte("event: state\ndata: "), text, []byte("\n"))) // JSON has one line, and ends it
}

// quietPeer removes the fields that change all the time.
func quietPeer(d PeerDetail) PeerDetail {
	d.LastReport, d.AgeSeconds = nil, nil
	return d
}

func quietCluster(d ClusterDetail) ClusterDetail {
	d.Peers = slices.Clone(d.Peers)
	for i := range d.Peers {
		d.Peers[i].LastReport, d.Peers[i].AgeSeconds = nil, nil
	}
	return d
}
