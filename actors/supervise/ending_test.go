package supervise

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
)

// An actor is told to stop while one of its children is busy, and then to make another child: it makes none, answers a
// request like one that is gone, and stops once the busy child has.
func TestAnActorThatStopsHandlesNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := System(zap.NewNop(), 1)
		var got []any
		busy, release := make(chan struct{}), make(chan struct{})
		child := func(c actor.Context) {
			if c.Message() == "work" {
				close(busy)
				<-release
			}
		}
		parent := sys.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
			got = append(got, c.Message())
			switch c.Message() {
			case "work":
				c.Send(c.Spawn(actor.PropsFromFunc(child, Mailbox())), "work")
			case "make":
				c.Spawn(actor.PropsFromFunc(child, Mailbox()))
			case "ask":
				c.Respond("answer")
			}
		}, Mailbox(), actor.WithReceiverMiddleware(Lifecycle(zap.NewNop()))))
		sys.Root.Send(parent, "work")
		<-busy
		stopped := sys.Root.StopFuture(parent)
		synctest.Wait()
		sys.Root.Send(parent, "make")
		if answer, err := sys.Root.RequestFuture(parent, "ask", time.Minute).Result(); !errors.Is(err, actor.ErrDeadLetter) {
			t.Errorf("a request: %v, %v", answer, err)
		}
		close(release)
		if err := stopped.Wait(); err != nil {
			t.Errorf("stop: %v", err)
		}
		synctest.Wait()
		if len(got) != 4 {
			t.Errorf("it got %v, want to start, to work, to stop and to have stopped", got)
		}
		sys.Shutdown()
		time.Sleep(time.Minute)
	})
}
