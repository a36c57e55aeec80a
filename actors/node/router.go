package node

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/actors/node/cores"
	"edgespan/appnet"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
	"edgespan/netinst/probe"
	"edgespan/netinst/registry"
	"edgespan/pubsub"
	"edgespan/pubsub/tape"
)

type (
	search struct { // a search for networks on the host has ended
		found []netstate.Owner
		err   error
	}
	searchDue  struct{}
	findOwners struct{}
)

// router is the top of the tree: it spawns, counts and watches actors. netinst/registry decides which networks exist
// and which number each has.
type router struct {
	d        *deps
	reg      *registry.Registry
	reel     *tape.Reel
	timers   timers
	host     *actor.PID
	want     netstate.State // of the host, as last desired
	ledger   manager.Ledger
	config   *actor.PID
	monitor  *actor.PID
	planner  *actor.PID
	networks map[uuid.UUID]*actor.PID
	apps     map[uuid.UUID]*actor.PID
	respawn  map[string]func() // by actor id: starts the new actor once the old one has stopped

	// onlineBridgeManagers are the running bridge managers, with their statuses (seed "Bridge manager Creation").
	onlineBridgeManagers map[uuid.UUID]netinst.NetworkInstanceStatus

	subs subscriptions
	routerInputs
	routerOutputs
	pulse

	valid, claimed bool // a valid config was published; the registry knows of it
	reported       bool // the registry knows by which links the host forwards
}

// routerInputs are the subscriptions of the router.
type routerInputs struct {
	source   *pubsub.Subscription[api.Source]
	configs  *pubsub.Subscription[netinst.NetworkInstanceConfig]
	appConfs *pubsub.Subscription[appnet.AppNetworkConfig]
	statuses *pubsub.Subscription[netinst.NetworkInstanceStatus]
	overlaps *pubsub.Subscription[overlap.Overlap]
	forwards *pubsub.Subscription[netstate.Forwarding]
	ports    *pubsub.Subscription[netinst.PortConfig]
	adapters *pubsub.Subscription[netinst.AppAdapterConfig]
}

// routerOutputs are the publishers of the router: for its own topics, and for keys that removed actors left behind.
type routerOutputs struct {
	numbers  *pubsub.Publisher[int]
	leases   *pubsub.Publisher[api.Leases]
	applied  *pubsub.Publisher[api.AppliedMark]
	records  *pubsub.Publisher[appnet.JournalRecord]
	orphaned *pubsub.Publisher[netinst.AppAdapterStatus]
	trouble  *pubsub.Publisher[api.Trouble]
	storage  *pubsub.Publisher[api.StorageHealth]
	drains   *pubsub.Publisher[probe.Drain]
	uplinks  *pubsub.Publisher[probe.Record]
}

func newRouterInputs(s *subscriptions, t *api.Topics) routerInputs {
	return routerInputs{
		source:   subscribe(s, t.Source, pubsub.Selector{}),
		configs:  subscribe(s, t.NetworkConfig, pubsub.Selector{}),
		appConfs: subscribe(s, t.AppConfig, pubsub.Selector{}),
		statuses: subscribe(s, t.NetworkStatus, pubsub.Selector{}),
		overlaps: subscribe(s, t.SubnetOverlap, pubsub.Selector{}),
		forwards: subscribe(s, t.Forwarding, pubsub.Selector{}),
		ports:    subscribe(s, t.PortConfig, pubsub.Selector{}),
		adapters: subscribe(s, t.AdapterConfig, pubsub.Selector{AllScopes: true}),
	}
}

func newRouterOutputs(t *api.Topics) routerOutputs {
	const name = api.OwnerRouter
	return routerOutputs{
		numbers: t.Numbers.Publisher(name), leases: t.Leases.Publisher(name), applied: t.Applied.Publisher(name),
		records: t.AppRecords.Publisher(name), orphaned: t.AdapterStatus.Publisher(name),
		trouble: t.Trouble.Publisher(name), storage: t.Storage.Publisher(name),
		drains: t.Drains.Publisher(name), uplinks: t.UplinkRecords.Publisher(name),
	}
}

func (r *router) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		r.started(c)
	case *actor.Stopping, *actor.Restarting:
		r.timers.stop()
	case *actor.Terminated:
		r.terminated(msg.Who.Id)
	case wake:
		r.drain(c)
	case applierReady:
		r.step(c, registry.HostApplierReady{})
	case search:
		r.searched(c, msg)
	case applyResult:
		r.hostApplied(c, msg)
	case storageChanged:
		r.storageHealth(msg.health)
	case registry.Event:
		r.step(c, msg)
	case networkEnded:
		r.networkEnded(c, msg.ni)
	case appEnded:
		r.appEnded(c, msg.app)
	case beatDue:
		r.beat(c)
	case searchDue:
		c.Send(r.host, findOwners{})
	case pong:
		r.handlePong(msg)
	case drainRequest:
		r.drainPort(c, msg)
	case observeRequest:
		c.Forward(r.planner)
	}
}

func (r *router) started(c actor.Context) {
	t := r.d.topics
	r.networks, r.apps = map[uuid.UUID]*actor.PID{}, map[uuid.UUID]*actor.PID{}
	r.onlineBridgeManagers = map[uuid.UUID]netinst.NetworkInstanceStatus{}
	r.respawn = map[string]func(){}
	r.routerOutputs = newRouterOutputs(t)
	journal := map[uuid.UUID]int{}
	for k, n := range t.Numbers.List("") {
		if id, err := uuid.Parse(k); err == nil {
			journal[id] = n
			r.numbers.Adopt("", k)
		}
	}
	r.drains.AdoptAll("")
	r.reg, r.reel = registry.New(journal), r.d.tape.Reel(cores.Registry, "")

	r.subs = subscriptions{wake: waker(c)}
	r.routerInputs = newRouterInputs(&r.subs, t)

	spawn(c, r.d.props(func() actor.Actor { return &eventLog{d: r.d} }), "events") // first: the others send to it
	if r.d.warning != "" {
		r.d.of(logRouter).Warn("start", zap.String("found", r.d.warning))
		r.d.recordEvent(event(nodeapi.EventSecurity, "node", "", r.d.warning))
	}
	r.monitor = spawn(c, r.d.vital(func() actor.Actor { return &monitor{d: r.d} }), "monitor")
	spawn(c, r.d.props(func() actor.Actor { return &recorder{d: r.d} }), "recorder")
	spawn(c, r.d.props(func() actor.Actor { return &probes{d: r.d} }), "probes")
	spawn(c, r.d.props(func() actor.Actor { return &flowLog{d: r.d} }), "flowlog")
	r.config = spawn(c, r.d.configProps(), "config")
	r.host = spawn(c, r.d.props(func() actor.Actor {
		return &hostApplier{applier{d: r.d,
			owner: netstate.Owner{Name: netstate.HostOwner}}}
	}), "ground")
	spawn(c, r.d.props(func() actor.Actor { return &ports{d: r.d} }), "ports")
	spawn(c, r.d.props(func() actor.Actor { return &exec{d: r.d} }), "exec")
	r.planner = spawn(c, r.d.props(func() actor.Actor { return planner{} }), "planner")
	spawn(c, r.d.props(func() actor.Actor { return &telemetry{d: r.d} }), "telemetry")
	r.beat(c)
}

func (r *router) searched(c actor.Context, s search) {
	if s.err == nil {
		r.step(c, registry.OwnersFound{Owners: s.found})
		return
	}
	r.step(c, registry.OwnersUnread{Error: fmt.Sprintf("find edgespan's networks on the host: %v", s.err)})
}

func spawn(c actor.Context, p *actor.Props, name string) *actor.PID {
	pid, err := c.SpawnNamed(p, name)
	if err != nil {
		panic(fmt.Errorf("spawn %s: %w", name, err))
	}
	return pid
}

// drain reads the topics. It reads the source first and sends it last, as the bridge manager does.
func (r *router) drain(c actor.Context) {
	sources, overlaps := r.source.Drain(), r.overlaps.Drain()
	forwards := r.forwards.Drain()
	for _, ch := range forwards {
		r.reported = r.reported || ch.Kind == pubsub.Created || ch.Kind == pubsub.Modified
	}
	if len(forwards)+len(r.ports.Drain()) > 0 {
		r.step(c, r.d.forwardingChanged())
	}
	for _, ch := range r.configs.Drain() {
		switch ch.Kind {
		case pubsub.Created, pubsub.Modified:
			r.step(c, registry.NetworkDesired{Config: ch.New})
		case pubsub.Deleted:
			r.step(c, registry.NetworkUndesired{NI: ch.Old.UUID})
		}
	}
	for _, ch := range overlaps { // of configs that were published before
		if id, err := uuid.Parse(ch.Key); err == nil {
			r.step(c, registry.NetworkWithdrawn{NI: id, Withdrawn: ch.New.Clash != ""})
		}
	}
	for _, ch := range r.appConfs.Drain() {
		if ch.Kind == pubsub.Created {
			r.spawnApp(c, ch.New.UUID)
		}
	}
	for _, ch := range r.statuses.Drain() {
		switch ch.Kind {
		case pubsub.Created, pubsub.Modified:
			r.onlineBridgeManagers[ch.New.UUID] = ch.New
		case pubsub.Deleted:
			delete(r.onlineBridgeManagers, ch.Old.UUID)
		}
	}
	for _, ch := range r.adapters.Drain() {
		if ch.Kind == pubsub.Deleted {
			r.withdraw(ch.Scope, ch.Key)
		}
	}
	for _, ch := range sources {
		r.valid = r.valid || (ch.Kind == pubsub.Created || ch.Kind == pubsub.Modified) && ch.New.Valid
	}
	r.endDrains() // of ports that are gone
	r.claim(c)
}

// claim lets the registry apply the host state, once it is known by which ports the host forwards and which subnets
// are its own: otherwise a restart would close ports that networks need, and filter what is the host's.
func (r *router) claim(c actor.Context) {
	t := r.d.topics
	if r.claimed || !r.valid || !r.reported {
		return
	}
	var withdrawn []registry.NetworkWithdrawn
	for _, e := range t.NetworkConfig.All() {
		o, compared := t.SubnetOverlap.Get("", e.Key)
		if !compared {
			return
		}
		withdrawn = append(withdrawn, registry.NetworkWithdrawn{NI: e.Value.UUID, Withdrawn: o.Clash != ""})
	}
	r.claimed = true
	for _, w := range withdrawn {
		r.step(c, w)
	}
	r.step(c, registry.ConfigKnown{})
}

// step carries out the effects of the registry, and returns after which time to retry the host state, 0 for never.
func (r *router) step(c actor.Context, e registry.Event) (retry time.Duration) {
	effs := tape.Step(r.reel, r.reg, e)
	r.d.settled.Store(r.reg.IsSettled())
	for _, eff := range effs {
		r.d.census.Effect(c.Self().Id, eff)
		switch e := eff.(type) {
		case registry.RecordNumber:
			must(r.numbers.Publish("", e.NI.String(), e.Number))
		case registry.ForgetNumber:
			forget(r.leases, r.d.topics.Leases, e.NI.String()) // the number last: a restart looks for it
			forget(r.applied, r.d.topics.Applied, e.NI.String())
			forget(r.uplinks, r.d.topics.UplinkRecords, e.NI.String())
			must(r.numbers.Unpublish("", e.NI.String()))
		case registry.ApplyHost:
			r.want = e.Want
			c.Send(r.host, applyRequest{seq: manager.ApplySeq{N: e.Seq}, want: e.Want, full: true})
		case registry.TouchNetworks:
			if e.Full || e.Moved {
				c.Send(r.monitor, observeFull{e.Networks, e.Moved})
			} else {
				c.Send(r.monitor, netstate.HostEvent{Touched: e.Networks})
			}
		case registry.FindOwners:
			r.timers.after(c, e.After, func() any { return searchDue{} })
		case registry.SpawnManager:
			id := uuid.MustParse(e.Owner.Name)
			r.spawnNetwork(c, id)
		case registry.HostRetry:
			retry = e.After
			r.timers.after(c, r.d.wait(e.After, e.Shared), func() any { return registry.HostRetryDue{Token: e.Token} })
		case registry.HostProblem:
			if e.Error != "" {
				r.d.of(logRouter).Error("apply the host state", zap.String("err", e.Error))
			}
			r.d.hostProblem.Store(&e.Error)
		}
	}
	return retry
}

// spawnNetwork starts a bridge manager, or starts it later if an old one with the same name is still stopping.
func (r *router) spawnNetwork(c actor.Context, id uuid.UUID) {
	name := "ni/" + id.String()
	pid, err := c.SpawnNamed(r.d.props(func() actor.Actor { return r.d.newBridge(id) }), name)
	if err != nil {
		r.respawn[pid.Id] = func() { r.spawnNetwork(c, id) }
		return
	}
	r.networks[id] = pid
}

func (r *router) spawnApp(c actor.Context, id uuid.UUID) {
	if r.apps[id] != nil {
		return
	}
	pid, err := c.SpawnNamed(r.d.props(func() actor.Actor { return r.d.newApp(id) }), "app/"+id.String())
	if err != nil {
		r.respawn[pid.Id] = func() { r.spawnApp(c, id) }
		return
	}
	r.apps[id] = pid
}

func (r *router) terminated(id string) {
	if f := r.respawn[id]; f != nil {
		delete(r.respawn, id)
		f()
	}
}

// networkEnded adopts the status keys that a bridge manager left behind: each is withdrawn with its config.
func (r *router) networkEnded(c actor.Context, id uuid.UUID) {
	delete(r.networks, id)
	adoptStatuses(r.d.topics, r.orphaned, id.String())
	r.step(c, registry.ManagerEnded{NI: id})
}

// withdraw removes the status of an adapter whose network has no manager any more.
func (r *router) withdraw(scope, key string) {
	id, err := uuid.Parse(scope)
	if err != nil || r.networks[id] != nil {
		return
	}
	if _, left := r.d.topics.AdapterStatus.Get(scope, key); left {
		r.orphaned.Adopt(scope, key)
		must(r.orphaned.Unpublish(scope, key))
	}
}

// forget removes a key without an owner from a journalled topic.
func forget[V any](p *pubsub.Publisher[V], t *pubsub.Topic[V], key string) {
	if _, ok := t.Get("", key); ok {
		p.Adopt("", key)
		must(p.Unpublish("", key))
	}
}

func (r *router) appEnded(c actor.Context, id uuid.UUID) {
	delete(r.apps, id)
	records := r.d.topics.AppRecords.List("")
	for live := range r.apps {
		delete(records, live.String())
	}
	for _, old := range appnet.ToForget(records) {
		forget(r.records, r.d.topics.AppRecords, old)
	}
	if _, again := r.d.topics.AppConfig.Get("", id.String()); again {
		r.spawnApp(c, id)
	}
}

// adoptStatuses makes pub the owner of every adapter status in a network's scope, regardless of the previous publisher,
// and withdraws those whose config is gone.
func adoptStatuses(t *api.Topics, pub *pubsub.Publisher[netinst.AppAdapterStatus], scope string) {
	for _, ref := range pub.AdoptAll(scope) {
		if _, desired := t.AdapterConfig.Get(scope, ref.Key); !desired {
			must(pub.Unpublish(scope, ref.Key))
		}
	}
}
