package actors

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/keep"
	"edgespan/config/httpapi"
	"edgespan/pubsub"
)

// Options is what a node is made of.
type Options struct {
	Host    Host
	Files   Files
	Facts   Facts
	Journal pubsub.Journal
	RunDir  string // absolute
	Boot    uint64 // different at each start of the process
	Log     *zap.Logger
	Notify  func(string) // tells systemd; nil for nobody
	// SetLevel changes the least level of Log: debug, info, warn or error; nil for a
	// log whose level is fixed.
	SetLevel func(string)
}

// Node is a running node: the actor tree and its topics.
type Node struct {
	d      *deps
	system *actor.ActorSystem
	router *actor.PID
	cancel context.CancelFunc
	ended  chan error
	stop   sync.Once
}

// Start makes the actor tree and starts it. The node works from then on; Done
// tells when it can't go on.
func Start(o Options) (*Node, error) {
	topics, err := NewTopics(o.Journal)
	if err != nil {
		return nil, fmt.Errorf("restore the journal: %w", err)
	}
	if o.Notify == nil {
		o.Notify = func(string) {}
	}
	if o.SetLevel == nil {
		o.SetLevel = func(string) {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &Node{cancel: cancel, ended: make(chan error, 1)}
	c := &census{actors: map[string]*ActorState{}}
	n.d = &deps{
		ctx: ctx, log: o.Log, host: o.Host, files: o.Files, facts: o.Facts, topics: topics, runDir: o.RunDir, boot: o.Boot, began: time.Now(),
		census: c, gate: newGate(), strategy: &backoff{log: o.Log, census: c}, notify: o.Notify, setLevel: o.SetLevel,
		fail: func(err error) {
			select {
			case n.ended <- err:
			default: // the first reason counts
			}
		},
	}
	n.system = keep.System(o.Log, pidBuckets)
	keeper := actor.NewPID(n.system.Address(), eventsID)
	n.d.tell = func(e httpapi.Event) {
		if ctx.Err() == nil { // at the end its keeper may be gone first
			n.system.Root.Send(keeper, e)
		}
	}
	n.d.strategy.tell = n.d.tell
	n.router, err = n.system.Root.SpawnNamed(n.d.vital(func() actor.Actor { return &router{d: n.d} }), "router")
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start the router: %w", err)
	}
	return n, nil
}

// pidBuckets is how many buckets find the processes of a system.
const pidBuckets = 8

// Done gives the reason why the node can't go on: the process has to end then.
func (n *Node) Done() <-chan error { return n.ended }

// Topics are the node's topics, to be read.
func (n *Node) Topics() *Topics { return n.d.topics }

// Reload reads the config file again.
func (n *Node) Reload() { n.system.Root.Send(n.router, reload{}) }

// Stop ends the tree and leaves the host as it is. It waits until ctx ends; a
// second call does nothing.
func (n *Node) Stop(ctx context.Context) error {
	var err error
	n.stop.Do(func() {
		n.cancel() // what blocks ends now
		stopped := make(chan error, 1)
		go func() { stopped <- n.system.Root.StopFuture(n.router).Wait() }()
		select {
		case err = <-stopped:
		case <-ctx.Done():
			err = fmt.Errorf("stop the actors: %w", ctx.Err())
		}
		n.system.Shutdown()
	})
	return err
}

// applyDeadline is how long a document may take to be checked and stored.
const applyDeadline = 30 * time.Second

// apply hands a document to the config actor.
func (n *Node) apply(ctx context.Context, doc []byte) (applyAnswer, error) {
	wait := applyDeadline
	if at, ok := ctx.Deadline(); ok {
		wait = max(min(wait, time.Until(at)), time.Millisecond)
	}
	res, err := n.system.Root.RequestFuture(n.router, applyDocument{doc}, wait).Result()
	if err != nil {
		return applyAnswer{}, fmt.Errorf("ask the config actor: %w", err)
	}
	return res.(applyAnswer), nil
}
