package simulation

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"edgespan/actors/agent"
	"edgespan/actors/controller"
	"edgespan/config/fleet/nodeproto"
)

// link is the way of one node to its controllers, which it dials one after another.
type link struct {
	f    *crowd
	m    *member
	done chan struct{} // closed when it has ended

	mu     sync.Mutex
	cut    bool          // nothing passes, and both ends know
	mute   bool          // nothing passes, and neither end knows
	delay  time.Duration // of each message
	stream *stream
}

// The times of a link, as those of platform/nodelink.
const (
	redial    = 5 * time.Second
	keepalive = 40 * time.Second // until both ends know that nothing passes
	maxQueued = 1000             // messages of one direction
)

// streams gives each stream another number.
var streams atomic.Uint64

// stream is one stream of a node to one replica.
type stream struct {
	link     *link
	id       uint64
	up, down chan any
	ended    context.Context
	end      context.CancelFunc
}

func (s *stream) ID() uint64 { return s.id }

// End is called by the controller.
func (s *stream) End(string) { s.end() }

var errQueueFull = errors.New("the queue is full")

func (s *stream) put(queue chan any, m any) error {
	select {
	case <-s.ended.Done():
		return errors.New("the stream has ended")
	case queue <- m:
		return nil
	default:
		s.end()
		return errQueueFull
	}
}

// Send is the controller's.
func (s *stream) Send(m nodeproto.FromController) error {
	if p, is := m.(nodeproto.Push); is {
		s.link.f.pushed(s.link.m, p.Document)
	}
	return s.put(s.down, m)
}

// nodeEnd is the node's end of a stream.
type nodeEnd struct{ *stream }

func (s nodeEnd) Send(m nodeproto.FromNode) error { return s.put(s.up, m) }

// set changes the link; a stream that is cut ends.
func (l *link) set(change func(*link)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
	if l.cut && l.stream != nil {
		l.stream.end()
	}
	if s := l.stream; l.mute && s != nil {
		time.AfterFunc(keepalive, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.mute {
				s.end()
			}
		})
	}
}

func (l *link) weather() (cut, mute bool, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut, l.mute, l.delay
}

// run dials until the fleet ends.
func (l *link) run() {
	defer close(l.done)
	for turn := 0; l.f.ctx.Err() == nil; turn++ {
		cut, mute, _ := l.weather()
		p, at := l.m.process(), l.f.replica(turn)
		if !cut && !mute && at != nil && p != nil && !p.dead() {
			l.talk(p, p.node.Agent(), at)
		}
		select {
		case <-time.After(redial):
		case <-l.f.ctx.Done():
		}
	}
}

// talk is one stream, until it ends.
func (l *link) talk(p *life, a *agent.Agent, at *replica) {
	ctx, cancel := context.WithTimeout(l.f.ctx, keepalive)
	hello := a.Hello()
	hello.Node = l.m.id
	err := at.c.Admit(ctx, hello)
	cancel()
	if err != nil || p.dead() || at.ctx.Err() != nil {
		return
	}
	s := &stream{link: l, id: streams.Add(1), up: make(chan any, maxQueued), down: make(chan any, maxQueued)}
	s.ended, s.end = context.WithCancel(l.f.ctx)
	defer s.end()
	defer context.AfterFunc(p.ctx, s.end)()
	defer context.AfterFunc(at.ctx, s.end)()
	l.mu.Lock()
	l.stream = s
	l.mu.Unlock()
	at.c.Connected(s, hello)
	a.Up(nodeEnd{s})
	var both sync.WaitGroup
	both.Go(func() { s.carry(s.up, func(m any) { at.c.Received(s, m.(nodeproto.FromNode)) }) })
	both.Go(func() { s.carry(s.down, func(m any) { a.Received(m.(nodeproto.FromController)) }) })
	<-s.ended.Done()
	both.Wait()
	a.Down(nil)
	at.c.Disconnected(s, nil)
}

// carry passes the messages of one direction on.
func (s *stream) carry(queue chan any, to func(any)) {
	for {
		select {
		case <-s.ended.Done():
			return
		case m := <-queue:
			cut, mute, delay := s.link.weather()
			if delay > 0 {
				select {
				case <-time.After(delay):
				case <-s.ended.Done():
					return
				}
			}
			if !cut && !mute {
				to(m)
			}
		}
	}
}

// replica is one controller of a fleet.
type replica struct {
	c   *controller.Controller
	ctx context.Context
	end context.CancelFunc
}
