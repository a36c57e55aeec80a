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
	// Run holds a stream, and opens the next one whenever it ends, until ctx is over.
	Run(ctx context.Context, hello func() nodeproto.Hello, l Listener) error
}

// Listener is told what the controller does. Up and Down come in turns.
type Listener interface {
	Up(s nodeproto.ToController)
	Received(m nodeproto.FromController)
	Down(cause error)
}

// Controller is asked how the nodes stand.
type Controller interface {
	Nodes(ctx context.Context) ([]fleetapi.Node, error)
}

// Options are what a fleet is made of.
type Options struct {
	Names     []string
	Plan      []Fault                       // of each node
	Disk      func(node int) agent.Disk     // of each node; it lasts over the node's boots
	Stream    func(node int) Stream         // of each node
	Validator agent.Validator               // of all
	Facts     func(name string) agent.Facts // of each node
	Log       *zap.Logger                   // of all nodes, who say much; none
	Failed    func(node string, err error)  // told of a node that can't go on; nil for nobody
	// ReportEvery is how often a node reports; 5 s.
	ReportEvery time.Duration
	// ApplyTime is how long a node's own work for a config takes: so long it is down.
	ApplyTime time.Duration
	// FaultsAt is the config with which faults come, counted by node over those that it is
	// pushed; 1, the first one.
	FaultsAt int
	// Unarmed says that no fault comes before Arm, which begins the counting.
	Unarmed bool
	// Topology says who is behind whom, by the same names; nil where nobody is.
	Topology *topology.Topology
}

// registryBuckets is how many buckets find the actors of ten thousand nodes.
const registryBuckets = 64

// Fleet is a running fleet of simulated nodes.
type Fleet struct {
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
	undone atomic.Int64
	paths  *paths
	armed  atomic.Bool
}

// Start boots all nodes.
func Start(o Options) (*Fleet, error) {
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
	f := &Fleet{o: o, paths: paths, system: supervise.System(o.Log, registryBuckets),
		strategy: &supervise.Backoff{Log: o.Log}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.round.Store(newRound(time.Now()))
	f.armed.Store(!o.Unarmed)
	for i := range o.Names {
		n := &node{fleet: f, index: i, fault: o.Plan[i], disk: o.Disk(i), struck: map[config.Generation]bool{}}
		f.nodes = append(f.nodes, n)
	}
	for _, n := range f.nodes { // one that runs may cut the links of all
		if err := n.boot("1"); err != nil {
			f.Stop()
			return nil, err
		}
	}
	return f, nil
}

// run runs a part of a node beside the others, unless the fleet has ended.
func (f *Fleet) run(part func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.work.Go(part)
	}
}

// Stop ends all nodes. Their disks and their certificates stay.
func (f *Fleet) Stop() {
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

// Round begins the measuring of a change: what nodes do from now on counts for it.
func (f *Fleet) Round() { f.round.Store(newRound(time.Now())) }

// Times are those of the round that was begun last, as far as it has come.
func (f *Fleet) Times() Round { return f.round.Load().times() }

// Progress is how far the round has come: nodes that were pushed to, whose config is on
// their disk, and whose config stands.
func (f *Fleet) Progress() (pushed, acked, confirmed int) { return f.round.Load().progress() }

// Undone is how often nodes undid a push that they were not asked to undo.
func (f *Fleet) Undone() int { return int(f.undone.Load()) }

// Await asks the controller how the nodes stand, until all are where they should be or ctx
// is over. The error is the last one of the controller, nil where it answered.
func (f *Fleet) Await(ctx context.Context, c Controller, every time.Duration, progress func(Progress)) (Progress,
	error) {
	last := Progress{Nodes: len(f.nodes), FailedAsAsked: map[Fault]int{}, Waiting: []Waiting{}}
	for {
		seen, err := c.Nodes(ctx)
		if err == nil {
			last = Count(f.o.Names, f.struck(), seen)
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
				err = nil // the question was cut off, not refused
			}
			return last, err
		case <-t.C:
		}
	}
}

// Arm lets faults come, of a fleet that was Unarmed.
func (f *Fleet) Arm() { f.armed.Store(true) }

// struck are the faults that have come, by node: until then a node is to be as all others.
func (f *Fleet) struck() []Fault {
	out := make([]Fault, len(f.nodes))
	for i, n := range f.nodes {
		if n.strikes.Load() {
			out[i] = n.fault
		}
	}
	return out
}

// Watch begins to look, each time a node takes a config, whether all others still have a path
// to a point of presence. Before, and without a topology, nobody looks.
func (f *Fleet) Watch() { f.paths.watch() }

// Paths are what was seen since Watch.
func (f *Fleet) Paths() Paths { return f.paths.observed() }

// loses takes a node's links away for a while, and the streams of all that are behind it.
func (f *Fleet) loses(node int) {
	f.cutOff(f.paths.lose(node))
	f.run(func() {
		t := time.NewTimer(LinkLossFor)
		defer t.Stop()
		select {
		case <-t.C:
			f.cutOff(f.paths.regain(node))
		case <-f.ctx.Done():
		}
	})
}

// cutOff holds and gives back streams, by node.
func (f *Fleet) cutOff(reached []bool) {
	for i, n := range f.nodes {
		n.linked(reached[i])
	}
}

// props make a node's agent; after a panic it goes on with what is on its disk.
func (f *Fleet) props(a *agent.Agent) *actor.Props {
	return actor.PropsFromProducer(a.Producer, actor.WithReceiverMiddleware(supervise.Lifecycle(f.o.Log)))
}
