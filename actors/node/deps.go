package node

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/agent"
	"edgespan/actors/node/api"
	"edgespan/actors/node/census"
	"edgespan/actors/node/flows"
	"edgespan/actors/node/metrics"
	"edgespan/actors/supervise"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
	"edgespan/pubsub"
	"edgespan/pubsub/tape"
	"edgespan/pubsub/trace"
)

// Host is the machine as the appliers see it: platform/host or platform/fake. Every method returns by its context's
// deadline.
type Host interface {
	// Observe reads the objects of an owner on the host. With full it dumps everything; otherwise it takes what the kernel
	// reports slowly from the last write.
	Observe(ctx context.Context, o netstate.Owner, full bool) (netstate.State, error)
	// ObserveProcesses reads the processes of an owner alone, as Observe does without full.
	ObserveProcesses(ctx context.Context, o netstate.Owner) (netstate.State, error)
	// Do carries out one op. Its error wraps netstate.ErrWaiting when the op depends on something that is not there yet.
	Do(ctx context.Context, o netstate.Owner, op netstate.Op) error
	// BridgeMTU returns the MTU of an owner's bridge, 0 if it has none.
	BridgeMTU(ctx context.Context, o netstate.Owner) (int, error)
	// Owners lists the network instances that have objects on the host.
	Owners(ctx context.Context) ([]netstate.Owner, error)
	// ForgetFlows starts deleting the tracked flows that match, in another goroutine; the function it returns waits for
	// the end and returns their number.
	ForgetFlows(ctx context.Context, match func(netstate.Flow) bool) (answer func() (int, error))
	// EndConnections ends TCP sockets of an app in its network namespace, and returns how many there were: flows name
	// their addresses, the app's as Src.
	EndConnections(ctx context.Context, netns string, flows []netstate.Flow) (int, error)
	// Test checks whether the objects of want work, such as a DNS server that answers, and reports each that does not.
	Test(ctx context.Context, o netstate.Owner, want netstate.State) []netstate.OpFailure
	// Counters returns what the rules of these chains have counted since each was written, in order. A chain that does
	// not exist is left out.
	Counters(ctx context.Context, o netstate.Owner, chains []netstate.ID) (map[netstate.ID][]netstate.Counter, error)
	// TunnelStatus asks the tunnel of a network for its state; without a tunnel the result has no Kind.
	TunnelStatus(ctx context.Context, o netstate.Owner) (netstate.TunnelStatus, error)
	// LinkCounters returns what each link has carried, by name.
	LinkCounters() (map[string]netstate.LinkCounters, error)
	// HelperUsage returns what the processes of the networks use, by program.
	HelperUsage(ctx context.Context) ([]netstate.HelperUsage, error)
	// Snoop starts reporting the addresses that the app behind a link uses, until ctx ends; it returns at once.
	Snoop(ctx context.Context, link string, emit func(netstate.ObservedAddress))
	// WatchMessages starts emitting the DNS and DHCP messages of apps on a link, until ctx ends; it returns at once.
	// Before each reading of several messages it asks allow how many.
	WatchMessages(ctx context.Context, link string, allow func(reader string) int, emit func(netstate.Messages))
	// HeldLeases returns the leases in the file of a network's DHCP server, named relative to the run directory.
	HeldLeases(file string) ([]netstate.HeldLease, error)
	// Probe sends one shot of a probe by its interface alone, and returns the time until the target's answer, and the
	// bytes sent and received. Its error wraps probe.ErrNone if the interface has no such probe.
	Probe(ctx context.Context, id probe.ID) (took time.Duration, bytes int, err error)
	// EndedFlows reports tracked flows of the host as they end, and how many ends were lost because emit took too long,
	// until ctx ends. It uses the slices again.
	EndedFlows(ctx context.Context, emit func(netstate.FlowEvents)) error
	// DeniedPackets does the same with packets that chains log to a group.
	DeniedPackets(ctx context.Context, group uint16, emit func(netstate.FlowEvents)) error
	// TrackedFlows reports the tracked flows of the host with what was counted so far, until ctx ends.
	TrackedFlows(ctx context.Context, each func(netstate.EndedFlow)) error
	// DHCP opens a DHCP client's socket on an interface, until ctx ends or the interface fails, and returns what sends
	// messages on it. Replies and the end are reported from another goroutine.
	DHCP(ctx context.Context, ifName string, emit func(netstate.DHCPReply), ended func(error)) (
		send func(netstate.DHCPQuery) error, err error)
	// InUse checks whether another host on the link of an interface has an address. It emits that one's MAC address, or ""
	// if none answers, from another goroutine within a second or so.
	InUse(ctx context.Context, ifName string, addr netip.Addr, emit func(who string))
	// RereadDNS makes the host read the DNS servers of other programs again now; Watch reports differences.
	RereadDNS()
	// Watch reports events of the host until ctx ends.
	Watch(ctx context.Context, emit func(netstate.HostEvent)) error
}

// deps holds what every actor needs.
type deps struct {
	ctx       context.Context // ends when the node stops
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
	strategy      *supervise.Backoff
	slots         *semaphore
	census        *census.Census
	fail          func(error)
	notify        func(string)         // of systemd
	journalRecord func(api.NodeRecord) // journals what the config actor counted
	asked         marks                // time at which an adapter's config was published
	setLevel      func(string)         // of the log
	flows         *flows.Recorder
	logged
	hostView
	counted
	eventState
}

// logged is how the actors describe what they do: by lines, by spans of the trace of the config that is being applied,
// and by the steps of their cores.
type logged struct {
	log     *zap.Logger
	tracer  *trace.Tracer                   // nil: no traces
	tape    *tape.Recorder                  // of what the cores are told and decide; nil: none
	applied atomic.Pointer[applyingContext] // nil: no config is being applied
}

// The subsystems of the log, which each have a level (package loglevel).
const (
	logActors    = "actors" // crashes and restarts
	logApplier   = "applier"
	logBridge    = "bridge"
	logConfig    = "config"
	logExec      = "exec"
	logFlows     = "flows"
	logMonitor   = "monitor"
	logPorts     = "ports"
	logProbe     = "probe"
	logRouter    = "router"
	logShell     = "shell" // commands of operators
	logTelemetry = "telemetry"
)

// LogNames returns the subsystems of the actors' log.
func LogNames() []string {
	return []string{logActors, logApplier, logBridge, logConfig, logExec, logFlows, logMonitor, logPorts, logProbe,
		logRouter, logShell, logTelemetry}
}

// of returns the log of a subsystem.
func (l *logged) of(subsystem string) *zap.Logger { return l.log.Named(subsystem) }

// applyingContext is the trace of the config that was published last, until the host is as it desires. What the
// appliers then change is below it.
type applyingContext struct {
	trace.Context
	until time.Time
}

// maxTraced is how long a config that is never fully applied is traced: retries may go on for days.
const maxTraced = 10 * time.Minute

// traceConfig sets the trace of the config that is published now, the zero value for none.
func (l *logged) traceConfig(c trace.Context) {
	if l.tracer == nil || !c.Sampled {
		l.applied.Store(nil)
		return
	}
	l.applied.Store(&applyingContext{c, time.Now().Add(maxTraced)})
}

// traced returns the trace of the config that is being applied.
func (l *logged) traced() trace.Context {
	if p := l.applied.Load(); p != nil && time.Now().Before(p.until) {
		return p.Context
	}
	return trace.Context{}
}

// tracedLog returns the log, with the IDs of that trace.
func (l *logged) tracedLog(log *zap.Logger) *zap.Logger { return supervise.Traced(log, l.traced()) }

// counted is what the actors count for metrics.
type counted struct {
	hits    *ruleHits
	watched *watchedNetworks
	work    metrics.Work
}

// processRun identifies one run of the process, and the node.
type processRun struct {
	boot    uint64               // identifies the process: differs at each start
	machine string               // its boot id
	uptime  func() time.Duration // of the machine; nil: that of the process
	now     func() time.Time     // the wall clock, with its reading of the monotonic one
	began   time.Time
	epochs  atomic.Uint64
	link    agent.LinkFacts
}

// clock returns the time by the clocks of the machine.
func (r *processRun) clock() probe.Clock {
	now := probe.Clock{Wall: r.now(), Machine: r.machine, Uptime: time.Since(r.began)}
	if r.uptime != nil {
		now.Uptime = r.uptime()
	}
	return now
}

// booted returns the ID of the machine's boot, and when that was by the wall clock as it is set now.
func (r *processRun) booted() (machine string, at time.Time) {
	now := r.clock()
	return now.Machine, now.Wall.Round(0).Add(-now.Uptime)
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
	hostProblem    atomic.Pointer[string]               // why the host state is not as desired
	settled        atomic.Bool                          // the host state is as desired
	stuck          atomic.Bool                          // a vital actor does not answer
	lastInterfaces atomic.Pointer[[]netstate.Interface] // the host's interfaces, for a plan
	maxTracked     atomic.Int64                         // limit of tracked flows of the machine, 0 if unknown
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
	if p := v.lastInterfaces.Load(); p != nil {
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
