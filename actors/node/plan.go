package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/nodeconf"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
	"edgespan/netinst/registry"
)

// observeTimeout limits an observation of the whole host, including the wait for others.
const observeTimeout = 10 * time.Second

// observeRequest asks the planner to observe the host; the planner answers with observeAnswer.
type observeRequest struct {
	ctx   context.Context // ends when the caller gives up
	look  func(context.Context) (any, error)
	begun *atomic.Bool
}

type observeAnswer struct {
	seen any
	err  error
}

// planner observes the whole host, one request at a time. That blocks, so it is a leaf.
type planner struct{}

func (planner) Receive(c actor.Context) {
	if msg, ok := c.Message().(observeRequest); ok && msg.ctx.Err() == nil {
		msg.begun.Store(true)
		seen, err := msg.look(msg.ctx)
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
		return a.seen.(T), a.err
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
	return observe(ctx, n, "plan", func(ctx context.Context) ([]nodeapi.Change, error) { return n.d.plan(ctx, cfg) })
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
		for _, op := range netstate.Diff(have, wants[o]) {
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
// host first, or last if its state is removed.
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
	ids := slices.SortedFunc(maps.Keys(cfg.Networks),
		func(a, b uuid.UUID) int { return cmp.Compare(a.String(), b.String()) })
	for _, id := range ids {
		reg.Step(registry.NetworkDesired{Config: cfg.Networks[id]})
	}

	wants := map[netstate.Owner]netstate.State{}
	var owners []netstate.Owner
	ports := netinst.PortStatuses(slices.Collect(maps.Values(cfg.Ports)), d.interfaces())
	overlaps := d.overlaps(cfg, ids)
	for _, id := range ids {
		o := netstate.Owner{Name: id.String(), Number: reg.Number(id)}
		owners = append(owners, o)
		wants[o] = d.networkState(ctx, o, cfg, ports, overlaps[id])
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
	networks := reg.Networks(ids)
	host := netstate.Owner{Name: netstate.HostOwner}
	wants[host] = netinst.HostState(networks)
	if len(networks) == 0 {
		return wants, append(owners, host)
	}
	return wants, append([]netstate.Owner{host}, owners...)
}

// networkState returns the state that a network's manager would desire.
func (d *deps) networkState(ctx context.Context, o netstate.Owner, cfg nodeconf.Config, ports []netinst.PortStatus,
	clash overlap.Overlap) netstate.State {
	id := uuid.MustParse(o.Name)
	var adapters []netinst.AppAdapterConfig
	for _, a := range cfg.Apps {
		for i, u := range a.Adapters {
			if a.Activate && u.NetworkInstance == id {
				adapters = append(adapters,
					netinst.AppAdapterConfig{AppUUID: a.UUID, UnderlayIndex: i, Activate: true, UnderlayConfig: u})
			}
		}
	}
	held, _ := d.topics.Leases.Get("", o.Name)
	alloc := netinst.Allocate(cfg.Networks[id], adapters, held)
	in := netinst.Input{
		Owner: o, Config: cfg.Networks[id], Ports: ports, MaxTracked: int(d.maxTracked.Load()), RunDir: d.runDir,
		Overlap: clash,
	}
	in.MTU, _ = d.host.BridgeMTU(ctx, o) // like the manager, go without an MTU that can't be read
	for _, a := range adapters {
		if l, ok := alloc.Leases[a.Key()]; ok {
			in.Adapters = append(in.Adapters, netinst.Adapter{Config: a, Lease: l})
		}
	}
	slices.SortFunc(in.Adapters,
		func(a, b netinst.Adapter) int { return cmp.Compare(a.Config.Key().String(), b.Config.Key().String()) })
	return netinst.DesiredState(in).State
}
