package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/actors/agent"
	tree "edgespan/actors/node"
	"edgespan/actors/node/api"
	"edgespan/actors/node/fault"
	"edgespan/actors/node/flows"
	"edgespan/netinst/netstate"
	"edgespan/platform/daemon"
	"edgespan/platform/datadir"
	"edgespan/platform/executor"
	machine "edgespan/platform/facts"
	"edgespan/platform/flowexport"
	"edgespan/platform/host"
	"edgespan/platform/nodelink"
	"edgespan/platform/pki"
	"edgespan/platform/probe"
	"edgespan/platform/proc"
	"edgespan/platform/store"
	"edgespan/platform/support"
	"edgespan/pubsub/loglevel"
)

// node is a started node and its parts.
type node struct {
	*tree.Node
	host    *host.Host
	journal *store.Buffered
	notify  func(string)
	again   atomic.Bool   // the end is a restart
	ends    chan error    // what Done returns
	linked  chan struct{} // closed when the link to the controller has ended
	unlink  context.CancelFunc
	tracing
	recording
	stopped chan struct{}

	uninform func(context.Context) error // ends the upload of facts
	facts    *linkFacts
	keyless  context.CancelFunc // ends the tries to make it; nil: there are none
	faults   *fault.Faults      // nil: none can be injected
}

// dialFlows connects to where the flow log is sent.
func dialFlows(ctx context.Context, protocol, address string) (flows.Conn, error) {
	return flowexport.Dial(ctx, protocol, address)
}

// errRestart is the cause of an end after which the daemon restarts.
var errRestart = errors.New("restart requested by the config")

// commands runs the node's commands in its own network namespace.
type commands struct {
	*proc.Runner
	n *node
}

func (c commands) Run(ctx context.Context, argv ...string) error {
	_, err := c.Runner.Run(ctx, "", argv...)
	return err
}

// RestartAgent ends the daemon so that runNode executes the program again in the same process.
func (c commands) RestartAgent() error {
	c.n.again.Store(true)
	select {
	case c.n.ends <- errRestart:
	default: // it is already ending
	}
	return nil
}

// backendDeadline bounds the query for the host's iptables version, which is only logged.
const backendDeadline = 500 * time.Millisecond

// The flow log has 4 files of 4 MiB, the events have one. Both leave 16 MiB of the disk to others.
const (
	flowLogName  = "flows.jsonl"
	flowLogLimit = 4 << 20
	flowLogKept  = 3
	eventsName   = "events.log"
	diskSpare    = 16 << 20
)

// beginTimeout bounds how long a start waits until the config is published.
const beginTimeout = 2 * time.Second

// startNode connects platform and actors and starts the node.
func startNode(ctx context.Context, o nodeOptions, log *zap.Logger) (runningNode, error) {
	journal, err := store.OpenBuffered(o.StateDir, store.BufferedOptions{Strict: o.Strict, RunDir: o.RunDir})
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	boot := journal.Boot()
	n := &node{journal: journal, notify: daemon.Notifier(os.Getenv("NOTIFY_SOCKET")), ends: make(chan error, 2),
		stopped: make(chan struct{})}
	if n.host, err = host.New(o.host(log)); err != nil {
		return nil, errors.Join(fmt.Errorf("open host: %w", err), n.close())
	}
	id, err := journal.NodeID(pki.Bound(o.StateDir))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read node ID: %w", err), n.close())
	}
	// A host without iptables still starts: its networks report what is missing.
	ask, cancel := context.WithTimeout(ctx, backendDeadline)
	backend, err := n.host.Backend(ask)
	cancel()
	log.Info("host", zap.String("node", id.String()), zap.Uint64("boot", boot), zap.Stringer("iptables", backend),
		zap.Error(err),
		zap.Int64("journal_torn", journal.Stats().Torn))
	facts, creds, err := n.who(o, id, log)
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	if err := n.tracing.start(o.Traces, o.Version, id, log); err != nil {
		return nil, errors.Join(err, n.close())
	}
	reader := machine.Reader{Root: "/", RunDir: o.RunDir, Iptables: n.iptables, Flushable: n.host.Flushable,
		Unlimited: n.host.Unlimited, AtLimit: n.host.AtLimit}
	machineHost, records := n.withFaults(o, log)
	n.Node, err = tree.Start(tree.Options{
		About: facts, Machine: daemon.MachineBoot(), Uptime: daemon.Uptime, Commands: commands{proc.New(""), n},
		Host: machineHost, Executors: executor.New(proc.New(""), o.RunDir), Echo: probe.Echo, Journal: records,
		Storage: n.storage(o), Warning: o.Warning,
		FlowStore: flowStore(o.StateDir),
		FlowDial:  dialFlows, Files: daemon.NewFiles(o.Config, o.StateDir).WithReserve(journal.ReleaseReserve),
		EventStore: datadir.NewTail(filepath.Join(o.StateDir, eventsName), tree.EventFileLimit, diskSpare),
		Facts:      reader,
		RunDir:     o.RunDir, Boot: boot, Log: log, Tracer: n.tracer, Relays: n.relays(o, log),
		Notify: n.notify, SetLevel: setLevel(o.Level), Tape: n.recording.start(o, boot, log),
	})
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	go n.passEnd()
	n.hear()
	n.link(creds, facts.Controller, log)
	n.uninform = informer{id.String(), facts, reader, n.Topics(), creds, log.Named(logFacts)}.start()
	// Once the daemon is ready, clients see the networks of its config. A disk that hangs delays the start by no more
	// than beginTimeout.
	begin, cancel := context.WithTimeout(ctx, beginTimeout)
	if err := n.WaitStarted(begin); err != nil {
		log.Warn("config not published yet", zap.Error(err))
	}
	cancel()
	n.notify("READY=1")
	return n, nil
}

// passEnd passes the end of the actors on.
func (n *node) passEnd() {
	select {
	case err := <-n.Node.Done():
		n.ends <- err
	case <-n.stopped:
	}
}

func flowStore(dir string) *datadir.Lines {
	return &datadir.Lines{Path: filepath.Join(dir, flowLogName), Limit: flowLogLimit, Keep: flowLogKept,
		Spare: diskSpare}
}

func (o *nodeOptions) host(log *zap.Logger) host.Config {
	return host.Config{RunDir: o.RunDir, StateDir: o.StateDir, Log: log.Named(logHost), ResolverRoot: o.ResolverRoot,
		Identity: func() (pki.Identity, error) { return pki.IdentityOf(o.StateDir) }}
}

// record writes down what the daemon was started with, for support archives. The daemon works without it.
func record(o nodeOptions, name string, log *zap.Logger) {
	err := support.WriteDaemon(support.Daemon{RunDir: o.RunDir, Socket: o.Socket, Started: time.Now().UTC(),
		Version: o.Version, Node: name, Config: o.Config, StateDir: o.StateDir, Metadata: o.About.Metadata,
		Record: o.Record})
	if err != nil {
		log.Warn("record what the daemon was started with", zap.Error(err))
	}
}

// storage returns the state folder for the actors, or nil with --strict, where damage is an error.
func (n *node) storage(o nodeOptions) api.Storage {
	if o.Strict {
		return nil
	}
	return storage{n.journal}
}

type storage struct{ *store.Buffered }

func (s storage) Watch(f func(api.StorageHealth)) {
	s.Buffered.Watch(func(h store.DiskHealth) { f(api.StorageHealth(h)) })
}

// who reads what the node is and which fleet it is part of. A node that can't read its credentials runs without its
// controller.
func (n *node) who(o nodeOptions, id uuid.UUID, log *zap.Logger) (agent.NodeFacts, *pki.Credentials, error) {
	facts, err := readNodeFacts(o, log)
	if err != nil {
		return facts, nil, fmt.Errorf("read node facts: %w", err)
	}
	fleet, creds, err := fleetOf(o.StateDir, id)
	if err != nil {
		log.Error("controller unreachable", zap.Error(err))
	}
	if fleet.Name != "" {
		facts.Name = fleet.Name
	}
	facts.Controller, n.facts = fleet.Controller, newLinkFacts(fleet.Controller)
	if facts.Link = n.facts; facts.Controller != "" {
		ctx, cancel := context.WithCancel(context.Background())
		n.keyless = cancel
		n.facts.keep(ctx, n.host, o.KeyLife, log)
	}
	record(o, facts.Name, log)
	return facts, creds, nil
}

// link runs the stream to the controller. The actor tree never waits for it.
func (n *node) link(creds *pki.Credentials, controller string, log *zap.Logger) {
	n.linked, n.unlink = make(chan struct{}), func() {}
	if creds == nil {
		close(n.linked)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.unlink = cancel
	client := nodelink.NewClient(nodelink.ClientOptions{
		Controller: controller, Credentials: creds, Hello: n.Agent().Hello, Listener: watchedLink{n.Agent(), n.facts},
		Log: log.Named(logLink), Dialing: n.facts.dial,
	})
	go func() {
		defer close(n.linked)
		if err := client.Run(ctx); err != nil {
			log.Error("controller unreachable", zap.Error(err))
		}
	}()
}

// Done receives the cause of an end that did not come from outside.
func (n *node) Done() <-chan error { return n.ends }

// iptables returns the host's iptables version for the doctor.
func (n *node) iptables(ctx context.Context) netstate.Iptables {
	b, err := n.host.Backend(ctx)
	if err != nil {
		return netstate.Iptables{Fault: err.Error()}
	}
	return netstate.Iptables{Version: b.Version, Mode: b.Mode, Wait: b.Wait, RandomFully: b.RandomFully}
}

// Stop ends the actors, then the resources they use.
func (n *node) Stop(ctx context.Context) error {
	if !n.again.Load() { // else systemd would wait for a process that keeps running
		n.notify("STOPPING=1")
	}
	n.unlink()
	close(n.stopped)
	err := errors.Join(n.uninform(ctx), n.Node.Stop(ctx))
	select {
	case <-n.linked:
	case <-ctx.Done():
	}
	return errors.Join(err, n.close())
}

func (n *node) close() error {
	n.tracing.stop()
	n.recording.stop()
	if n.keyless != nil {
		n.keyless()
	}
	var err error
	if n.host != nil {
		err = n.host.Close()
	}
	return errors.Join(err, n.journal.Close())
}

// The subsystems of the log besides those of the actors.
const (
	logHost  = "host"
	logLink  = "link"
	logFacts = "facts"
	logTrace = "trace"
	logShell = "shell"
	logTape  = "recording"
)

func logNames() []string {
	return append(tree.LogNames(), logHost, logLink, logFacts, logTrace, logTape)
}

// setLevel returns a function that sets a log's configured level by the config's word for it.
func setLevel(l *loglevel.Levels) func(string) {
	return func(word string) {
		if to, ok := loglevel.Parse(word); ok { // the config permits no other word
			l.SetBase(to)
		}
	}
}
