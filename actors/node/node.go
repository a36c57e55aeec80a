package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/agent"
	"edgespan/actors/node/api"
	"edgespan/actors/node/census"
	"edgespan/actors/node/console"
	"edgespan/actors/node/flows"
	"edgespan/actors/node/metrics"
	"edgespan/actors/relay"
	"edgespan/actors/supervise"
	scrapes "edgespan/config/httpapi/metrics"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/stateloop/nodestate"
	"edgespan/pubsub"
	"edgespan/pubsub/loglevel"
	"edgespan/pubsub/tape"
	"edgespan/pubsub/trace"
)

// Node implements the backend of the REST API.
var _ nodeapi.Backend = (*Node)(nil)

// Options configures a node.
type Options struct {
	Host      Host
	Files     Files
	Facts     api.FactsReader
	Executors Executors
	Echo      Echo
	About     agent.NodeFacts      // facts about the node; its Metadata and Bases are required
	Machine   string               // the machine's boot id
	Uptime    func() time.Duration // of the machine; nil: that of the process
	// Now is the wall clock, with a reading of the monotonic one, for what is kept over restarts; nil: time.Now.
	Now       func() time.Time
	Commands  Commands
	Journal   pubsub.Journal
	FlowStore flows.Store
	FlowDial  flows.Dial // connects to where the flow log is sent
	// EventStore keeps events over restarts; nil: they are in memory only.
	EventStore EventStore
	Storage    api.Storage // state of the Journal; nil for a journal that always persists
	Warning    string      // problem found at startup before this, "" for none
	RunDir     string      // absolute
	Boot       uint64      // differs at each start of the process
	Log        *zap.Logger
	Tracer     *trace.Tracer // nil: no traces
	// Tape records what the cores are told and decide; nil: nothing does.
	Tape   *tape.Recorder
	Relays *relay.Server // answers the controller's relays; nil: none
	Notify func(string)  // notifies systemd; nil for no notification
	// SetLevel changes the minimum level of Log: debug, info, warn or error. It is nil if the level of the log is fixed.
	SetLevel func(string)
}

// Node is a running node: the actor tree and its topics.
type Node struct {
	*api.Reader
	d      *deps
	system *actor.ActorSystem
	router *actor.PID
	cancel context.CancelFunc
	ended  chan error
	stop   sync.Once
}

// noLink is the link of a node without a controller.
type noLink struct{}

func (noLink) ClusterKeys() (key, next string) { return "", "" }
func (noLink) Controllers() []netip.Addr       { return nil }
func (noLink) Watch(func())                    {}

func (o *Options) setDefaults() {
	if o.Storage == nil {
		o.Storage = alwaysPersists{}
	}
	if o.About.Link == nil {
		o.About.Link = noLink{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Notify == nil {
		o.Notify = func(string) {}
	}
	if o.SetLevel == nil {
		o.SetLevel = func(string) {}
	}
}

// Start creates and starts the actor tree. The node works from then on; Done reports why it can't continue.
func Start(o Options) (*Node, error) {
	if o.About.Metadata == nil {
		return nil, errors.New("start a node: no metadata")
	}
	topics, err := api.NewTopics(o.Journal, o.Storage)
	if err != nil {
		return nil, fmt.Errorf("restore the journal: %w", err)
	}
	o.setDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	n := &Node{cancel: cancel, ended: make(chan error, 1)}
	c := census.New()
	n.d = &deps{
		ctx: ctx, logged: logged{log: o.Log, tracer: o.Tracer, tape: o.Tape},
		host: o.Host, files: o.Files, executors: o.Executors, echo: o.Echo, facts: o.Facts,
		topics: topics, storage: o.Storage, warning: o.Warning, runDir: o.RunDir,
		processRun: processRun{boot: o.Boot, machine: o.Machine, uptime: o.Uptime, now: o.Now,
			began: time.Now(), link: o.About.Link},
		census: c, slots: newSemaphore(), notify: o.Notify, setLevel: o.SetLevel,
		counted:    counted{hits: newRuleHits(), watched: newWatchedNetworks()},
		eventState: eventState{eventStore: o.EventStore},
		fail: func(err error) {
			select {
			case n.ended <- err:
			default: // only the first reason counts
			}
		},
	}
	n.system = supervise.System(n.d.of(logActors), pidBuckets)
	keeper := actor.NewPID(n.system.Address(), eventsID)
	n.d.recordEvent = func(e nodeapi.Event) {
		o.Tape.Say(e)
		if ctx.Err() == nil { // at shutdown its keeper may be gone first
			n.system.Root.Send(keeper, e)
		}
	}
	c.Mask = (&console.Secrets{Topics: topics}).Mask
	n.d.flows = n.d.newFlows(o.FlowStore, o.FlowDial)
	n.d.strategy = &supervise.Backoff{Log: n.d.of(logActors), Crashed: n.d.crashed}
	recorder := actor.NewPID(n.system.Address(), recorderID)
	n.d.journalRecord = func(r api.NodeRecord) {
		if ctx.Err() == nil {
			n.system.Root.Send(recorder, r)
		}
	}
	n.d.agent = n.newAgent(o)
	n.Reader = n.newReader(o)
	n.router, err = n.system.Root.SpawnNamed(n.d.vital(func() actor.Actor { return &router{d: n.d} }), "router")
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start the router: %w", err)
	}
	o.Storage.Watch(func(h api.StorageHealth) {
		if ctx.Err() == nil {
			n.system.Root.Send(n.router, storageChanged{h})
		}
	})
	return n, nil
}

// pidBuckets is the number of buckets of the process registry.
const pidBuckets = 8

// Done delivers the reason why the node can't continue; the process must then end.
func (n *Node) Done() <-chan error { return n.ended }

// Topics returns the node's topics, for reading.
func (n *Node) Topics() *api.Topics { return n.d.topics }

// Reload reads the config file again.
func (n *Node) Reload() { n.d.agent.Reload() }

// Stop stops the tree and leaves the host unchanged. It waits until ctx ends; a second call does nothing.
func (n *Node) Stop(ctx context.Context) error {
	var err error
	n.stop.Do(func() {
		soon, cancel := context.WithTimeout(ctx, stopTimeout)
		_ = n.d.agent.Stop(soon) // a disk that hangs must not delay the shutdown
		n.flushEvents(soon)
		cancel()
		n.cancel() // ends blocking calls
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

// stopTimeout limits the time to record on disk that the shutdown is intended.
const stopTimeout = 2 * time.Second

// newReader creates the reader that answers the control socket.
func (n *Node) newReader(o Options) *api.Reader {
	d := n.d
	return &api.Reader{
		Topics: d.topics, Actors: d.census, Done: d.ctx.Done(), Asked: d.asked.get, Settled: d.settled.Load,
		Stuck:   d.stuck.Load,
		Pending: n.pending, Hits: d.hitsOf, Watched: d.watched.each,
		Facts: o.Facts, File: o.Files.ReadConfig, Forwarding: d.forwardingChanged, Interfaces: d.interfaces,
		Warning: o.Warning, Host: d.problem,
	}
}

// newAgent creates the config actor's handle.
func (n *Node) newAgent(o Options) *agent.Agent {
	record, _ := n.d.topics.NodeRecord.Get("", "node")
	return agent.New(agent.Options{
		Disk: &migratedDisk{o.Files, record, n.d.of(logConfig)}, Validator: nodestate.Validator(o.About.Metadata),
		Host:    &configHost{d: n.d},
		File:    o.Files.ReadConfig,
		Runner:  n.newRunner(o.Commands),
		Machine: o.Machine, Facts: o.About, Log: n.d.of(logConfig), Tracer: o.Tracer, Relays: o.Relays,
		OnEvent:   n.d.recordDecision,
		LastEvent: n.d.lastEvent.Load, Events: n.d.eventsAfter,
	})
}

func (n *Node) newRunner(commands Commands) *runner {
	return &runner{n.d, commands, func(l observeAgain) { n.system.Root.Send(n.monitorPID(), l) }}
}

func (n *Node) monitorPID() *actor.PID { return actor.NewPID(n.system.Address(), "router/monitor") }

// WaitStarted returns once the config of this start is published, or ctx ends.
func (n *Node) WaitStarted(ctx context.Context) error { return n.d.agent.WaitStarted(ctx) }

// Agent returns the config actor, for the link to the controller.
func (n *Node) Agent() *agent.Agent { return n.d.agent }

// Note stores an event.
func (n *Node) Note(kind, object, text string) { n.d.recordEvent(event(kind, object, "", text)) }

// Console returns what answers debug shells. Without faults it injects none.
func (n *Node) Console(levels *loglevel.Levels, faults console.Faults) *console.Console {
	send := func(to string, m any) { n.system.Root.Send(actor.NewPID(n.system.Address(), to), m) }
	return &console.Console{
		Census: n.d.census, System: n.system, Topics: n.d.topics, Log: n.d.of(logShell), Events: n.Events,
		Record: n.d.recordEvent, Levels: levels, Faults: faults,
		Reconcile: func(number int) { send("router/monitor", observeFull{networks: []int{number}}) },
		Reprobe:   func(network string) { send("router/probes", probeNow{network}) },
	}
}

// Scrape adds the numbers of the node as of now. It sends no actor a message but telemetry, which reads the counters of
// access rules for the next scrape.
func (n *Node) Scrape(version string, to *scrapes.Scrape) {
	d := n.d
	ctx, cancel := context.WithTimeout(d.ctx, hitsTimeout)
	defer cancel()
	s := n.Snapshot()
	s.Version, s.Counts, s.FlowLog = version, d.work.Snapshot(), d.flows.Counts()
	var err error
	if s.Links, err = d.host.LinkCounters(); err != nil {
		d.of(logTelemetry).Warn("scrape", zap.Error(err))
	}
	if s.Helpers, err = d.host.HelperUsage(ctx); err != nil {
		d.of(logTelemetry).Warn("scrape", zap.Error(err))
	}
	for _, a := range d.census.List() {
		s.Actors = append(s.Actors, metrics.Actor{ID: a.ID, State: a.State, Waiting: d.census.Waiting(a.ID)})
	}
	s.Collect(to)
	if d.ctx.Err() == nil {
		n.system.Root.Send(actor.NewPID(n.system.Address(), "router/telemetry"), scraped{})
	}
}
