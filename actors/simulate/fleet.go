package simulate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/agent"
	"edgespan/actors/supervise"
	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/topology"
	"edgespan/config/httpapi/fleetapi"
)

// Stream is a node's link to its controller.
type Stream interface {
	// Run keeps a stream open until ctx ends, and opens a new one whenever it ends.
	Run(ctx context.Context, hello func() nodeproto.Hello, l Listener) error
}

// Listener gets the controller's messages. Calls of Up and Down alternate.
type Listener interface {
	Up(s nodeproto.ToController)
	Received(m nodeproto.FromController)
	Down(cause error)
}

// Controller reports the state of the nodes.
type Controller interface {
	Nodes(ctx context.Context) ([]fleetapi.Node, error)
}

// Options configure a fleet.
type Options struct {
	Names     []string
	Plan      []InjectedFault                   // of each node
	Disk      func(node int) agent.Disk         // of each node; it survives the node's boots
	Stream    func(node int) Stream             // of each node
	Validator agent.Validator                   // of all nodes
	Facts     func(name string) agent.NodeFacts // of each node
	Log       *zap.Logger                       // of all nodes, verbose; nil: no log
	Failed    func(node string, err error)      // called for a node that can't continue; nil: ignored
	// ReportEvery is the interval of a node's reports. 0: 5 s.
	ReportEvery time.Duration
	// ApplyTime is how long a node takes to apply a config; it is down for that time.
	ApplyTime time.Duration
	// FaultsAt is the number of the config with which a node's fault begins, counting the configs it is pushed. 0: 1, the
	// first one.
	FaultsAt int
	// Unarmed delays faults until Arm, which starts the count.
	Unarmed bool
	// Topology says which nodes are behind which, by the names in Names. nil: none.
	Topology *topology.Topology
}

// registryBuckets is the number of buckets of the registry for ten thousand nodes' actors.
const registryBuckets = 64

// SimulatedFleet is a running fleet of simulated nodes.
type SimulatedFleet struct {
	o        Options
	ctx      context.Context
	cancel   context.CancelFunc
	system   *actor.ActorSystem
	strategy *supervise.Backoff
	nodes    []*node

	mu    sync.Mutex
	ended bool
	work  sync.WaitGroup

	round  atomic.Pointer[round]
	online atomic.Int64 // nodes with a stream
	undone atomic.Int64
	paths  *paths
	armed  atomic.Bool
}

// Start boots all nodes.
func Start(o Options) (*SimulatedFleet, error) {
	if len(o.Plan) != len(o.Names) {
		return nil, fmt.Errorf("simulate: a plan of %d nodes for %d names", len(o.Plan), len(o.Names))
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Failed == nil {
		o.Failed = func(string, error) {}
	}
	o.FaultsAt = max(1, o.FaultsAt)
	paths, err := newPaths(o.Names, o.Topology)
	if err != nil {
		return nil, err
	}
	f := &SimulatedFleet{o: o, paths: paths, system: supervise.System(o.Log, registryBuckets),
		strategy: &supervise.Backoff{Log: o.Log}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.round.Store(newRound(time.Now()))
	f.armed.Store(!o.Unarmed)
	for i := range o.Names {
		n := &node{fleet: f, index: i, fault: o.Plan[i], disk: o.Disk(i), struck: map[config.Generation]bool{}}
		f.nodes = append(f.nodes, n)
	}
	for _, n := range f.nodes { // only now: a running node may cut the links of all
		if err := n.boot("1"); err != nil {
			f.Stop()
			return nil, err
		}
	}
	return f, nil
}

// run runs f in a goroutine, unless the fleet has ended.
func (f *SimulatedFleet) run(part func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.work.Go(part)
	}
}

// Stop stops all nodes. Their disks and certificates remain.
func (f *SimulatedFleet) Stop() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.cancel()
	for _, n := range f.nodes {
		n.end()
	}
	f.work.Wait()
	f.system.Shutdown()
}

// Round starts to measure a change: what nodes do from now on counts for it.
func (f *SimulatedFleet) Round() { f.round.Store(newRound(time.Now())) }

// Times returns the times of the current round so far.
func (f *SimulatedFleet) Times() Round { return f.round.Load().times() }

// Progress returns the progress of the current round: how many nodes were pushed to, stored the config, and confirmed
// it.
func (f *SimulatedFleet) Progress() (pushed, acked, confirmed int) { return f.round.Load().progress() }

// Acks returns when the current round began, and how long after that each node stored its config, shortest first.
func (f *SimulatedFleet) Acks() (begun time.Time, took []time.Duration) { return f.round.Load().acks() }

// Online returns how many nodes have a stream.
func (f *SimulatedFleet) Online() int { return int(f.online.Load()) }

// UnrequestedUndos returns how often nodes undid a push without such a fault.
func (f *SimulatedFleet) UnrequestedUndos() int { return int(f.undone.Load()) }

// Await polls the controller until all nodes are where they should be or ctx ends. It returns the controller's last
// error, nil if it answered.
func (f *SimulatedFleet) Await(ctx context.Context, c Controller, every time.Duration,
	progress func(Progress)) (Progress,
	error) {
	last := Progress{Nodes: len(f.nodes), FailedAsAsked: map[InjectedFault]int{}, Waiting: []Waiting{}}
	for {
		seen, err := c.Nodes(ctx)
		if err == nil {
			last = Count(f.o.Names, f.pastFaults(), seen)
			progress(last)
			if last.Done() {
				return last, nil
			}
		}
		t := time.NewTimer(every)
		select {
		case <-ctx.Done():
			t.Stop()
			if errors.Is(err, ctx.Err()) {
				err = nil // the query was cancelled
			}
			return last, err
		case <-t.C:
		}
	}
}

// Arm starts the faults of a fleet that was Unarmed.
func (f *SimulatedFleet) Arm() { f.armed.Store(true) }

// pastFaults returns the faults that have begun, by node: a node without one has to converge.
func (f *SimulatedFleet) pastFaults() []InjectedFault {
	out := make([]InjectedFault, len(f.nodes))
	for i, n := range f.nodes {
		if n.strikes.Load() {
			out[i] = n.fault
		}
	}
	return out
}

// Watch starts to check, each time a node applies a config, whether all others still have a path to a point of
// presence. Without a topology nothing is checked.
func (f *SimulatedFleet) Watch() { f.paths.watch() }

// Paths returns what was observed since Watch.
func (f *SimulatedFleet) Paths() Paths { return f.paths.observed() }

// loseLinks cuts a node's links for a while, and the streams of all nodes behind it.
func (f *SimulatedFleet) loseLinks(node int) {
	f.setReachable(f.paths.takeLinks(node))
	f.run(func() {
		t := time.NewTimer(LinkLossFor)
		defer t.Stop()
		select {
		case <-t.C:
			f.setReachable(f.paths.restoreLinks(node))
		case <-f.ctx.Done():
		}
	})
}

// setReachable cuts and restores streams, by node.
func (f *SimulatedFleet) setReachable(reached []bool) {
	for i, n := range f.nodes {
		n.linked(reached[i])
	}
}

// props returns Props for a node's agent; after a panic it continues from what is on its disk.
func (f *SimulatedFleet) props(a *agent.Agent) *actor.Props {
	return actor.PropsFromProducer(a.Producer, supervise.Mailbox(),
		actor.WithReceiverMiddleware(supervise.Lifecycle(f.o.Log)))
}
