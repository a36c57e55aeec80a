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

// Host is the machine as the appliers see it: platform/host or platform/fake. Every method returns by its context's
// deadline.
type Host interface {
	// Observe reads the objects of an owner on the host. With full it dumps everything; otherwise it takes what the kernel
	// reports slowly from the last write.
	Observe(ctx context.Context, o netstate.Owner, full bool) (netstate.State, error)
	// Do carries out one op. Its error wraps netstate.ErrWaiting when the op depends on something that is not there yet.
	Do(ctx context.Context, o netstate.Owner, op netstate.Op) error
	// BridgeMTU returns the MTU of an owner's bridge, 0 if it has none.
	BridgeMTU(ctx context.Context, o netstate.Owner) (int, error)
	// Owners lists the network instances that have objects on the host.
	Owners(ctx context.Context) ([]netstate.Owner, error)
	// ForgetFlows starts deleting the tracked flows that match, in another goroutine; the function it returns waits for
	// the end and returns their number.
	ForgetFlows(ctx context.Context, match func(netstate.Flow) bool) (answer func() (int, error))
	// Test checks which objects of want exist and work, and names each promise that does not hold.
	Test(ctx context.Context, o netstate.Owner, want netstate.State) []netstate.OpFailure
	// Dropped counts the packets that each of these chains has dropped since it was written, 0 for a chain that does not
	// exist.
	Dropped(ctx context.Context, o netstate.Owner, chains []netstate.ID) (map[netstate.ID]uint64, error)
	// Snoop starts reporting the addresses that the app behind a link uses, until ctx ends; it returns at once.
	Snoop(ctx context.Context, link string, emit func(netstate.ObservedAddress))
	// RereadDNS makes the host read the DNS servers of other programs again now; Watch reports differences.
	RereadDNS()
	// Watch reports events of the host until ctx ends.
	Watch(ctx context.Context, emit func(netstate.HostEvent)) error
}

// deps holds what every actor needs.
type deps struct {
	ctx       context.Context // ends when the node stops
	log       *zap.Logger
	host      Host
	files     Files
	executors Executors
	echo      Echo
	agent     *agent.Agent // the config actor
	facts     api.FactsReader
	topics    *api.Topics
	storage   api.Storage
	warning   string // from the start
	runDir    string
	processRun
	strategy *supervise.Backoff
	gate     *semaphore
	census   *census
	fail     func(error)
	notify   func(string)         // of systemd
	tell     func(nodeapi.Event)  // stores an event
	keep     func(api.NodeRecord) // journals what the config actor counted
	asked    marks                // time at which an adapter's config was published
	setLevel func(string)         // of the log
	hostView
}

// processRun identifies one run of the process.
type processRun struct {
	boot    uint64 // identifies the process: differs at each start
	machine string // its boot id
	began   time.Time
	epochs  atomic.Uint64
}

// epoch returns a number that differs at each call in every boot (docs/architecture.md, law 9).
func (r *processRun) epoch() uint64 { return r.boot<<32 | r.epochs.Add(1) }

// wait returns the duration of a timer of d. A shared timer ends at a multiple of d since the start of the process;
// every other timer is spread by jitter.
func (r *processRun) wait(after time.Duration, shared bool) time.Duration {
	if shared {
		return after - time.Since(r.began)%after
	}
	return jitter(after)
}

// hostView is what the router and the monitor know of the host and publish on no topic.
type hostView struct {
	hostProblem atomic.Pointer[string]               // why the host state is not as desired
	settled     atomic.Bool                          // the host state is as desired
	seen        atomic.Pointer[[]netstate.Interface] // the host's interfaces, for a plan
	maxTracked  atomic.Int64                         // limit of tracked flows of the machine, 0 if unknown
}

// problem returns why the host state is not as desired, "" if it is.
func (v *hostView) problem() string {
	if why := v.hostProblem.Load(); why != nil {
		return *why
	}
	return ""
}

// interfaces returns the host's interfaces as the monitor observed them last.
func (v *hostView) interfaces() []netstate.Interface {
	if p := v.seen.Load(); p != nil {
		return *p
	}
	return nil
}

// jitter lengthens d by up to a tenth, so that operations that failed together are not retried together.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/10+1) }

// timers sends delayed messages to one actor. The timers end with the actor's incarnation.
type timers struct {
	mu      sync.Mutex
	running map[*time.Timer]struct{}
}

// after sends the message that msg makes to self after d.
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

// subscriptions are the subscriptions of one actor, which they wake. They end with the actor's incarnation.
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

// wake reports that a subscription has something to drain. A subscription sends it at most once between two drains.
type wake struct{}

func waker(c actor.Context) func() {
	self, root := c.Self(), c.ActorSystem().Root
	return func() { root.Send(self, wake{}) }
}

// marks are times by name: since when a state holds.
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
