package appnet_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
)

// network is one network instance of the world: the real netinst/manager.Manager, with a model of its actor, its
// applier and the host.
type network struct {
	w       *world
	ni      uuid.UUID
	owner   netstate.Owner
	config  topic[netinst.NetworkInstanceConfig]
	gen     uint64
	mgr     *manager.Manager // nil: there is no bridge manager
	crashed bool             // its supervisor will restart it
	known   bool             // AdaptersKnown was sent
	online  topic[netinst.NetworkInstanceStatus]
	leases  map[key]netinst.Lease // its journal
	timers  []uint64              // tokens
	applier applier
	stale   []manager.Applied // results of the past, delivered late or again
	host    netstate.State    // survives every crash
	active  map[key]bool      // of the host: up and in the bridge
	touched bool              // changed externally, and not notified yet
}

// applier executes one apply at a time, as actors.applier does, on a host that fails, hangs and kills it.
type applier struct {
	ready bool
	req   *manager.Apply
	run   *netstate.Run
	had   netstate.State
	hung  *netstate.Op
}

func newNetwork(w *world, i int) *network {
	ni := uuid.UUID{15: byte(i)}
	return &network{
		w: w, ni: ni, owner: netstate.Owner{Name: ni.String(), Number: i}, host: netstate.State{}, active: map[key]bool{},
	}
}

func (n *network) places() []place {
	i := 3 * (n.owner.Number - 1)
	return n.w.all[i : i+3]
}

// want publishes the network's config again, or withdraws it.
func (n *network) want(there, inactive bool, mtu int) {
	n.w.say("network %d: wanted=%v inactive=%v mtu=%d", n.ni[15], there, inactive, mtu)
	if !there {
		if n.config.have() {
			n.config.put(nil)
		}
		return
	}
	n.gen++
	subnet := netip.AddrFrom4([4]byte{10, n.ni[15], 0, 0})
	n.config.put(&netinst.NetworkInstanceConfig{
		UUID: n.ni, DisplayName: fmt.Sprintf("net%d", n.ni[15]), Type: netinst.Local, Inactive: inactive, MTU: mtu,
		IPv4: netinst.IPv4Config{
			Subnet: netip.PrefixFrom(subnet, 28), Gateway: subnet.Next(),
			DHCPFirst: netip.AddrFrom4([4]byte{10, n.ni[15], 0, 8}), DHCPLast: netip.AddrFrom4([4]byte{10, n.ni[15], 0, 14}),
		},
		Generation: n.gen,
	})
}

// act makes the bridge manager, its applier or the router do one thing, and reports whether there was one.
func (n *network) act() bool {
	if n.mgr == nil {
		if n.crashed || n.config.have() {
			n.spawn()
			return true
		}
		return n.tidy()
	}
	switch r := n.w.r; r.IntN(8) {
	case 0:
		return n.hearConfig()
	case 1, 2:
		return n.hearAdapter(n.places()[r.IntN(3)])
	case 3:
		return n.hearKnown()
	case 4:
		return n.hearHost()
	default:
		for range 1 + r.IntN(40) {
			n.work()
		}
		return true
	}
}

// spawn starts a bridge manager, also after a crash: it reads what is retained,
// as actors.bridge does.
func (n *network) spawn() {
	n.w.epoch++
	n.mgr = manager.New(n.owner, "/run/edgespan", n.w.epoch, n.leases)
	n.crashed, n.known, n.timers, n.applier, n.touched = false, false, nil, applier{}, false
	if c := n.config.replay(); c != nil {
		n.tell(manager.ConfigChanged{Config: *c})
	}
	n.tell(manager.PortsChanged{})
	for _, p := range n.places() {
		if c := n.w.adapters[p].replay(); c != nil {
			n.tell(manager.AdapterChanged{Config: *c})
		}
	}
	n.tell(manager.Claimed{})
	for _, p := range n.places() {
		if n.w.statuses[p].have() && !n.w.adapters[p].have() {
			n.tell(manager.AdapterGone{Key: p.Key})
		}
	}
	n.tell(manager.Synchronized{})
}

// tidy withdraws statuses whose config is gone, as the router does for a network without a bridge manager.
func (n *network) tidy() bool {
	done := false
	for _, p := range n.places() {
		if !n.w.adapters[p].have() && n.w.statuses[p].have() {
			n.w.answer(p, nil)
			done = true
		}
	}
	return done
}

func (n *network) hearConfig() bool {
	pending := n.config.behind()
	if !pending && n.w.healthy {
		return false
	}
	if c := n.config.next(n.w.r); c != nil {
		n.tell(manager.ConfigChanged{Config: *c})
	} else if len(n.config.values) > 0 {
		n.tell(manager.ConfigGone{})
	}
	return pending
}

func (n *network) hearAdapter(p place) bool {
	t := n.w.adapters[p]
	pending := t.behind()
	if !pending && n.w.healthy {
		return false
	}
	if c := t.next(n.w.r); c != nil {
		n.tell(manager.AdapterChanged{Config: *c})
	} else {
		n.tell(manager.AdapterGone{Key: p.Key})
	}
	return pending
}

// hearKnown notifies that the app has published its desired adapters, after all that it has published.
func (n *network) hearKnown() bool {
	if c := n.w.desired.now(); n.known || c != nil && !n.w.takenUp &&
		slices.ContainsFunc(slices.Collect(maps.Values(c.Adapters)),
			func(u netinst.AdapterSpec) bool { return u.NetworkInstance == n.ni }) {
		return false
	}
	n.known = true
	for _, p := range n.places() {
		n.hearAdapter(p)
	}
	n.tell(manager.AdaptersKnown{})
	return true
}

// hearHost delivers events other than topics: timers, changes of the host, and results of an applier that died long
// ago.
func (n *network) hearHost() bool {
	r := n.w.r
	switch i := r.IntN(4); {
	case i == 0 && n.touched:
		n.touched = false
		n.tell(manager.HostTouched{Namespaces: r.IntN(3) == 0})
	case i == 1 && len(n.stale) > 0 && !n.w.healthy:
		n.tell(n.stale[r.IntN(len(n.stale))])
	case len(n.timers) > 0 && (!n.w.healthy || r.IntN(4) == 0):
		k := r.IntN(len(n.timers))
		token := n.timers[k]
		n.timers = slices.Delete(n.timers, k, k+1)
		n.tell(manager.TimerDue{Token: token, At: n.w.time()})
	default:
		return false
	}
	return true
}

// tell steps the manager and carries out its effects; a crash may come after any.
func (n *network) tell(e manager.Event) {
	if n.mgr == nil {
		return
	}
	fx := n.mgr.Step(e)
	crash := -1
	if !n.w.healthy && n.w.r.IntN(150) == 0 {
		crash = n.w.r.IntN(len(fx) + 1)
	}
	for i, f := range fx {
		if i == crash {
			break
		}
		n.do(f)
	}
	if crash >= 0 && n.mgr != nil {
		n.w.say("bm %d: crashes after %d of %d effects of %T", n.ni[15], crash, len(fx), e)
		n.crash()
	}
	n.w.pardon(n)
}

// crash ends the bridge manager and its children; the host keeps its state.
func (n *network) crash() { n.mgr, n.crashed, n.applier = nil, true, applier{} }

func (n *network) do(f manager.Effect) {
	switch f := f.(type) {
	case manager.PublishNetwork:
		if now := n.online.now(); now == nil || !now.Equal(f.Status) {
			n.w.say("bm %d: %s gen %d %s", n.ni[15], f.Status.State, f.Status.Generation, f.Status.Error)
			n.online.put(&f.Status)
		}
	case manager.WithdrawNetwork:
		n.online.put(nil)
		if len(n.host) > 0 {
			n.w.fail("network %d goes offline and leaves\n%s", n.ni[15], n.host)
		}
	case manager.PublishAdapter:
		n.answered(place{Scope: n.ni, Key: f.Status.Key()}, f.Status)
	case manager.WithdrawAdapter:
		p := place{Scope: n.ni, Key: f.Key}
		if n.active[f.Key] {
			n.w.fail("%s: the status is withdrawn of an adapter that is active", name(p))
		}
		n.w.answer(p, nil)
	case manager.JournalLeases:
		n.leases = f.Leases
	case manager.Apply:
		if !n.applier.ready || n.applier.req != nil {
			n.w.fail("network %d: an apply while the applier is ready=%v, busy=%v", n.ni[15], n.applier.ready,
				n.applier.req != nil)
		}
		n.applier.req = &f
	case manager.Timer:
		n.timers = append(n.timers, f.Token)
	case manager.Done:
		n.w.say("bm %d: done", n.ni[15])
		n.mgr = nil
		n.tidy()
	}
}

// answered records the bridge manager's status of one adapter. A status that answers the adapter's removal must be true
// of the host: the app then lets the adapter enter another network.
func (n *network) answered(p place, s netinst.AppAdapterStatus) {
	asked := func(activate bool) bool {
		return slices.ContainsFunc(n.w.adapters[p].values, func(c *netinst.AppAdapterConfig) bool {
			return c != nil && c.TargetVersion == s.TargetVersion && c.Activate == activate
		})
	}
	if !asked(true) && !asked(false) {
		n.w.fail("%s answers v%d, which nobody has asked for", name(p), s.TargetVersion)
	}
	if !asked(true) && !s.Activated && n.active[p.Key] {
		n.w.fail("%s says v%d activated=false and is active", name(p), s.TargetVersion)
	}
	n.w.answer(p, &s)
}

// ---- the applier and the host

// work lets the applier take one step.
func (n *network) work() {
	a := &n.applier
	switch {
	case n.mgr == nil:
	case !a.ready:
		*a = applier{ready: true}
		n.tell(manager.ApplierReady{})
	case a.req == nil:
	case a.hung != nil:
		if op := *a.hung; n.w.healthy || n.w.r.IntN(6) == 0 {
			a.hung = nil
			a.run.Done(op, fmt.Errorf("%s: killed: deadline exceeded", op))
		}
	case a.run == nil:
		if !n.w.healthy && n.w.r.IntN(40) == 0 {
			n.finish(manager.Applied{Err: "dump interrupted"})
			return
		}
		a.had, a.run = maps.Clone(n.host), netstate.NewRun(netstate.Diff(n.host, a.req.Want))
	default:
		if op, more := a.run.Next(); more {
			n.tell(manager.OpStarted{Seq: a.req.Seq, Op: op.String(), At: n.w.time()})
			n.attempt(op)
			return
		}
		fs := a.run.Failures()
		if len(fs) == 0 {
			for _, op := range netstate.Diff(n.host, a.req.Want) { // as actors.applier verifies
				for _, it := range op.Items {
					fs = append(fs, netstate.OpFailure{ID: it.ID(), Observe: true, Remove: it.Want == nil, Err: "found different"})
				}
			}
		}
		n.finish(manager.Applied{Failures: fs, Before: a.had})
	}
}

func (n *network) finish(e manager.Applied) {
	e.Seq, e.At = n.applier.req.Seq, n.w.time()
	n.applier = applier{ready: true}
	n.stale = append(n.stale, e)
	n.tell(e)
}

// attempt executes one op, or returns its result.
func (n *network) attempt(op netstate.Op) {
	a := &n.applier
	if a.run == nil { // the bridge manager crashed while it processed the result
		return
	}
	for _, it := range op.Items { // drift may have removed what the plan needs
		if p, ok := it.Want.(netstate.Port); ok && n.host[netstate.ID{Kind: netstate.KindLink, Name: p.Link}] == nil {
			a.run.Done(op, fmt.Errorf("%s: no such device", op))
			return
		}
	}
	luck := 99
	if !n.w.healthy {
		luck = n.w.r.IntN(80)
		if op.Verb == netstate.Remove {
			luck %= 40
		}
	}
	switch luck {
	case 0:
		n.w.say("applier %d: fails at %s", n.ni[15], op)
		a.run.Done(op, fmt.Errorf("%s: busy", op))
	case 1:
		n.w.say("applier %d: takes too long for %s", n.ni[15], op)
		n.effect(op)
		a.run.Done(op, fmt.Errorf("%s: killed: deadline exceeded", op))
	case 2:
		n.w.say("applier %d: hangs in %s", n.ni[15], op)
		a.hung = &op
	case 3, 4:
		n.w.say("applier %d: dies in %s", n.ni[15], op)
		if luck == 3 {
			n.effect(op)
		}
		n.applier = applier{}
	case 5:
		n.w.say("applier %d: waits with %s", n.ni[15], op)
		a.run.Done(op, fmt.Errorf("%s: no namespace: %w", op, netstate.ErrWaiting))
	default:
		n.effect(op)
		a.run.Done(op, nil)
	}
}

// effect applies an op to the host.
func (n *network) effect(op netstate.Op) {
	for _, it := range op.Items {
		if it.Want != nil {
			n.host[it.ID()] = it.Want
		} else {
			n.lose(it.ID())
		}
	}
	n.look()
}

// lose removes an object from the host, with what the kernel removes along with it.
func (n *network) lose(id netstate.ID) {
	delete(n.host, id)
	if id.Kind == netstate.KindLink {
		delete(n.host, netstate.ID{Kind: netstate.KindPort, Name: id.Name})
	}
}

// look finds the adapters that a packet can pass.
func (n *network) look() {
	clear(n.active)
	for id, o := range n.host {
		if p, ok := o.(netstate.Port); ok && p.Master != "" {
			l, _ := n.host[netstate.ID{Kind: netstate.KindLink, Name: id.Name}].(netstate.Link)
			_, rest, _ := strings.Cut(l.Alias, " adapter ")
			word, _, _ := strings.Cut(rest, " ")
			if k, err := netinst.ParseAdapterKey(word); err == nil {
				n.active[k] = true
			} else {
				n.w.fail("port %s is in the bridge and belongs to nobody: %q", id.Name, l.Alias)
			}
		}
	}
}

// drift has another process remove part of the network from the host.
func (n *network) drift() {
	if ids := n.host.IDs(); len(ids) > 0 {
		id := ids[n.w.r.IntN(len(ids))]
		n.w.say("host %d: loses %s", n.ni[15], id)
		n.lose(id)
		n.look()
		n.touched = true
	}
}

func (w *world) time() time.Time {
	w.now = w.now.Add(time.Duration(w.r.IntN(700)) * time.Millisecond)
	return w.now
}
