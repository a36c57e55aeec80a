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

// Server-sent events (WHATWG HTML §9.2): an event named "state" at once, and one for each change.
// A watch ends by itself after rest.StreamDeadline, when what it watches is gone, and when the
// controller ends: whoever goes on asks again, and is told at once how it is.
const (
	pace = 100 * time.Millisecond // least time between two events
)

// watch answers with events: what look gives, whenever that is another by what quiet leaves of it.
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
		asked := c.Clone(c.Context()) // what it said of itself may be let go with its answer
		r := reply{Events: true, Done: leave}
		r.Stream = func(ctx context.Context, w io.Writer) error {
			out := rest.WhileKnown{Writer: w, Known: func() bool { return a.still(asked.WithContext(ctx), c.Caller) }}
			return ending(ctx, rest.Beating(ctx, out, func(ctx context.Context, tell func([]byte) error) error {
				c.Request = c.WithContext(ctx)
				s := watcher[T]{tell: tell, quiet: quiet, look: func() (T, error) { return look(a, c) }}
				return s.run(ctx, mark, first, a.backend.Changed)
			}))
		}
		return r, nil
	}
}

// still says whether a caller may go on: their token is as good as when they began.
func (a *api) still(r *http.Request, was Caller) bool {
	if a.Local {
		return true
	}
	again, err := a.authenticate(r)
	if err != nil {
		a.problemOf(&rest.Call{Request: r}, err) // what is wrong with the store is for the log
	}
	return err == nil && again == was
}

// ending is the error of a watch that shall be known: not that it has come to its end, or that
// there is nothing more to tell.
func ending(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, ErrBusy) || errors.As(err, new(*ops.NotFoundError)) {
		return nil
	}
	return err
}

// watcher tells one reader of what is another by what quiet leaves of it.
type watcher[T any] struct {
	tell  func(text []byte) error
	look  func() (T, error)
	quiet func(T) T
	last  []byte // what was told, without what is not worth telling
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

// show tells an event, if there is something new in it.
func (s *watcher[T]) show(v T) error {
	key, err := encode(s.quiet(v))
	if err != nil || bytes.Equal(key, s.last) {
		return err
	}
	s.last = key
	text, err := encode(filled(reflect.ValueOf(v)).Interface())
	if err != nil {
		return err
	}
	return s.tell(slices.Concat([]byte("event: state\ndata: "), text, []byte("\n"))) // JSON is one line, and ends it
}

// quietPeer is a peer without what is another each moment.
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
