package supervise

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
)

// An actor ends and another one gets its name, again and again, while others send to that name: no message comes before
// Started, or ends the process.
func TestAMessageToANameMeetsAnActorThatHasStarted(t *testing.T) {
	sys := System(zap.NewNop(), 1)
	pid := actor.NewPID(sys.Address(), "again")
	var over atomic.Bool
	var early, handled atomic.Int64
	var senders sync.WaitGroup
	senders.Go(func() {
		for !over.Load() {
			sys.Root.Send(pid, "message")
			runtime.Gosched()
		}
	})
	for range 300 {
		up, before := false, handled.Load()
		_, err := sys.Root.SpawnNamed(actor.PropsFromFunc(func(c actor.Context) {
			switch c.Message().(type) {
			case *actor.Started:
				up = true
			case string:
				handled.Add(1)
				if !up {
					early.Add(1)
				}
			}
		}, Mailbox()), "again")
		if err != nil {
			t.Fatal(err)
		}
		for handled.Load() == before {
			runtime.Gosched()
		}
		if err := sys.Root.StopFuture(pid).Wait(); err != nil {
			t.Fatal(err)
		}
	}
	over.Store(true)
	senders.Wait()
	sys.Shutdown()
	if n := early.Load(); n > 0 {
		t.Errorf("%d of %d messages before Started", n, handled.Load())
	}
}
