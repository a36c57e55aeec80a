package node

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/node/census"
	"edgespan/actors/supervise"
	"edgespan/config/httpapi/nodeapi"
)

// crasher panics on "crash", and in Stopping when told to.
type crasher struct {
	mu       *sync.Mutex
	started  *[]time.Time
	stopping bool
}

func (k *crasher) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		k.mu.Lock()
		*k.started = append(*k.started, time.Now())
		k.mu.Unlock()
	case *actor.Stopping:
		if k.stopping {
			panic("in Stopping")
		}
	case string:
		panic(msg)
	}
}

// parent is a plain supervisor with the node's strategy.
type parent struct {
	d     *deps
	child func() actor.Actor
	pid   *actor.PID
}

func (p *parent) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		p.pid = c.Spawn(p.d.props(p.child))
	case string:
		c.Send(p.pid, msg)
	}
}

// supervising returns deps for actors that are only supervised.
func supervising() *deps {
	d := &deps{logged: logged{log: zap.NewNop()}, census: census.New(),
		eventState: eventState{recordEvent: func(nodeapi.Event) {}}}
	d.strategy = &supervise.Backoff{Log: d.log, Crashed: d.crashed}
	return d
}

func supervised(t *testing.T, stopping bool,
	f func(sys *actor.ActorSystem, top *actor.PID, started func() []time.Time)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := supervising()
		var mu sync.Mutex
		var at []time.Time
		sys := actor.NewActorSystem()
		top := sys.Root.Spawn(d.props(func() actor.Actor {
			return &parent{d: d, child: func() actor.Actor { return &crasher{&mu, &at, stopping} }}
		}))
		synctest.Wait()
		f(sys, top, func() []time.Time {
			mu.Lock()
			defer mu.Unlock()
			return append([]time.Time(nil), at...)
		})
		if err := sys.Root.StopFuture(top).Wait(); err != nil {
			t.Errorf("stop: %v", err)
		}
		sys.Shutdown()
		synctest.Wait()
	})
}

func TestACrashedActorComesBackForEverWithAGrowingDelay(t *testing.T) {
	supervised(t, false, func(sys *actor.ActorSystem, top *actor.PID, started func() []time.Time) {
		for i := range 25 { // protoactor's own strategy gives up at the 11th
			before := time.Now()
			sys.Root.Send(top, "crash")
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			at := started()
			if len(at) != i+2 {
				t.Fatalf("after crash %d it was started %d times", i+1, len(at))
			}
			wait := at[i+1].Sub(before)
			least := supervise.Restarts.After(i + 1)
			if wait < least || wait > least+least/5+time.Millisecond {
				t.Errorf("after crash %d it waited %v, want %v and a fifth of jitter at most", i+1, wait, least)
			}
		}
		time.Sleep(10 * time.Minute) // quiet: the count starts again
		before := time.Now()
		sys.Root.Send(top, "crash")
		time.Sleep(time.Second)
		synctest.Wait()
		at := started()
		if wait := at[len(at)-1].Sub(before); wait > 2*supervise.Restarts.First {
			t.Errorf("after a quiet time it waited %v", wait)
		}
	})
}

// The library does not report the message that crashes an actor as received.
func TestWhatWaitsInMailboxesIsCountedOverCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := supervising()
		var mu sync.Mutex
		var at []time.Time
		sys := actor.NewActorSystem()
		top := sys.Root.Spawn(d.props(func() actor.Actor {
			return &parent{d: d, child: func() actor.Actor { return &crasher{&mu, &at, false} }}
		}))
		waiting := func() (n int) {
			synctest.Wait()
			for _, a := range d.census.List() {
				n += d.census.Waiting(a.ID)
			}
			return n
		}
		for i := range 5 {
			if n := waiting(); n != 0 {
				t.Fatalf("after %d crashes and restarts %d messages wait", i, n)
			}
			sys.Root.Send(top, "crash")
			if sys.Root.Send(top, "crash"); waiting() != 1 {
				t.Errorf("%d messages wait for an actor that is not restarted yet, want the second", waiting())
			}
			time.Sleep(10 * time.Minute)
		}
		if n := d.work.Snapshot().Restarts; len(n) != 1 {
			t.Errorf("restarts: %v", n)
		}
		if err := sys.Root.StopFuture(top).Wait(); err != nil {
			t.Error(err)
		}
		if synctest.Wait(); d.census.Len() > 0 {
			t.Errorf("mailboxes of actors that are gone: %v", d.census.List())
		}
		sys.Shutdown()
		synctest.Wait()
	})
}

func TestAPanicInStoppingHangsNoActor(t *testing.T) {
	supervised(t, true, func(*actor.ActorSystem, *actor.PID, func() []time.Time) {}) // the stop is the test
}

func TestAVitalActorThatPanicsEndsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why error
		d := supervising()
		d.fail = func(err error) { why = err }
		var mu sync.Mutex
		var at []time.Time
		sys := actor.NewActorSystem()
		pid := sys.Root.Spawn(d.vital(func() actor.Actor { return &crasher{&mu, &at, false} }))
		synctest.Wait()
		if why != nil {
			t.Fatalf("it ended before it panicked: %v", why)
		}
		sys.Root.Send(pid, "disk full")
		time.Sleep(time.Second)
		synctest.Wait()
		if why == nil || !strings.Contains(why.Error(), "disk full") {
			t.Errorf("the node was told %v", why)
		}
		if err := sys.Root.StopFuture(pid).Wait(); err != nil {
			t.Errorf("stop: %v", err)
		}
		sys.Shutdown()
		synctest.Wait()
	})
}
