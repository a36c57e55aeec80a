package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/nodeconf"
	"edgespan/netinst"
	"edgespan/netinst/addressing"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
	"edgespan/netinst/probe"
	"edgespan/netinst/registry"
	"edgespan/netinst/verdict"
)

// observeTimeout limits an observation of the whole host, including the wait for others.
const observeTimeout = 10 * time.Second

// observeRequest asks the planner to observe the host; the planner answers with observeAnswer.
type observeRequest struct {
	ctx     context.Context // ends when the caller gives up
	observe func(context.Context) (any, error)
	begun   *atomic.Bool
}

type observeAnswer struct {
	result any
	err    error
}

// planner observes the whole host, one request at a time. That blocks, so it is a leaf.
type planner struct{}

func (planner) Receive(c actor.Context) {
	if msg, ok := c.Message().(observeRequest); ok && msg.ctx.Err() == nil {
		msg.begun.Store(true)
		seen, err := msg.observe(msg.ctx)
		if msg.ctx.Err() == nil { // otherwise the caller has given up
			c.Respond(observeAnswer{seen, err})
		}
	}
}

// observe lets the planner observe the host for the purpose what. Observations run one at a time; a caller that waits
// too long gets ErrBusy.
func observe[T any](ctx context.Context, n *Node, what string, look func(context.Context) (T, error)) (T, error) {
	var none T
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	r := observeRequest{ctx, func(ctx context.Context) (any, error) { return look(ctx) }, new(atomic.Bool)}
	res, err := n.system.Root.RequestFuture(n.router, r, observeTimeout).Result()
	switch {
	case err == nil:
		a := res.(observeAnswer)
		return a.result.(T), a.err
	case !r.begun.Load():
		return none, fmt.Errorf("%s: %w: waited %v for another comparison of the host, one runs at a time: try again", what,
			rest.ErrBusy, observeTimeout)
	}
	return none, fmt.Errorf("%s: host not observed within %v: %w", what, observeTimeout, context.DeadlineExceeded)
}

// Plan returns what applying a document would change on the host, without applying it.
func (n *Node) Plan(ctx context.Context, doc []byte) ([]nodeapi.Change, error) {
	_, cfg, err := nodeconf.Read(doc)
	if err != nil {
		return nil, rejected(err)
	}
	if faults := n.d.clashes(cfg); len(faults) > 0 {
		return nil, rejected(faults)
	}
	n.d.keepGenerations(cfg)
	return observe(ctx, n, "plan", func(ctx context.Context) ([]nodeapi.Change, error) { return n.d.plan(ctx, cfg) })
}

// keepGenerations gives the networks of a config that equal the published ones their generation, which stands for the
// secrets of a tunnel: a document has none.
func (d *deps) keepGenerations(cfg nodeconf.Config) {
	for id, c := range cfg.Networks {
		now, published := d.topics.NetworkConfig.Get("", id.String())
		if c.Generation = now.Generation; published && reflect.DeepEqual(c, now) {
			cfg.Networks[id] = c
		}
	}
}

// PlanFlows returns which flows of apps applying a document would allow or deny, without applying it.
func (n *Node) PlanFlows(_ context.Context, doc []byte) (nodeapi.FlowChanges, error) {
	_, cfg, err := nodeconf.Read(doc)
	if err != nil {
		return nodeapi.FlowChanges{}, rejected(err)
	}
	return n.flowChanges(cfg), nil
}

// flowChanges returns which flows a config would allow or deny.
func (n *Node) flowChanges(cfg nodeconf.Config) nodeapi.FlowChanges {
	classes, complete := verdict.Compare(n.d.world(n.d.currentConfig()), n.d.world(cfg))
	out := n.FlowChanges(classes, cfg.Apps)
	out.Incomplete = !complete
	return out
}

// plan compares the config's state with the host's, by the pure functions that the managers use.
func (d *deps) plan(ctx context.Context, cfg nodeconf.Config) ([]nodeapi.Change, error) {
	found, err := d.host.Owners(ctx)
	if err != nil {
		return nil, fmt.Errorf("find edgespan's networks on the host: %w", err)
	}
	wants, owners := d.desiredStates(ctx, cfg, found)
	var changes []nodeapi.Change
	for _, o := range owners {
		have, err := d.host.Observe(ctx, o, true)
		if err != nil {
			return nil, fmt.Errorf("observe %s: %w", o.Name, err)
		}
		for _, op := range netstate.Diff(netstate.Claim(have, wants[o]), wants[o]) {
			for _, it := range op.Items {
				changes = append(changes, nodeapi.Change{Op: verb(op, it), Kind: string(op.Kind), ID: it.ID().Name, Owner: o.Name})
			}
		}
	}
	return changes, nil
}

// verb names what happens to one item: an op that writes all chains adds only some of them.
func verb(op netstate.Op, it netstate.Item) string {
	if op.Verb == netstate.Change && it.Have == nil {
		return string(netstate.Add)
	}
	return string(op.Verb)
}

// desiredStates returns the desired state of every owner under a config, and the owners in the order of an apply: the
// ports and the host first, or last if the host's state is removed.
func (d *deps) desiredStates(ctx context.Context, cfg nodeconf.Config,
	found []netstate.Owner) (map[netstate.Owner]netstate.State, []netstate.Owner) {
	numbers := map[uuid.UUID]int{}
	for k, v := range d.topics.Numbers.List("") {
		if id, err := uuid.Parse(k); err == nil {
			numbers[id] = v
		}
	}
	reg := registry.New(numbers)
	reg.Step(registry.OwnersFound{Owners: found})
	ids := inOrder(cfg.Networks)
	for _, id := range ids {
		reg.Step(registry.NetworkDesired{Config: cfg.Networks[id]})
	}

	wants := map[netstate.Owner]netstate.State{}
	var owners []netstate.Owner
	configs, leases := slices.Collect(maps.Values(cfg.Ports)), d.topics.PortLeases.List("")
	ports := netinst.PortStatuses(configs, addressing.WithLeases(d.interfaces(), configs, leases))
	overlaps := d.overlaps(cfg, ids)
	for _, id := range ids {
		o := netstate.Owner{Name: id.String(), Number: reg.Number(id)}
		owners = append(owners, o)
		in := d.networkInput(o, cfg, ports, overlaps[id])
		in.MTU, _ = d.host.BridgeMTU(ctx, o) // like the manager, go without an MTU that can't be read
		wants[o] = netinst.DesiredState(in).State
		reg.Step(registry.NetworkWithdrawn{NI: id, Withdrawn: overlaps[id].Clash != ""})
	}
	for _, o := range found {
		if _, kept := wants[o]; !kept {
			owners = append(owners, o)
			wants[o] = netstate.State{}
		}
	}
	f, _ := d.topics.Forwarding.Get("", "node")
	reg.Step(registry.ForwardingChanged{Forwarding: f, Ports: sortedPorts(slices.Collect(maps.Values(cfg.Ports)))})
	own := netstate.Owner{Name: netstate.PortsOwner, Number: netstate.PortsNumber}
	wants[own] = addressing.Desired(configs, leases)
	networks := reg.Networks(ids)
	host := netstate.Owner{Name: netstate.HostOwner}
	wants[host] = netinst.HostState(networks)
	if len(networks) == 0 {
		return wants, append(owners, own, host)
	}
	return wants, append([]netstate.Owner{own, host}, owners...)
}

// networkInput returns what determines the state that a network's manager would desire, without its current MTU.
func (d *deps) networkInput(o netstate.Owner, cfg nodeconf.Config, ports []netinst.PortStatus,
	clash overlap.Overlap) netinst.Input {
	id := uuid.MustParse(o.Name)
	var adapters []netinst.AppAdapterConfig
	for _, a := range cfg.Apps {
		for i, u := range a.Adapters {
			if a.Activate && u.NetworkInstance == id {
				adapters = append(adapters,
					netinst.AppAdapterConfig{AppUUID: a.UUID, Index: i, Activate: true, Spec: u})
			}
		}
	}
	held, _ := d.topics.Leases.Get("", o.Name)
	alloc := netinst.Allocate(cfg.Networks[id], adapters, held)
	in := netinst.Input{
		Owner: o, Config: cfg.Networks[id], Ports: ports, MaxTracked: int(d.maxTracked.Load()), RunDir: d.runDir,
		Overlap: clash,
	}
	in.Uplinks = netinst.UplinksOf(d.uplinksOf(o.Name, cfg.Networks[id], ports))
	t, _ := d.topics.Tunnels.Get("", o.Name)
	in.Assigned = netinst.Assigned{Addresses: t.Addresses, DNS: t.DNS}
	for _, a := range adapters {
		if l, ok := alloc.Leases[a.Key()]; ok {
			in.Adapters = append(in.Adapters, netinst.Adapter{Config: a, Lease: l})
		}
	}
	slices.SortFunc(in.Adapters,
		func(a, b netinst.Adapter) int { return cmp.Compare(a.Config.Key().String(), b.Config.Key().String()) })
	return in
}

// uplinksOf returns how a network's bridge manager would choose its ports by a config, from all that is known now.
func (d *deps) uplinksOf(ni string, c netinst.NetworkInstanceConfig,
	ports []netinst.PortStatus) (choices map[string]probe.Choice) {
	now, t := time.Now(), d.topics
	record, _ := t.UplinkRecords.Get("", ni)
	chooser, drained := probe.New(record), map[string]time.Time{}
	for label, x := range t.Drains.List("") {
		drained[label] = x.Until
	}
	events := []probe.Event{
		probe.Drained{Ports: drained, At: now},
		probe.Configured{Config: c.Probe, Selectors: netinst.Selectors(c), Tunnel: c.HasVPN(), At: now},
		probe.PortsSeen{Ports: netinst.ProbePorts(c, ports), At: now},
	}
	for len(events) > 0 {
		effects := chooser.Step(events[0])
		events = events[1:]
		for _, e := range effects {
			switch e := e.(type) {
			case probe.Watch:
				for _, id := range e.IDs {
					o, _ := t.ProbeOutcomes.Get("", id.String())
					events = append(events, probe.OutcomesSeen{Outcomes: o, At: now})
				}
			case probe.Choose:
				choices = e.Choices
			}
		}
	}
	return choices
}

// currentConfig returns the config as it is published.
func (d *deps) currentConfig() nodeconf.Config {
	cfg := nodeconf.Config{Ports: d.topics.PortConfig.List(""), Networks: map[uuid.UUID]netinst.NetworkInstanceConfig{},
		Apps: map[uuid.UUID]appnet.AppNetworkConfig{}}
	for _, n := range d.topics.NetworkConfig.List("") {
		cfg.Networks[n.UUID] = n
	}
	for _, a := range d.topics.AppConfig.List("") {
		cfg.Apps[a.UUID] = a
	}
	return cfg
}

// world returns what becomes of packets under a config: with the ports, leases and choices of uplinks as they are now.
func (d *deps) world(cfg nodeconf.Config) *verdict.World {
	world, _ := d.worldAndInputs(cfg)
	return world
}

// worldAndInputs returns the world, and the networks that it has.
func (d *deps) worldAndInputs(cfg nodeconf.Config) (*verdict.World, []netinst.Input) {
	configs, leases := slices.Collect(maps.Values(cfg.Ports)), d.topics.PortLeases.List("")
	interfaces := addressing.WithLeases(d.interfaces(), configs, leases)
	ports := netinst.PortStatuses(configs, interfaces)
	ids := inOrder(cfg.Networks)
	overlaps := d.overlaps(cfg, ids)
	var inputs []netinst.Input
	for _, id := range ids {
		number, _ := d.topics.Numbers.Get("", id.String()) // 0 for one that no config had yet
		in := d.networkInput(netstate.Owner{Name: id.String(), Number: number}, cfg, ports, overlaps[id])
		for i := range in.Adapters {
			in.Adapters[i].ObservedAddresses = d.observedAddresses(id, in.Adapters[i].Config.Key())
		}
		inputs = append(inputs, in)
	}
	var own []netip.Addr
	for _, i := range interfaces {
		for _, a := range i.Addresses {
			own = append(own, a.Addr())
		}
	}
	return verdict.New(inputs, own), inputs
}

// observedAddresses returns the addresses that the app of a switch network was observed to use.
func (d *deps) observedAddresses(id uuid.UUID, key netinst.AdapterKey) (list []netip.Addr) {
	s, _ := d.topics.AdapterStatus.Get(id.String(), key.String())
	for _, text := range strings.Split(s.Link.Addresses, ",") {
		if a, err := netip.ParseAddr(text); err == nil {
			list = append(list, a)
		}
	}
	return list
}
