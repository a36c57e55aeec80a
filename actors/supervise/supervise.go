package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"

	"edgespan/pubsub/backoff"
)

// Stable is how long after a crash the next one counts as the first.
const Stable = 2 * time.Minute

// Restarts are the delays before an actor that crashed restarts.
var Restarts = backoff.Backoff{First: 100 * time.Millisecond, Max: time.Minute}

// Wait returns the delay after a number of crashes in a row, 1 being the first: that of Restarts, plus up to a fifth.
func Wait(crashes int) time.Duration {
	return backoff.Jitter(Restarts.After(crashes), 1, 1.2, rand.Float64())
}

// Backoff is a supervisor strategy that restarts children after a delay, forever. It escalates nothing and never stops
// a child for good (the stock strategies stop a child at the 11th panic, or are linear).
type Backoff struct {
	Log *zap.Logger
	// Crashed is called for each crash: with the number of crashes in a row, the reason, and the delay before the restart.
	// nil: not called.
	Crashed func(id string, times int, why string, restarts time.Duration)

	mu      sync.Mutex
	crashed map[string]*crash // crashes within Stable
}

type crash struct {
	times int
	at    time.Time
}

// HandleFailure restarts the child after its delay.
func (b *Backoff) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID,
	rs *actor.RestartStatistics, reason, _ any) {
	rs.Reset() // so that the library never prunes it
	times, why := b.count(child.Id, time.Now()), fmt.Sprint(reason)
	wait := Wait(times)
	b.Log.Error("actor crashed", zap.String("actor", child.Id), zap.String("err", why), zap.Duration("restart_in", wait))
	if b.Crashed != nil {
		b.Crashed(child.Id, times, why, wait)
	}
	time.AfterFunc(wait, func() { sup.RestartChildren(child) })
}

// Forget forgets the crashes of a child that has ended: a new one of the same name starts from zero.
func (b *Backoff) Forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.crashed, id)
}

// count records a crash and returns how many in a row that makes.
func (b *Backoff) count(id string, now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for other, c := range b.crashed {
		if now.Sub(c.at) > Stable {
			delete(b.crashed, other)
		}
	}
	if b.crashed == nil {
		b.crashed = map[string]*crash{}
	}
	c := b.crashed[id]
	if c == nil {
		c = &crash{}
		b.crashed[id] = c
	}
	c.times++
	c.at = now
	return c.times
}

// Lifecycle is the middleware that logs the stack of a panic. It also prevents a panic in Stopping, Stopped or
// Restarting from hanging the parent's stop, and lets an actor handle nothing between Stopping and Stopped.
func Lifecycle(log *zap.Logger) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, e *actor.MessageEnvelope) {
			if ended(c, e) {
				return
			}
			defer func() {
				r := recover()
				if r == nil {
					return
				}
				log.Error("panic", zap.String("actor", c.Self().Id), zap.Any("err", r), zap.ByteString("stack", debug.Stack()))
				switch e.Message.(type) {
				case *actor.Stopping, *actor.Stopped, *actor.Restarting:
				default:
					panic(r)
				}
			}()
			next(c, e)
		}
	}
}

// Vital is the middleware of an actor that the process can't run without: it calls fail when the actor crashes.
func Vital(fail func(error)) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(c actor.ReceiverContext, e *actor.MessageEnvelope) {
			defer func() {
				if r := recover(); r != nil {
					fail(fmt.Errorf("actor %s: %v", c.Self().Id, r))
					panic(r)
				}
			}()
			next(c, e)
		}
	}
}

// Pause waits for d and reports whether ctx is still valid. It is for leaves only: an actor never waits.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Leaf runs code that blocks outside of the actors. It logs a panic, and then calls panicked.
func Leaf(log *zap.Logger, leaves *sync.WaitGroup, name string, f func(), panicked func(reason any)) {
	leaves.Add(1)
	go func() {
		defer leaves.Done()
		defer func() {
			if r := recover(); r != nil {
				log.Error("panic", zap.String("leaf", name), zap.Any("err", r), zap.ByteString("stack", debug.Stack()))
				panicked(r)
			}
		}()
		f()
	}()
}

// Stop stops a tree and its system. It waits until ctx ends for the actors and then for the leaves, which the caller
// has told to end; the error names what was to stop.
func Stop(ctx context.Context, system *actor.ActorSystem, top *actor.PID, leaves *sync.WaitGroup, what string) error {
	defer system.Shutdown()
	stopped := make(chan error, 1)
	go func() {
		err := system.Root.StopFuture(top).Wait()
		leaves.Wait()
		stopped <- err
	}()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		return fmt.Errorf("stop the %s: %w", what, ctx.Err())
	}
}

// System creates an actor system that logs warnings and errors to log.
func System(log *zap.Logger, buckets int) *actor.ActorSystem {
	quiet := log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
	s := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(zapslog.NewHandler(quiet.Core(), zapslog.WithName("actor")))
	}))
	fewBuckets(s.ProcessRegistry.LocalPIDs, buckets)
	return s
}

// fewBuckets shrinks a new system's registry: the library allocates 1024 buckets of 32 maps each, for millions of
// actors on many cores, which is 2.5 MB. The system must not be in use yet.
func fewBuckets(m *actor.SliceMap, buckets int) {
	all := m.LocalPIDs
	m.LocalPIDs = slices.Clone(all[:buckets])
	for _, bucket := range all {
		if bucket.IsEmpty() {
			continue // Items starts 32 goroutines
		}
		for id, process := range bucket.Items() {
			bucket.Remove(id)
			m.GetBucket(id).Set(id, process)
		}
	}
}
