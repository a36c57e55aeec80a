package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/pubsub/shellproto"
)

// maxUnderWay is how many requests of one shell may be under way.
const maxUnderWay = 16

// gateway is the actor of one shell: it owns its requests under way. What they do runs beside it.
type gateway struct {
	node shellproto.Node
	who  shellproto.Who
	log  *zap.Logger
	out  *queue
	ctx  context.Context //nolint:containedctx // ends with the connection

	refusals *refusals // of all shells

	last  uint64 // ID of the last request
	under map[uint64]context.CancelFunc
}

type (
	// received is a request; done is called once it is handled, which is before it has ended.
	received struct {
		request shellproto.Request
		done    func()
	}
	requestEnded struct{ id uint64 }
)

func (g *gateway) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		g.under = map[uint64]context.CancelFunc{}
	case received:
		g.handle(c, msg.request)
		msg.done()
	case requestEnded:
		delete(g.under, msg.id)
	}
}

func (g *gateway) handle(c actor.Context, r shellproto.Request) {
	if r.Cancel {
		if cancel := g.under[r.ID]; cancel != nil {
			cancel()
		}
		return
	}
	if err := g.admit(r); err != nil {
		if m, size, err := pack(shellName, shellproto.Failure(r.ID, err)); err == nil {
			g.out.offer(m, size) // one that does not read its refusals gets none
		}
		return
	}
	g.last = r.ID
	ctx, cancel := context.WithCancel(g.ctx)
	g.under[r.ID] = cancel
	self, root := c.Self(), c.ActorSystem().Root
	go func() {
		defer cancel()
		g.run(ctx, r)
		root.Send(self, requestEnded{r.ID})
	}()
}

// admit returns why a request is refused.
func (g *gateway) admit(r shellproto.Request) error {
	switch {
	case r.ID <= g.last:
		return shellproto.Failf(shellproto.ExitError, "request %d: is repeated: IDs must rise", r.ID)
	case len(g.under) >= maxUnderWay:
		return shellproto.Failf(shellproto.ExitError, "%d commands are under way: end one first", maxUnderWay)
	}
	err := r.Permit(g.who)
	if err != nil && r.Write {
		g.refusals.note(g.who, r.Op, err, time.Now())
	}
	return err
}

// run does one request and sends its end.
func (g *gateway) run(ctx context.Context, r shellproto.Request) {
	a := &answers{ctx: ctx, id: r.ID, out: g.out, stream: r.Streams()}
	end := shellproto.Frame{ID: r.ID, End: true}
	if err := g.do(ctx, r, a.emit); err != nil && ctx.Err() == nil {
		end = shellproto.Failure(r.ID, err)
	}
	end.Dropped = a.dropped.Load()
	if m, size, err := pack(shellName, end); err == nil {
		_ = g.out.add(g.ctx, m, size) // its only error is that the shell is gone
	}
}

// do contains a panic of an operation: a defect there costs one answer.
func (g *gateway) do(ctx context.Context, r shellproto.Request, emit shellproto.Emit) (err error) {
	defer func() {
		if p := recover(); p != nil {
			g.log.Error("panic", zap.String("op", r.Op), zap.Any("err", p), zap.ByteString("stack", debug.Stack()))
			err = errors.New("the daemon failed to answer: its log says why")
		}
	}()
	return g.node.Do(ctx, g.who, r, emit)
}

// answers passes the answers of one request on.
type answers struct {
	ctx     context.Context //nolint:containedctx // of the request
	id      uint64
	out     *queue
	stream  bool
	dropped atomic.Uint64 // and not yet said
}

func (a *answers) emit(answer any, dropped uint64) error {
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	if len(text) > maxFrame-1024 {
		return shellproto.Failf(shellproto.ExitError, "the answer has %d octets: at most %d are sent", len(text),
			maxFrame-1024)
	}
	said := a.dropped.Swap(0) + dropped
	m, size, err := pack(shellName, shellproto.Frame{ID: a.id, Data: text, Dropped: said})
	if err != nil {
		return err
	}
	if !a.stream {
		return a.out.add(a.ctx, m, size)
	}
	if added, _ := a.out.offer(m, size); !added {
		a.dropped.Add(said + 1)
	}
	return nil
}
