package node

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/agent"
	"edgespan/actors/node/api"
	"edgespan/actors/supervise"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/netstate"
	"edgespan/pubsub"
)

// Host is the machine as the appliers see it: platform/host, or platform/fake.
// Every method returns by its context's deadline.
type Host interface {
	// Observe reads what owner has on the host. Full dumps everything; otherwise
	// what the kernel is slow to tell is taken from the last write.
	Observe(ctx context.Context, o netstate.Owner, full bool) (netstate.State, error)
	// Do carries out one op. Its error wraps netstate.ErrWaiting when the world is
	// not ready for it.
	Do(ctx context.Context, o netstate.Owner, op netstate.Op) error
	// BridgeMTU is the MTU of an owner's bridge, 0 where there is none.
	BridgeMTU(ctx context.Context, o netstate.Owner) (int, error)
	// Owners lists the network instances of which anything is on the host.
	Owners(ctx context.Context) ([]netstate.Owner, error)
	// ForgetFlows begins to delete the tracked flows that match, from another goroutine;
	// the answer waits for the end, and counts them.
	ForgetFlows(ctx context.Context, match func(netstate.Flow) bool) (answer func() (int, error))
	// Test asks what of want is there and running what it promises, and names each
	// promise that does not hold.
	Test(ctx context.Context, o netstate.Owner, want netstate.State) []netstate.Failure
	// Dropped counts the packets that each of these chains has dropped since it was written; one
	// that does not stand has dropped none.
	Dropped(ctx context.Context, o netstate.Owner, chains []netstate.ID) (map[netstate.ID]uint64, error)
	// Snoop begins to tell the addresses that the app behind a link uses, until ctx
	// ends; it returns at once.
	Snoop(ctx context.Context, link string, emit func(netstate.ObservedAddress))
	// RereadDNS has what other programs know of DNS servers read now; what differs is told by Watch.
	RereadDNS()
	// Watch tells what happens on the host until ctx ends.
	Watch(ctx context.Context, emit func(netstate.HostEvent)) error
}

// deps is what every actor is given.
type deps struct {
	ctx       context.Context // ends when the node stops
	log       *zap.Logger
	host      Host
	files     Files
	executors Executors
	echo      Echo
	agent     *agent.Agent // the config actor
	facts     api.Facts
	topics    *api.Topics
	storage   api.Storage
	warning   string // of the start
	runDir    string
	processRun
	strategy *supervise.Backoff
	gate     *semaphore
	census   *census
	fail     func(error)
	notify   func(string)         // systemd
	tell     func(nodeapi.Event)  // keeps what happened
	keep     func(api.NodeRecord) // journals what the config actor counted
	asked    marks                // when an adapter's config was published
	setLevel func(string)         // of the log
	hostView
}

// processRun is one run of the process.
type processRun struct {
	boot    uint64 // of the process: different at each start
	machine string // its boot id
	began   time.Time
	epochs  atomic.Uint64
}

// epoch is different at each call in every boot (docs/architecture.md, law 9).
func (r *processRun) epoch() uint64 { return r.boot<<32 | r.epochs.Add(1) }

// wait is how long a timer of d lasts. One that is shared ends with the round of d that
// began with the process; any other is spread.
func (r *processRun) wait(after time.Duration, shared bool) time.Duration {
	if shared {
		return after - time.Since(r.began)%after
	}
	return jitter(after)
}

// hostView is what the router and the monitor know of the host and no topic has, for whoever asks.
type hostView struct {
	hostProblem atomic.Pointer[string]               // why the host ground is not as wanted
	settled     atomic.Bool                          // the host ground is as wanted
	seen        atomic.Pointer[[]netstate.Interface] // the host's interfaces, for a plan
	maxTracked  atomic.Int64                         // flows, of the machine; 0 if it is not known
}

// trouble is why the host ground is not as wanted, "" where it is.
func (v *hostView) trouble() string {
	if why := v.hostProblem.Load(); why != nil {
		return *why
	}
	return ""
}

// interfaces are the host's as the monitor saw them last.
func (v *hostView) interfaces() []netstate.Interface {
	if p := v.seen.Load(); p != nil {
		return *p
	}
	return nil
}

// jitter spreads d by up to a tenth, so that what failed together does not come
// back together.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/10+1) }

// timers sends messages to one actor later. They end with its incarnation.
type timers struct {
	mu      sync.Mutex
	running map[*time.Timer]struct{}
}

// after sends what msg makes to self when d has passed.
func (t *timers) after(c actor.Context, d time.Duration, msg func() any) {
	self, root := c.Self(), c.ActorSystem().Root
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == nil {
		t.running = map[*time.Timer]struct{}{}
	}
	var x *time.Timer
	x = time.AfterFunc(d, func() {
		t.mu.Lock()
		_, live := t.running[x]
		delete(t.running, x)
		t.mu.Unlock()
		if live {
			root.Send(self, msg())
		}
	})
	t.running[x] = struct{}{}
}

func (t *timers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for x := range t.running {
		x.Stop()
	}
	clear(t.running)
}

// subscriptions are those of one actor, which they poke. They end with its incarnation.
type subscriptions struct {
	wake func()
	open []interface{ Close() }
}

func subscribe[V any](s *subscriptions, t *pubsub.Topic[V], to pubsub.Selector) *pubsub.Subscription[V] {
	sub := t.Subscribe(to, s.wake)
	s.open = append(s.open, sub)
	return sub
}

func (s *subscriptions) close() {
	for _, sub := range s.open {
		sub.Close()
	}
	s.open = nil
}

// wake says that a subscription has something to drain. Subscriptions call it at
// most once between two drains.
type wake struct{}

func waker(c actor.Context) func() {
	self, root := c.Self(), c.ActorSystem().Root
	return func() { root.Send(self, wake{}) }
}

// marks are times by name, for who asks since when something is so.
type marks struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (m *marks) set(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = map[string]time.Time{}
	}
	m.at[name] = time.Now()
}

func (m *marks) unset(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.at, name)
}

func (m *marks) get(name string) (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.at[name]
	return at, ok
}
