package agent

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/pubsub/trace"
)

// Agent is the handle of one agent, for use from any goroutine. It receives the messages of the node link.
type Agent struct {
	o     Options
	once  sync.Once
	bound chan struct{} // closed once the actor has started
	pid   *actor.PID
	root  *actor.RootContext
}

// New creates an agent. It works once an actor from Producer has been spawned.
func New(o Options) *Agent {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.ReportEvery <= 0 {
		o.ReportEvery = reportEvery
	}
	if o.OnEvent == nil {
		o.OnEvent = func(Event) {}
	}
	return &Agent{o: o, bound: make(chan struct{})}
}

// Producer returns the agent's actor, for each start of it. The caller's Props decide how it is supervised; after a
// crash it continues from what is on the disk, as after a start.
func (a *Agent) Producer() actor.Actor { return &shell{a: a, o: &a.o} }

// Messages of the handle.
type (
	streamUp       struct{ stream nodeproto.ToController }
	streamDown     struct{}
	reload         struct{}
	releaseRequest struct { // answer runs in the actor's turn
		answer func(s *shell)
	}
)

func (a *Agent) send(m any) {
	<-a.bound
	a.root.Send(a.pid, m)
}

// Up starts a stream to the controller.
func (a *Agent) Up(s nodeproto.ToController) {
	if a.o.Relays != nil {
		a.o.Relays.Up(s)
	}
	a.send(streamUp{s})
}

// Received handles a message of the controller. Relays go past the actor.
func (a *Agent) Received(m nodeproto.FromController) {
	if r, ok := m.(nodeproto.Relay); ok {
		if a.o.Relays != nil {
			a.o.Relays.Received(r)
		}
		return
	}
	a.send(m)
}

// Down ends the stream.
func (a *Agent) Down(error) {
	if a.o.Relays != nil {
		a.o.Relays.Down()
	}
	a.send(streamDown{})
}

// Reload reads the config file again.
func (a *Agent) Reload() { a.send(reload{}) }

// request sends a message and waits for its answer until ctx ends.
func request[T any](ctx context.Context, a *Agent, message func(reply chan<- T) any) (T, error) {
	var none T
	reply := make(chan T, 1)
	select {
	case <-a.bound:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	a.root.Send(a.pid, message(reply))
	select {
	case got := <-reply:
		return got, nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// maxBy bounds the text that says who brought a config.
const maxBy = 256

// byUser names a user, and what that user says to be.
func byUser(caller, name string) string {
	if caller == "" || name == "" || caller == name {
		return config.Truncate(cmp.Or(caller, name), maxBy)
	}
	return config.Truncate(caller+" ("+name+")", maxBy)
}

// ApplyResult is the answer to a config that is stored and published.
type ApplyResult struct {
	Warnings []string
	Seq      uint64
}

type applyResult struct {
	ApplyResult
	err error
}

// Apply makes a document the node's config. It returns once the config is valid, stored and published. Faults of the
// document are config.Faults; rest.ErrConflict says that a controller manages the node, rest.ErrBusy that the disk is
// too slow.
func (a *Agent) Apply(ctx context.Context, w Request) (ApplyResult, error) {
	if w.Verdict == nil {
		v := a.o.Validator(w.Document, "", commitconfirm.Apply)
		w.Verdict = &v
	}
	if len(w.Verdict.Faults) > 0 { // before the disk is involved
		return ApplyResult{}, w.Verdict.Faults
	}
	got, err := request(ctx, a, func(reply chan<- applyResult) any {
		return &candidate{
			event: commitconfirm.Candidate{Source: commitconfirm.Apply, Document: w.Document, Confirm: w.Confirm,
				By: byUser(w.Caller, w.By)},
			verdict: w.Verdict,
			local:   w.Local, author: w.By, reply: reply, refusal: "store the config", replaces: w.Replaces,
			trace: trace.From(ctx),
		}
	})
	if err != nil {
		return ApplyResult{}, err
	}
	return got.ApplyResult, got.err
}

// Confirm confirms the pending config on behalf of an operator. The zero generation means whatever is pending.
func (a *Agent) Confirm(ctx context.Context, g commitconfirm.Generation) error {
	return a.command(ctx, commitconfirm.Confirmed{Generation: g}, commitconfirm.NowConfirmed)
}

// Rollback undoes the pending config; it returns once the undo has begun.
func (a *Agent) Rollback(ctx context.Context) error {
	return a.command(ctx, commitconfirm.RollbackAsked{}, UndoBegan)
}

func (a *Agent) command(ctx context.Context, e commitconfirm.Event, end commitconfirm.Outcome) error {
	err, late := request(ctx, a, func(reply chan<- error) any { return &command{event: e, end: end, reply: reply} })
	if late != nil {
		return late
	}
	return err
}

// Release ends a local hold, and reports whether there was one.
func (a *Agent) Release(ctx context.Context) (held bool, err error) {
	return request(ctx, a, func(reply chan<- bool) any {
		return releaseRequest{func(s *shell) { reply <- s.release() }}
	})
}

// Status returns the node's state.
func (a *Agent) Status(ctx context.Context) (Status, error) {
	return request(ctx, a, func(reply chan<- Status) any {
		return releaseRequest{func(s *shell) { reply <- s.status() }}
	})
}

// helloTimeout bounds Hello: a stream without a digest is better than none.
const helloTimeout = 5 * time.Second

// Hello returns how the node introduces itself on a stream.
func (a *Agent) Hello() nodeproto.Hello {
	ctx, cancel := context.WithTimeout(context.Background(), helloTimeout)
	defer cancel()
	f := a.o.Facts
	h := nodeproto.Hello{Name: f.Name, Software: f.Software, Firmware: f.Firmware, Board: f.Board}
	if a.o.Relays != nil {
		h.Capabilities = []string{nodeproto.CanRelay}
	}
	if e, err := request(ctx, a, func(reply chan<- commitconfirm.Echo) any { return hello{reply} }); err == nil {
		h.MD5, h.Generation = e.MD5, e.Generation
	}
	return h
}

// WaitStarted returns once the first config of this start has been published, or ctx ends.
func (a *Agent) WaitStarted(ctx context.Context) error {
	_, err := request(ctx, a, func(reply chan<- struct{}) any { return begun{reply} })
	return err
}

// Stop records that the end is intended, and returns once that is on the disk or ctx ends. It does not stop the actor.
func (a *Agent) Stop(ctx context.Context) error {
	_, err := request(ctx, a, func(reply chan<- struct{}) any { return stopping{reply} })
	return err
}
