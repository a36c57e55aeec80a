package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"go.uber.org/zap"

	"edgespan/config/fleet/nodeproto"
)

// Handler answers one relay: it reads what the controller sends and writes what it gets, until it returns. Its error is
// for the controller. When ctx ends, because the controller or the stream has gone, it must return soon.
type Handler func(ctx context.Context, argument []byte, with io.ReadWriter) error

// Server is a node's end of relays. It runs at most one of each kind at a time, also over the ends of streams: a
// handler that does not return keeps its kind busy.
type Server struct {
	Kinds map[string]Handler
	Log   *zap.Logger

	mu     sync.Mutex
	stream nodeproto.ToController // nil: none
	open   map[uint64]*running
	busy   map[string]int
}

// running is one relay that is answered.
type running struct {
	channel *Channel
	cancel  context.CancelFunc
}

// Up starts a stream.
func (s *Server) Up(stream nodeproto.ToController) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream, s.open = stream, map[uint64]*running{}
	if s.busy == nil {
		s.busy = map[string]int{}
	}
}

// Down ends the stream and all of its relays.
func (s *Server) Down() {
	s.mu.Lock()
	open := s.open
	s.stream, s.open = nil, nil
	s.mu.Unlock()
	for _, r := range open {
		r.channel.fail(errors.New("the stream to the controller has ended"))
		r.cancel()
	}
}

// Received handles a message of the controller. It never blocks.
func (s *Server) Received(m nodeproto.Relay) {
	if m.Kind != "" {
		s.begin(m)
		return
	}
	s.mu.Lock()
	r := s.open[m.ID]
	s.mu.Unlock()
	if r == nil {
		return // it has ended here
	}
	if r.channel.received(m); m.End {
		r.cancel()
	}
}

// begin starts to answer a relay, or refuses.
func (s *Server) begin(m nodeproto.Relay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == nil || s.open[m.ID] != nil {
		return
	}
	to := s.stream
	send := func(m nodeproto.Relay) error { return to.Send(m) }
	handler, known := s.Kinds[m.Kind]
	refusal := ""
	switch {
	case !known:
		refusal = fmt.Sprintf("%.40q is not supported by this version of the node", m.Kind)
	case s.busy[m.Kind] >= nodeproto.RelaysOf(m.Kind):
		refusal = "busy: another one is under way on this node: try again later"
	}
	if refusal != "" {
		_ = send(nodeproto.Relay{ID: m.ID, End: true, Error: refusal}) // if the stream is gone, so is the controller
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel: cancel}
	r.channel = newChannel(m.ID, send, func() { s.ended(m.ID, r) })
	r.channel.out.Credited(m.Credit)
	s.open[m.ID] = r
	s.busy[m.Kind]++
	go s.answer(ctx, m, r, handler)
}

// answer runs the handler.
func (s *Server) answer(ctx context.Context, m nodeproto.Relay, r *running, handler Handler) {
	err := r.channel.begin(nodeproto.Relay{})
	if err == nil {
		err = s.handle(ctx, m, r, handler)
	}
	r.cancel()
	s.mu.Lock()
	s.busy[m.Kind]-- // before the controller learns that it has ended, and may ask again
	s.mu.Unlock()
	r.channel.Close(err)
}

func (s *Server) handle(ctx context.Context, m nodeproto.Relay, r *running, handler Handler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.Log.Error("relay panicked", zap.String("kind", m.Kind), zap.Any("panic", v), zap.Stack("stack"))
			err = errors.New("the node failed to answer it")
		}
	}()
	return handler(ctx, m.Data, r.channel.Stream(ctx))
}

func (s *Server) ended(id uint64, r *running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[id] == r {
		delete(s.open, id)
	}
}
