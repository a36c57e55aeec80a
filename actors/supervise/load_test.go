package supervise

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
)

// Two actors of one kind wait, one of them crashes and one is stopped with messages in its mailbox: what waits is
// counted, and in the end nothing does.
func TestWhatWaitsAndCrashesIsCountedByKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Load{}
		sys := System(zap.NewNop(), 1)
		strategy := &Backoff{Log: zap.NewNop(), Crashed: func(string, int, string, time.Duration) { l.Crashed("child") }}
		hold := make(chan struct{})
		var children []*actor.PID
		parent := sys.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
			if _, ok := c.Message().(*actor.Started); !ok {
				return
			}
			for range 2 {
				children = append(children, c.Spawn(actor.PropsFromFunc(func(c actor.Context) {
					switch c.Message() {
					case "hold":
						<-hold
					case "crash":
						panic("as asked")
					}
				}, l.Mailbox("child"))))
			}
		}, actor.WithSupervisor(strategy), l.Mailbox("parent")))
		synctest.Wait()
		for _, c := range children {
			sys.Root.Send(c, "hold")
			sys.Root.Send(c, "crash")
			sys.Root.Send(c, "more")
		}
		synctest.Wait()
		if got := fmt.Sprint(l.Kinds()); got != "[{child 6 0} {parent 0 0}]" { // the one in hand counts, too
			t.Errorf("while both hold: %s", got)
		}
		sys.Root.Stop(children[1])
		close(hold)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := fmt.Sprint(l.Kinds()); got != "[{child 0 1} {parent 0 0}]" {
			t.Errorf("at the end: %s", got)
		}
		if err := sys.Root.StopFuture(parent).Wait(); err != nil {
			t.Error(err)
		}
		sys.Shutdown()
		time.Sleep(time.Minute)
	})
}
