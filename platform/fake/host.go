// Package fake is a host in memory for tests above the platform. It refuses ops that are out of order, as a kernel
// would, and injects faults: an op fails, hangs, or dies half way.
//
// It never touches the real host, and it decides nothing.
package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
)

// OpFault is an injected fault of one op.
type OpFault struct {
	Err   error // the op fails with this error, without effect
	Hang  bool  // the op lasts until its deadline, then fails without effect
	Half  bool  // the op takes effect and still fails
	Panic bool  // the caller's goroutine panics after the op took effect
}

// Host is the host in memory.
type Host struct {
	mu          sync.Mutex
	state       map[int]netstate.State
	ifaces      []netstate.Interface
	netns       map[string]bool
	fault       func(netstate.Owner, netstate.Op) *OpFault
	emit        map[int]func(netstate.HostEvent)
	watchers    int
	snoops      map[string]*func(netstate.ObservedAddress)
	messages    map[string]*func(netstate.Messages)
	leases      map[string][]netstate.HeldLease
	done        []string
	forgets     int
	broken      map[int][]netstate.OpFailure // failures of the self-test
	counters    map[netstate.ID][]netstate.Counter
	carried     map[string]netstate.LinkCounters // by link
	violation   []string
	links       map[string]bool // foreign links that exist
	forwardAll  bool
	vanished    map[string]bool // links that were removed with their namespace, not by an op
	echo        bool
	forgetErr   error
	emitFlows   func(netstate.FlowEvents)
	deniedErr   error
	deniedAsked int
	tracked     []netstate.EndedFlow
	flows       []netstate.Flow
	noVLANs     bool
	inUse       func(netip.Addr) string
	ending      func(context.Context, string, []netstate.Flow) error
	unseen      map[int]netstate.State // lost chains, which only a full observation notices
	disturbed   map[int]bool           // owners that have lost objects since they were observed
	hostLost    map[netstate.ID]bool   // what the host state has lost and not got back, on which networks depend
	maxTracked  int                    // nf_conntrack_max
	unread      []netstate.Interface   // the result of a RereadDNS; nil: unchanged
	dhcp        func(string, netstate.DHCPQuery) []netstate.DHCPReply
	noDHCP      func(string) error
	probes      func(probe.ID) error
	tunnels     tunnels
}

// New returns an empty host.
func New() *Host {
	return &Host{state: map[int]netstate.State{}, unseen: map[int]netstate.State{}, netns: map[string]bool{},
		links: map[string]bool{}, snoops: map[string]*func(netstate.ObservedAddress){}, disturbed: map[int]bool{},
		hostLost: map[netstate.ID]bool{},
		messages: map[string]*func(netstate.Messages){}, leases: map[string][]netstate.HeldLease{},
		vanished: map[string]bool{}, emit: map[int]func(netstate.HostEvent){}, broken: map[int][]netstate.OpFailure{}}
}

// SetFault sets the function that injects faults into ops; nil for none.
func (h *Host) SetFault(f func(netstate.Owner, netstate.Op) *OpFault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = f
}

// SetEcho makes each op notify the watchers of its effects, even a failing one, as a kernel does: a link that is
// created and then can't be set up appears and disappears.
func (h *Host) SetEcho(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.echo = on
}

// SetInterfaces replaces the foreign interfaces and notifies the watchers.
func (h *Host) SetInterfaces(ok ...netstate.Interface) {
	h.mu.Lock()
	h.ifaces = ok
	h.mu.Unlock()
	h.send(netstate.HostEvent{Interfaces: ok, HostRouting: true, Forwarding: h.forwarding()})
}

// SetNetns creates or removes a named network namespace. Removing one removes the links whose peer is in it.
func (h *Host) SetNetns(name string, exists bool) {
	h.mu.Lock()
	ev := netstate.HostEvent{Namespaces: true}
	if h.netns[name] = exists; !exists {
		for n, st := range h.state {
			for id, o := range st {
				if l, ok := o.(netstate.Link); ok && l.Peer != nil && l.Peer.Netns == name {
					h.vanished[l.Name], h.disturbed[n] = true, true
					delete(st, id)
					delete(st, netstate.ID{Kind: netstate.KindPort, Name: l.Name})
					ev.Touched = append(ev.Touched, n)
				}
			}
		}
	}
	h.mu.Unlock()
	h.send(ev)
}

// SetLink creates or removes a foreign link. A removed link leaves its bridge; a recreated one is in none.
func (h *Host) SetLink(name string, exists bool) {
	h.mu.Lock()
	ev := netstate.HostEvent{Namespaces: true}
	h.links[name] = exists
	for n, st := range h.state {
		id := netstate.ID{Kind: netstate.KindPort, Name: name}
		if p, ok := st[id].(netstate.Port); ok && p.Foreign {
			delete(st, id)
			ev.Touched = append(ev.Touched, n)
		}
	}
	h.mu.Unlock()
	h.send(ev)
}

// State returns a copy of the state of owner number n.
func (h *Host) State(n int) netstate.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.state[n])
}

// Done returns the ops that took effect, as text, and clears the list.
func (h *Host) Done() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.done
	h.done = nil
	return d
}

// Violations returns the ops that were refused because they were out of order.
func (h *Host) Violations() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.violation)
}

// Observe returns the owner's state.
func (h *Host) Observe(ctx context.Context, o netstate.Owner, full bool) (netstate.State, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	st := netstate.State{}
	if full {
		delete(h.unseen, o.Number)
	}
	if len(h.unseen[o.Number]) == 0 {
		delete(h.disturbed, o.Number)
	}
	for id, x := range h.unseen[o.Number] {
		st[id] = x
	}
	for id, x := range h.state[o.Number] {
		st[id] = h.shown(x)
	}
	return st, nil
}

// ObserveProcesses returns the processes of the owner's state.
func (h *Host) ObserveProcesses(ctx context.Context, o netstate.Owner) (netstate.State, error) {
	st, err := h.Observe(ctx, o, false)
	maps.DeleteFunc(st, func(id netstate.ID, _ netstate.Object) bool { return id.Kind != netstate.KindProcess })
	return st, err
}

// BridgeMTU returns the MTU of an owner's bridge, or 0 without a bridge.
func (h *Host) BridgeMTU(_ context.Context, o netstate.Owner) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.state[o.Number] {
		if l, ok := x.(netstate.Link); ok && l.Type == netstate.Bridge {
			return l.MTU, nil
		}
	}
	return 0, nil
}

// Owners returns every owner that has objects on the host, except the host itself.
func (h *Host) Owners(context.Context) ([]netstate.Owner, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var os []netstate.Owner
	for _, n := range slices.Sorted(maps.Keys(h.state)) {
		if n <= 0 || len(h.state[n]) == 0 {
			continue
		}
		o := netstate.Owner{Number: n}
		for _, x := range h.state[n] {
			if l, ok := x.(netstate.Link); ok && l.Type == netstate.Bridge {
				o.Name = strings.TrimPrefix(l.Alias, "edgespan ni ")
			}
		}
		os = append(os, o)
	}
	return os, nil
}

// Test returns the failures that SetBroken set for the owner.
func (h *Host) Test(_ context.Context, o netstate.Owner, _ netstate.State) []netstate.OpFailure {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.broken[o.Number])
}

// SetBroken sets the failures of owner number n's self-test; without failures it passes.
func (h *Host) SetBroken(n int, fs ...netstate.OpFailure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken[n] = fs
}

// Snoop listens on a link until ctx ends.
func (h *Host) Snoop(ctx context.Context, link string, emit func(netstate.ObservedAddress)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.snoops[link] = &emit
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.snoops[link] == &emit { // and not that of a later process
			delete(h.snoops, link)
		}
	})
}

// Announce notifies the listeners on the link, and reports whether there are any.
func (h *Host) Announce(s netstate.ObservedAddress) bool {
	h.mu.Lock()
	emit := h.snoops[s.Link]
	h.mu.Unlock()
	if emit != nil {
		(*emit)(s)
	}
	return emit != nil
}

// Do performs one op.
func (h *Host) Do(ctx context.Context, o netstate.Owner, op netstate.Op) error {
	h.mu.Lock()
	var fault *OpFault
	if h.fault != nil {
		fault = h.fault(o, op)
	}
	echo := h.echo
	h.mu.Unlock()
	if echo && o.Number != 0 {
		ev := netstate.HostEvent{Touched: []int{o.Number}, Namespaces: true}
		for _, it := range op.Items {
			if id := it.ID(); id.Kind == netstate.KindLink || id.Kind == netstate.KindPort {
				ev.Links = append(ev.Links, netstate.LinkTouch{Number: o.Number, Name: id.Name})
			}
		}
		defer h.send(ev)
	}
	if fault != nil && fault.Hang {
		<-ctx.Done()
		return &netstate.OpError{Op: op.String(), Command: "fake-command", Err: ctx.Err()}
	}
	if fault != nil && fault.Err != nil {
		return &netstate.OpError{Op: op.String(), Command: "fake-command", Err: fault.Err}
	}
	if err := h.do(o, op); err != nil {
		return &netstate.OpError{Op: op.String(), Err: err}
	}
	if o.Number == netstate.PortsNumber {
		h.followVLANs(op)
	}
	if op.Kind == netstate.KindSysctl && o.Number == 0 {
		h.send(netstate.HostEvent{Forwarding: h.forwarding()})
	}
	if fault != nil && fault.Panic {
		panic("fake host: injected panic in " + op.String())
	}
	if fault != nil && fault.Half {
		return &netstate.OpError{Op: op.String(), Err: errors.New("died half way")}
	}
	return nil
}

func (h *Host) do(o netstate.Owner, op netstate.Op) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.state[o.Number]
	if st == nil {
		st = netstate.State{}
		h.state[o.Number] = st
	}
	for _, it := range op.Items {
		if err := h.allowed(st, op, it); err != nil {
			if !errors.Is(err, netstate.ErrWaiting) && !errors.Is(err, errTaken) && !h.disturbed[o.Number] &&
				len(h.hostLost) == 0 {
				h.violation = append(h.violation, fmt.Sprintf("%s: %s: %v", o.Name, op, err))
			}
			return err
		}
	}
	for _, it := range op.Items {
		if it.Want == nil {
			delete(h.hostLost, it.ID())
			h.remove(st, it.ID())
		} else {
			st[it.ID()] = it.Want
			if o.Number == 0 {
				delete(h.hostLost, it.ID())
			}
		}
	}
	h.done = append(h.done, fmt.Sprintf("%d: %s", o.Number, op))
	return nil
}

// remove removes an object and what the kernel removes with it: a link's port, addresses and routes.
func (h *Host) remove(st netstate.State, id netstate.ID) {
	if v, tunnel := st[id].(netstate.VPN); tunnel { // its link goes with it
		id = netstate.ID{Kind: netstate.KindLink, Name: v.Link}
		delete(st, v.ID())
	}
	delete(st, id)
	if id.Kind == netstate.KindLink {
		delete(st, netstate.ID{Kind: netstate.KindPort, Name: id.Name})
	}
	for k, o := range st {
		switch x := o.(type) {
		case netstate.Sysctl:
			if id.Kind == netstate.KindLink && x.Link == id.Name {
				delete(st, k)
			}
		case netstate.Address:
			if id.Kind == netstate.KindLink && x.Link == id.Name {
				delete(st, k)
			}
		case netstate.Route:
			if (id.Kind == netstate.KindLink || id.Kind == netstate.KindPort) && x.Dev == id.Name {
				delete(st, k)
			}
		}
	}
}
