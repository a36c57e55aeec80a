package node

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/netinst"
	"edgespan/netinst/addressing"
	"edgespan/netinst/dhcpclient"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
	"edgespan/netinst/registry"
	"edgespan/pubsub"
)

// monitor turns kernel events into port-status and host-changed. It holds the node's only netlink subscription: N
// sockets would each wake on every route of the host.
type monitor struct {
	d          *deps
	subs       subscriptions
	configs    *pubsub.Subscription[netinst.PortConfig]
	networks   *pubsub.Subscription[netinst.NetworkInstanceConfig]
	leases     *pubsub.Subscription[dhcpclient.Lease]
	ports      map[string]netinst.PortConfig
	tunnels    map[string]bool // networks that have tunnels
	subnets    map[string]overlap.Subnets
	prefixes   []overlap.HostPrefix // the host's own prefixes, as last compared
	interfaces []netstate.Interface
	known      bool // the kernel has reported at least once
	status     *pubsub.Publisher[netinst.PortStatus]
	changed    *pubsub.Publisher[api.HostChange]
	overlap    *pubsub.Publisher[overlap.Overlap]
	forward    *pubsub.Publisher[netstate.Forwarding]
}

func (m *monitor) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		m.started(c)
	case *actor.Stopping, *actor.Restarting:
		m.subs.close()
	case wake:
		m.leases.Drain()
		for _, ch := range m.configs.Drain() {
			switch ch.Kind {
			case pubsub.Deleted:
				delete(m.ports, ch.Key)
			case pubsub.Created, pubsub.Modified:
				m.ports[ch.Key] = ch.New
			}
		}
		m.drainNetworks()
		m.publish()
	case netstate.HostEvent:
		m.hostEvent(m.hostFirst(c, msg))
	case observeAgain:
		if ns := m.numbers(msg); len(ns) > 0 {
			c.Send(c.Parent(), registry.HostChanged{Networks: ns, Full: true})
		}
	case observeFull:
		why := api.HostChange{Asked: 1}
		if msg.moved {
			why = api.HostChange{Moved: 1}
		}
		for _, n := range msg.networks {
			m.count(strconv.Itoa(n), api.NetworkKey, why)
		}
	case ping:
		c.Send(c.Parent(), pong{"monitor", msg.beat})
	}
}

func (m *monitor) started(c actor.Context) {
	m.ports, m.tunnels = map[string]netinst.PortConfig{}, map[string]bool{}
	m.status = m.d.topics.PortStatus.Publisher(api.OwnerMonitor)
	m.changed = m.d.topics.HostChanged.Publisher(api.OwnerMonitor)
	m.overlap = m.d.topics.SubnetOverlap.Publisher(api.OwnerMonitor)
	m.subnets, m.prefixes = map[string]overlap.Subnets{}, nil
	m.forward = m.d.topics.Forwarding.Publisher(api.OwnerMonitor)
	m.subs = subscriptions{wake: waker(c)}
	m.configs = subscribe(&m.subs, m.d.topics.PortConfig, pubsub.Selector{})
	m.leases = subscribe(&m.subs, m.d.topics.PortLeases, pubsub.Selector{})
	m.networks = subscribe(&m.subs, m.d.topics.NetworkConfig, pubsub.Selector{})
	self, root, d := c.Self(), c.ActorSystem().Root, m.d
	go watch(d, func(ev netstate.HostEvent) { root.Send(self, ev) })
}

// drainNetworks records which networks need the host's addresses and routes, and compares the subnets of new and
// changed networks with the host's own prefixes.
func (m *monitor) drainNetworks() {
	var changed []string
	for _, ch := range m.networks.Drain() {
		delete(m.tunnels, ch.Key)
		if ch.Kind == pubsub.Deleted {
			delete(m.subnets, ch.Key)
			m.withdrawOverlap(ch.Key)
		}
		if ch.Kind != pubsub.Created && ch.Kind != pubsub.Modified {
			continue
		}
		if len(ch.New.Tunnels) > 0 {
			m.tunnels[ch.Key] = true
		}
		m.subnets[ch.Key] = subnetsOf(ch.New)
		changed = append(changed, ch.Key)
	}
	if m.known {
		m.compare(changed)
	}
}

// observeAgain requests that every network, or every one with tunnels, is compared with the host in full and repaired,
// after the host state.
type observeAgain struct{ tunnels bool }

// observeFull requests a full comparison of networks.
type observeFull struct {
	networks []int
	moved    bool // since edgespan itself may have removed what led to them
}

// numbers returns the networks that an observeAgain means.
func (m *monitor) numbers(l observeAgain) []int {
	var ns []int
	for _, e := range m.d.topics.NetworkStatus.All() {
		if !l.tunnels || m.tunnels[e.Key] {
			ns = append(ns, e.Value.Number)
		}
	}
	return ns
}

// watch is the only goroutine outside the actors: a netlink subscription blocks for the life of the node, and an actor
// that blocks cannot answer.
func watch(d *deps, emit func(netstate.HostEvent)) {
	for d.ctx.Err() == nil {
		err := d.host.Watch(d.ctx, emit)
		if d.ctx.Err() != nil {
			return
		}
		d.of(logMonitor).Error("watch the host", zap.Error(err))
		select {
		case <-d.ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// hostFirst passes changes of the host state by other programs to the router. The networks touched with it hear of the
// change once the host state is restored.
func (m *monitor) hostFirst(c actor.Context, ev netstate.HostEvent) netstate.HostEvent {
	if ev.Filter {
		ev.Host = true
		for _, e := range m.d.topics.NetworkStatus.All() {
			ev.Touched = append(ev.Touched, e.Value.Number)
		}
	}
	if ev.Host {
		c.Send(c.Parent(), registry.HostChanged{Networks: ev.Touched})
		ev.Touched = nil
	}
	return ev
}

func (m *monitor) hostEvent(ev netstate.HostEvent) {
	first := !m.known
	if ev.Interfaces != nil || ev.Resync {
		m.interfaces, m.known = ev.Interfaces, true
		m.d.lastInterfaces.Store(&ev.Interfaces)
		m.publish()
		m.comparePrefixes(first)
	}
	if ev.At.IsZero() {
		ev.At = m.d.now()
	}
	if n := ev.MaxTracked; n != nil && m.d.maxTracked.Swap(int64(*n)) != int64(*n) && !first {
		m.countAll(api.HostChange{Touched: 1, At: ev.At}) // the limits of all adapters depend on it
	}
	if ev.Forwarding != nil {
		must(m.forward.Publish("", "node", *ev.Forwarding))
	}
	for _, n := range ev.Touched {
		m.count(strconv.Itoa(n), api.NetworkKey, api.HostChange{Touched: 1, At: ev.At})
	}
	for _, l := range ev.Links {
		m.count(strconv.Itoa(l.Number), cmp.Or(l.Name, manager.TouchPorts), api.HostChange{Touched: 1, At: ev.At})
	}
	for _, n := range ev.Ended {
		m.count(strconv.Itoa(n), api.NetworkKey, api.HostChange{Ended: 1})
	}
	if ev.HostRouting {
		for id := range m.tunnels {
			if n, ok := m.d.topics.Numbers.Get("", id); ok {
				m.count(strconv.Itoa(n), api.NetworkKey, api.HostChange{HostRouting: 1})
			}
		}
	}
	if ev.Resync && !first {
		m.countAll(api.HostChange{Lost: 1})
	}
	if ev.Namespaces || ev.Resync {
		m.count("", api.NamespacesKey, api.HostChange{Touched: 1, At: ev.At})
	}
}

// countAll adds to the counters of every network.
func (m *monitor) countAll(by api.HostChange) {
	for _, e := range m.d.topics.NetworkStatus.All() {
		m.count(strconv.Itoa(e.Value.Number), api.NetworkKey, by)
	}
}

func (m *monitor) count(scope, key string, by api.HostChange) {
	now, _ := m.d.topics.HostChanged.Get(scope, key)
	now.Touched += by.Touched
	now.Ended += by.Ended
	now.HostRouting += by.HostRouting
	now.Asked += by.Asked
	now.Moved += by.Moved
	now.Lost += by.Lost
	if !by.At.IsZero() {
		now.At = by.At
	}
	if err := m.changed.Publish(scope, key, now); err != nil {
		panic(err)
	}
}

// publish recomputes every port's status and withdraws the statuses of ports that are gone.
func (m *monitor) publish() {
	if !m.known {
		return
	}
	configs := slices.Collect(maps.Values(m.ports))
	interfaces := addressing.WithLeases(m.interfaces, configs, m.d.topics.PortLeases.List(""))
	for _, s := range netinst.PortStatuses(configs, interfaces) {
		if err := m.status.Publish("", s.Label, s); err != nil {
			panic(err)
		}
	}
	for label := range m.d.topics.PortStatus.List("") {
		if _, ok := m.ports[label]; !ok {
			if err := m.status.Unpublish("", label); err != nil {
				panic(err)
			}
		}
	}
}
