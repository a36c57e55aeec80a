package supervise

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
)

// An actor has crashed and waits for its restart; it is told to stop meanwhile, and a child of it is still busy when
// the restart is due.
func TestARestartThatIsDueWhileAnActorStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := System(zap.NewNop(), 1)
		busy, release := make(chan struct{}), make(chan struct{})
		leaf := func(c actor.Context) {
			if c.Message() == "work" {
				close(busy)
				<-release
			}
		}
		opts := []actor.PropsOption{Mailbox(), actor.WithSupervisor(&Backoff{Log: zap.NewNop()}),
			actor.WithReceiverMiddleware(Lifecycle(zap.NewNop()))}
		middle := func(c actor.Context) {
			switch c.Message() {
			case "work":
				c.Send(c.Spawn(actor.PropsFromFunc(leaf, opts...)), "work")
			case "crash":
				panic("crash")
			}
		}
		var mid *actor.PID
		var ended atomic.Bool
		top := sys.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
			switch c.Message().(type) {
			case *actor.Started:
				mid = c.Spawn(actor.PropsFromFunc(middle, opts...))
			case *actor.Terminated:
				ended.Store(true)
			}
			if c.Message() == "stop" {
				c.Stop(mid)
			}
		}, opts...))
		synctest.Wait()
		sys.Root.Send(mid, "work")
		<-busy
		sys.Root.Send(mid, "crash") // restarts in 100 ms
		synctest.Wait()
		sys.Root.Send(top, "stop")
		time.Sleep(time.Second) // the restart is due
		close(release)
		time.Sleep(time.Minute)
		if !ended.Load() {
			t.Error("the parent never hears that it has ended")
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := Stop(ctx, sys, top, &sync.WaitGroup{}, "tree"); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}
