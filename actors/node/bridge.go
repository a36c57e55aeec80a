package node

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/actors/node/cores"
	"edgespan/config/events"
	"edgespan/netinst"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
	"edgespan/netinst/probe"
	"edgespan/pubsub"
	"edgespan/pubsub/tape"
)

// networkEnded tells the router that a bridge manager has removed its network.
type networkEnded struct{ ni uuid.UUID }

// bridge is the bridge manager: the actor of one network instance. It owns no logic: it turns messages into events for
// its core, the manager (package netinst/manager), and the manager's effects into messages.
//
// Stopping or restarting it leaves the host untouched. It removes host state only by applying an empty desired state
// after the config was deleted.
type bridge struct {
	d     *deps
	id    uuid.UUID
	key   string
	owner netstate.Owner
	managed
	log            *zap.Logger
	portStatuses   map[string]netinst.PortStatus
	sentPorts      map[string]netinst.PortStatus // as last sent to the manager; nil before that
	sentOverlap    *overlap.Overlap              // overlaps of the subnet as last sent to the manager; nil before that
	sentMaxTracked int                           // the machine's limit of tracked flows, as last sent to the manager

	subs subscriptions
	bridgeInputs
	bridgeOutputs
	prober prober
	tunnel bridgeTunnel

	applier *actor.PID
	mtu     int // of the bridge when the applier started
	watcher *actor.PID
	listen  manager.Listen // what the watcher listens to
	timers  timers
	state   netinst.NIState
	name    string // the network's display name

	adopted  bool // the leases found on the host were taken over
	known    bool // adaptersKnown was sent to the manager
	replayed int  // subscriptions of host-changed that replayed their state: later changes are new
}

// managed is the core of a bridge manager, and what records it.
type managed struct {
	mgr  *manager.Manager
	reel *tape.Reel
}

// bridgeInputs are the subscriptions of a bridge manager.
type bridgeInputs struct {
	source     *pubsub.Subscription[api.Source]
	config     *pubsub.Subscription[netinst.NetworkInstanceConfig]
	adapters   *pubsub.Subscription[netinst.AppAdapterConfig]
	ports      *pubsub.Subscription[netinst.PortStatus]
	overlap    *pubsub.Subscription[overlap.Overlap]
	host       *pubsub.Subscription[api.HostChange] // of the network's number
	hostWide   *pubsub.Subscription[api.HostChange] // for every network
	appsSynced *pubsub.Subscription[uint64]
	apps       *pubsub.Subscription[[]string]
}

// bridgeOutputs are the publishers of a bridge manager, most of them under the network's own key.
type bridgeOutputs struct {
	networkPub *pubsub.Publisher[netinst.NetworkInstanceStatus]
	adapterPub *pubsub.Publisher[netinst.AppAdapterStatus]
	leasePub   *pubsub.Publisher[api.Leases]
	appliedPub *pubsub.Publisher[api.AppliedMark]
	troublePub *pubsub.Publisher[api.Trouble]
}

func newBridgeInputs(s *subscriptions, t *api.Topics, key string, number int) bridgeInputs {
	own, inside := pubsub.Selector{Key: key}, pubsub.Selector{Scope: key}
	return bridgeInputs{
		source:     subscribe(s, t.Source, pubsub.Selector{}),
		config:     subscribe(s, t.NetworkConfig, own),
		adapters:   subscribe(s, t.AdapterConfig, inside),
		ports:      subscribe(s, t.PortStatus, pubsub.Selector{}),
		overlap:    subscribe(s, t.SubnetOverlap, own),
		appsSynced: subscribe(s, t.AppSynced, inside),
		apps:       subscribe(s, t.NetworkApps, own),
		host:       subscribe(s, t.HostChanged, pubsub.Selector{Scope: strconv.Itoa(number)}),
		hostWide:   subscribe(s, t.HostChanged, pubsub.Selector{}),
	}
}

func newBridgeOutputs(t *api.Topics, key string) bridgeOutputs {
	name := "ni/" + key
	o := bridgeOutputs{
		networkPub: t.NetworkStatus.Publisher(name), adapterPub: t.AdapterStatus.Publisher(name),
		leasePub: t.Leases.Publisher(name), appliedPub: t.Applied.Publisher(name), troublePub: t.Trouble.Publisher(name),
	}
	o.networkPub.Adopt("", key)
	o.leasePub.Adopt("", key)
	o.appliedPub.Adopt("", key)
	return o
}

// newBridge returns the bridge manager of one network. Its UUID is its only argument (seed "Bridge manager").
func (d *deps) newBridge(ni uuid.UUID) actor.Actor { return &bridge{d: d, id: ni, key: ni.String()} }

func (b *bridge) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		b.started(c)
	case *actor.Stopping, *actor.Restarting:
		b.timers.stop()
		b.subs.close()
	case wake:
		b.drain(c)
	case applierReady:
		b.mtu = msg.mtu
		if b.applier = msg.pid; b.d.storage.MayLackChanges() && !b.adopted {
			c.Send(b.applier, ownedRequest{})
			return
		}
		b.step(c, manager.ApplierReady{MTU: b.mtu})
	case ownedObserved:
		if err := b.adopt(msg); err != nil {
			again := applierReady{b.applier, b.mtu} // copied: the timer fires in another goroutine
			b.timers.after(c, jitter(time.Second), func() any { return again })
			return
		}
		b.step(c, manager.ApplierReady{MTU: b.mtu})
	case chooserDue:
		b.choose(c, probe.TimerDue{Token: msg.token, At: b.d.now()})
		b.sendPorts(c)
	case tunnelReady:
		c.Send(msg.pid, pollTunnel{b.tunnel.on})
	case tunnelPolled:
		b.tunnelPolled(c, msg)
	case watcherReady:
		b.watcher = msg.pid
		c.Send(b.watcher, b.listen)
	case opStarted:
		b.step(c, manager.OpStarted{Seq: msg.seq, Op: msg.op, At: msg.at})
	case applyResult:
		b.step(c, manager.Applied{Seq: msg.seq, Failures: msg.failures, Drift: msg.drift, Before: msg.before, Err: msg.err,
			Done: msg.done, Counted: msg.counted, Began: msg.began, ObservedAt: msg.observedAt, At: b.d.now()})
	case manager.Event:
		b.step(c, msg)
	}
}

func (b *bridge) started(c actor.Context) {
	number, _ := b.d.topics.Numbers.Get("", b.key) // journalled by the router before the spawn
	leases, _ := b.d.topics.Leases.Get("", b.key)
	b.owner = netstate.Owner{Name: b.key, Number: number}
	b.managed = managed{manager.New(b.owner, b.d.runDir, b.d.epoch(), leases), b.d.tape.Reel(cores.Network, b.key)}
	if s, _ := b.d.topics.Applied.Get("", b.key); s.Machine == b.d.machine {
		b.mgr.Resume(s.Mark)
	}
	b.log = b.d.of(logBridge).With(zap.String("ni", b.key))
	b.portStatuses, b.sentMaxTracked = map[string]netinst.PortStatus{}, 0

	t := b.d.topics
	b.bridgeOutputs = newBridgeOutputs(t, b.key)
	b.subs = subscriptions{wake: waker(c)}
	b.bridgeInputs = newBridgeInputs(&b.subs, t, b.key, number)
	b.prober = newProber(&b.subs, t, b.key)
	b.prober.reel = b.d.tape.Reel(cores.Uplinks, b.key)
	b.tunnel = bridgeTunnel{pub: t.Tunnels.Publisher("ni/" + b.key)}
	b.tunnel.pub.Adopt("", b.key)
	b.drain(c)
	// Statuses of an earlier incarnation that no config matches any more: they are withdrawn after the first reconcile,
	// because until then the adapter may be on the host. The configs were drained before, so a config deleted from now on
	// is reported as deleted.
	for _, ref := range b.adapterPub.AdoptAll(b.key) {
		if _, desired := t.AdapterConfig.Get(b.key, ref.Key); desired {
			continue
		}
		k, err := netinst.ParseAdapterKey(ref.Key)
		must(err)
		b.step(c, manager.AdapterGone{Key: k})
	}
	b.step(c, manager.Synchronized{})

	if _, err := c.SpawnNamed(b.d.props(func() actor.Actor { return &applier{d: b.d, owner: b.owner} }),
		"applier"); err != nil {
		panic(err) // the name is free: children of an earlier incarnation are gone before Started
	}
	watches := func() actor.Actor { return &watcher{d: b.d, ni: b.id, number: b.owner.Number} }
	spawn(c, b.d.props(watches), "watcher")
}

// drain passes changes of the topics to the manager. It reads the topic Source first and sends it last, as
// manager.Claimed, which lets a network without config remove itself: that counts only together with the configs
// published before it.
func (b *bridge) drain(c actor.Context) {
	known := b.adaptersKnown()
	sources, ports, configs := b.source.Drain(), b.ports.Drain(), b.config.Drain()
	for _, ch := range ports {
		switch ch.Kind {
		case pubsub.Deleted:
			delete(b.portStatuses, ch.Key)
		case pubsub.Created, pubsub.Modified:
			b.portStatuses[ch.Key] = ch.New
		}
	}
	for _, ch := range configs {
		switch ch.Kind {
		case pubsub.Deleted:
			b.followTunnel(c, netinst.NetworkInstanceConfig{})
			b.step(c, manager.ConfigGone{})
		case pubsub.Created, pubsub.Modified:
			b.step(c, manager.ConfigChanged{Config: ch.New, Uplinks: b.setUplinkConfig(c, ch.New)})
			b.followTunnel(c, ch.New)
		}
	}
	compared, probed := b.sendOverlap(c), b.drainProbes(c)
	moved := probed && !b.prober.isSent() // most outcomes change nothing, and come often
	if b.sentPorts == nil || compared || moved || len(sources)+len(ports)+len(configs) > 0 ||
		int(b.d.maxTracked.Load()) != b.sentMaxTracked {
		b.sendPorts(c) // after the config: when a port is deleted, its network is removed before it
	}
	for _, ch := range b.adapters.Drain() {
		switch ch.Kind {
		case pubsub.Deleted:
			b.step(c, manager.AdapterGone{Key: ch.Old.Key()})
		case pubsub.Created, pubsub.Modified:
			b.step(c, manager.AdapterChanged{Config: ch.New})
		}
	}
	if known {
		b.known = true
		b.appsSynced.Close()
		b.apps.Close()
		b.step(c, manager.AdaptersKnown{})
	}
	b.drainHost(c)
	for _, ch := range sources {
		if (ch.Kind == pubsub.Created || ch.Kind == pubsub.Modified) && ch.New.Valid {
			b.step(c, manager.Claimed{})
		}
	}
}

// drainHost passes host events to the manager. Events from before this start are skipped: the first apply observes the
// host anyway.
func (b *bridge) drainHost(c actor.Context) {
	for _, sub := range []*pubsub.Subscription[api.HostChange]{b.host, b.hostWide} {
		for _, ch := range sub.Drain() {
			switch ch.Kind {
			case pubsub.Synchronized:
				b.replayed++
			case pubsub.Created, pubsub.Modified:
				if b.replayed == 2 {
					b.hostChanged(c, ch)
				}
			}
		}
	}
}

func (b *bridge) hostChanged(c actor.Context, ch pubsub.Change[api.HostChange]) {
	now := b.d.now()
	if ch.New.Touched != ch.Old.Touched {
		e := manager.HostTouched{Namespaces: ch.Key == api.NamespacesKey, At: ch.New.At}
		if ch.Key != api.NetworkKey && !e.Namespaces {
			e.What = ch.Key
		}
		b.step(c, e)
	}
	if ch.New.HostRouting != ch.Old.HostRouting {
		b.step(c, manager.HostTouched{HostRouting: true, At: now})
	}
	if ch.New.Lost != ch.Old.Lost {
		b.step(c, manager.HostTouched{What: manager.TouchLost, At: now})
	}
	if ch.New.Asked != ch.Old.Asked {
		b.step(c, manager.HostTouched{What: manager.TouchAsked, At: now})
	}
	if ch.New.Moved != ch.Old.Moved {
		b.step(c, manager.HostTouched{What: manager.TouchMoved, At: now})
	}
	if ch.New.Ended != ch.Old.Ended {
		b.log.Warn("a process of the network exited unexpectedly")
		b.step(c, manager.ProcessEnded{At: now})
	}
}

// adaptersKnown reports, once, that a config is published and that every app in it with an adapter on this network has
// published its adapters. drain calls it before it drains the adapters, so the adapters are read after it became true.
func (b *bridge) adaptersKnown() bool {
	b.appsSynced.Drain()
	b.apps.Drain()
	t := b.d.topics
	if s, ok := t.Source.Get("", "node"); b.known || !ok || !s.Valid {
		return false
	}
	apps, _ := t.NetworkApps.Get("", b.key)
	for _, id := range apps {
		if _, up := t.AppSynced.Get(b.key, id); !up {
			return false
		}
	}
	return true
}

// sendPorts passes the ports to the manager once the monitor has answered the config of every port: a partial set would
// look as if the other ports were gone.
func (b *bridge) sendPorts(c actor.Context) {
	if s, ok := b.d.topics.Source.Get("", "node"); !ok || !s.Valid {
		return // the ports' configs are not published yet
	}
	for label, cfg := range b.d.topics.PortConfig.List("") {
		if s, ok := b.portStatuses[label]; !ok || !reflect.DeepEqual(s.PortConfig, cfg) {
			return
		}
	}
	if b.sentOverlap == nil {
		return // the monitor has not yet compared this subnet with the host
	}
	b.seePorts(c)
	if n := int(b.d.maxTracked.Load()); n != b.sentMaxTracked {
		b.sentMaxTracked = n
		b.step(c, manager.FlowsCapped{MaxTracked: n})
	}
	if b.sentPorts != nil && reflect.DeepEqual(b.sentPorts, b.portStatuses) &&
		b.prober.isSent() {
		return
	}
	b.sentPorts = maps.Clone(b.portStatuses)
	b.prober.sent = b.prober.found
	b.step(c, manager.PortsChanged{Ports: slices.Collect(maps.Values(b.portStatuses)), Uplinks: b.prober.sent})
}

func (b *bridge) step(c actor.Context, e manager.Event) {
	var cause events.Cause // of what follows from an apply
	for _, eff := range tape.Step(b.reel, b.mgr, e) {
		b.d.census.Effect(c.Self().Id, eff)
		var err error
		switch e := eff.(type) {
		case manager.PublishNetwork:
			if e.Status.State != b.state {
				b.changed(e.Status, cause)
			}
			err = b.networkPub.Publish("", b.key, e.Status)
		case manager.WithdrawNetwork:
			b.changed(netinst.NetworkInstanceStatus{State: "gone", DisplayName: b.name}, cause)
			err = errors.Join(b.networkPub.Unpublish("", b.key), b.troublePub.Unpublish("", b.key), b.withdrawUplinks())
		case manager.PublishAdapter:
			b.adapterPub.Adopt(b.key, e.Status.Key().String())
			err = b.adapterPub.Publish(b.key, e.Status.Key().String(), e.Status)
		case manager.WithdrawAdapter:
			b.adapterPub.Adopt(b.key, e.Key.String())
			err = b.adapterPub.Unpublish(b.key, e.Key.String())
		case manager.JournalLeases:
			err = b.leasePub.Publish("", b.key, e.Leases)
		case manager.AppliedMark:
			err = b.appliedPub.Publish("", b.key, api.AppliedMark{Machine: b.d.machine, Mark: e.Mark})
		case manager.Apply:
			c.Send(b.applier, applyRequest{e.Seq, e.Want, e.Full, e.ObserveOnly, e.Forget, e.Reset,
				counting{e.Counted, e.Adapters}})
		case manager.Listen:
			if b.listen = e; b.watcher != nil {
				c.Send(b.watcher, e)
			}
		case manager.ReportApply:
			if _, desired := b.d.topics.NetworkConfig.Get("", b.key); !desired {
				e.Report.Generation = b.d.published.Load() // the one that lacks the network
			}
			cause = causeOf("", e.Report)
			b.d.logApplyReport("ni/"+b.key, b.name, e.Report)
			err = b.troublePub.Publish("", b.key, api.Trouble{Failing: e.Report.Failing, Retry: e.Report.Retry})
		case manager.Timer:
			b.timers.after(c, b.d.wait(e.After, e.Shared),
				func() any { return manager.TimerDue{Token: e.Token, At: b.d.now()} })
		case manager.Done:
			c.Send(c.Parent(), networkEnded{b.id})
			c.Stop(c.Self())
		}
		if err != nil {
			panic(err) // a journal that cannot be written, or two owners of one key: restart
		}
	}
}
