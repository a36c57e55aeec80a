package simulate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"

	"edgespan/actors/agent"
	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/nodeconf/action"
	"edgespan/config/nodeconf/commitconfirm"
)

// node is one simulated node over all its boots.
type node struct {
	fleet *SimulatedFleet
	index int
	fault InjectedFault
	disk  agent.Disk

	strikes atomic.Bool // the fault has begun

	mu      sync.Mutex
	boots   int
	life    *life // nil while it is down
	configs int   // how many it was pushed, each counted once
	latest  config.Generation
	struck  map[config.Generation]bool // configs that met the fault
	hung    config.Generation          // it sends nothing while this is the latest
	deaf    config.Generation          // its confirmation does not reach the node
	away    chan struct{}              // closed when it has links again; nil while it has links
}

// life is a node from a boot to its end.
type life struct {
	node  *node
	agent *agent.Agent
	pid   *actor.PID
	stop  context.CancelFunc

	machine string
	dead    atomic.Bool  // its remaining actions have no effect
	armed   atomic.Bool  // it ends with its next write
	muted   atomic.Int64 // sends nothing until then, Unix nanoseconds

	mu     sync.Mutex
	hangup context.CancelFunc // ends the current stream
}

// boot starts the node from its disk.
func (n *node) boot(machine string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fleet.ctx.Err() != nil {
		return n.fleet.ctx.Err()
	}
	n.boots++
	f := n.fleet
	l := &life{node: n, machine: machine}
	ctx, stop := context.WithCancel(f.ctx)
	l.stop = stop
	name := f.o.Names[n.index]
	l.agent = agent.New(agent.Options{
		Disk: &powered{l}, Validator: n.validate, Host: &host{life: l}, Runner: &runner{l}, Machine: machine,
		Facts:       f.o.Facts(name),
		Log:         f.o.Log,
		ReportEvery: f.o.ReportEvery,
	})
	var err error
	l.pid, err = f.system.Root.SpawnNamed(f.props(l.agent), fmt.Sprintf("node/%s/%d", name, n.boots))
	if err != nil {
		stop()
		return fmt.Errorf("boot node %s: %w", name, err)
	}
	n.life = l
	f.run(func() { l.connect(ctx) })
	return nil
}

// connect keeps a stream open until the life ends, and opens a new one after each disconnect.
func (l *life) connect(ctx context.Context) {
	stream := l.node.fleet.o.Stream(l.node.index)
	for ctx.Err() == nil {
		one, hangup := context.WithCancel(ctx)
		l.mu.Lock()
		l.hangup = hangup
		l.mu.Unlock()
		if away := l.node.awayUntil(); away != nil {
			hangup()
			select {
			case <-away:
			case <-ctx.Done():
			}
			continue
		}
		err := stream.Run(one, l.agent.Hello, l)
		hangup()
		if err != nil { // no stream is possible
			l.node.fleet.o.Failed(l.node.fleet.o.Names[l.node.index], err)
			return
		}
	}
}

// end ends the node without notice.
func (n *node) end() {
	n.mu.Lock()
	l := n.life
	n.life = nil
	n.mu.Unlock()
	if l == nil {
		return
	}
	l.dead.Store(true)
	l.stop()
	n.fleet.system.Root.Stop(l.pid)
}

// again ends the node and boots it after BootAfter.
func (n *node) again(machine string) {
	n.fleet.paths.takeDown(n.index) // down until its next life has applied its config
	n.end()
	t := time.NewTimer(BootAfter)
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.fleet.ctx.Done():
		return
	}
	if err := n.boot(machine); err != nil && n.fleet.ctx.Err() == nil {
		n.fleet.o.Failed(n.fleet.o.Names[n.index], err)
	}
}

// validate is the fleet's Validator, except for a node that rejects.
func (n *node) validate(document config.Object, peer string, from commitconfirm.Source) commitconfirm.Verdict {
	if n.fault == Reject && from == commitconfirm.Push && n.strikes.Load() {
		return commitconfirm.Verdict{Faults: config.Faults{{Problem: "rejected by the simulation"}}}
	}
	return n.fleet.o.Validator(document, peer, from)
}

// Up starts a stream.
func (l *life) Up(s nodeproto.ToController) {
	l.node.fleet.online.Add(1)
	l.agent.Up(&voice{l, s})
}

// Down ends the stream.
func (l *life) Down(cause error) {
	l.node.fleet.online.Add(-1)
	l.agent.Down(cause)
}

// Received passes a message of the controller to the agent; a push starts the node's fault.
func (l *life) Received(m nodeproto.FromController) {
	if l.dead.Load() {
		return
	}
	n := l.node
	switch m := m.(type) {
	case nodeproto.Push:
		n.mark(func(r *round) map[int]time.Time { return r.pushed })
		first := n.meets(m.Generation)
		l.agent.Received(m)
		if first {
			l.injectFault()
		}
		return
	case nodeproto.Confirm:
		if !n.confirmArrives(m.Generation) {
			return
		}
		n.mark(func(r *round) map[int]time.Time { return r.stands })
	}
	l.agent.Received(m)
}

func (n *node) mark(of func(*round) map[int]time.Time) {
	n.fleet.round.Load().mark(of, n.index, time.Now())
}

// voice is a stream as the agent sees it.
type voice struct {
	life   *life
	stream nodeproto.ToController
}

var errAway = errors.New("node unreachable")

// Send sends a message of the node, unless its fault suppresses it.
func (v *voice) Send(m nodeproto.FromNode) error {
	if v.life.dead.Load() {
		return errAway
	}
	if time.Now().UnixNano() < v.life.muted.Load() || v.life.node.hangs() {
		return nil
	}
	if r, ok := m.(nodeproto.Result); ok {
		switch r.Outcome {
		case nodeproto.Accepted:
			v.life.node.mark(func(r *round) map[int]time.Time { return r.acked })
		case nodeproto.Applied:
			v.life.node.mark(func(r *round) map[int]time.Time { return r.applied })
		case nodeproto.Unhealthy, nodeproto.Unconfirmed:
			if !v.life.node.fault.HaltsRollout() {
				v.life.node.fleet.undone.Add(1)
			}
			v.life.node.rolledBack()
		default:
		}
	}
	return v.stream.Send(m)
}

// powered is the disk of a node that can lose its power.
type powered struct{ life *life }

func (d *powered) Read(name string) ([]byte, error) { return d.life.node.disk.Read(name) }

func (d *powered) Write(name string, content []byte) error {
	return d.write(name, content, d.life.node.disk.Write)
}

func (d *powered) WriteSpare(name string, content []byte) error {
	return d.write(name, content, d.life.node.disk.WriteSpare)
}

func (d *powered) write(name string, content []byte, write func(string, []byte) error) error {
	if d.life.dead.Load() {
		return errAway
	}
	err := write(name, content)
	if err == nil && d.life.armed.Load() && !d.life.dead.Swap(true) {
		n := d.life.node
		n.fleet.run(func() { n.again(d.life.machine) })
		return errAway // the node is down: it never learns that the write succeeded
	}
	return err
}

func (d *powered) Remove(name string) error {
	if d.life.dead.Load() {
		return errAway
	}
	return d.life.node.disk.Remove(name)
}

// runner runs every action in no time; a restart is a boot.
type runner struct{ life *life }

func (*runner) Do(context.Context, action.Do, config.Object) error { return nil }

func (r *runner) Restart(_ context.Context, name string) error {
	n, machine := r.life.node, r.life.machine
	if name == action.NameReboot {
		machine = uuid.NewString()
	}
	n.fleet.run(func() { n.again(machine) })
	return nil
}
