package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// allowed returns the reason why the kernel would refuse an item, or nil.
func (h *Host) allowed(st netstate.State, op netstate.Op, it netstate.Item) error {
	id := it.ID()
	has := st[id] != nil
	switch {
	case op.Verb == netstate.Add && has && op.Kind != netstate.KindChain:
		return errors.New("file exists")
	case it.Want == nil && !has:
		return nil // removing a missing object is no error
	case it.Want == nil:
		return h.checkUnused(st, op, it.Have)
	}
	switch w := it.Want.(type) {
	case netstate.Link:
		return h.link(w)
	case netstate.Sysctl:
		if w.Link != "" {
			return onLink(st, netstate.KindLink, w.Link)
		}
	case netstate.Address:
		if w.Foreign {
			return h.exists(w.Link)
		}
		return cmp.Or(h.subnetFree(w), onLink(st, netstate.KindLink, w.Link))
	case netstate.Port:
		if h.vanished[w.Link] && st[netstate.ID{Kind: netstate.KindLink, Name: w.Link}] == nil {
			return errTaken
		}
		if w.Foreign {
			if err := h.foreignPort(w); err != nil {
				return err
			}
		}
		return needs(st, w)
	case netstate.Route:
		if _, tunnel := netstate.VPNNumber(w.Dev); tunnel || strings.HasPrefix(w.Dev, "es") {
			return onLink(st, netstate.KindPort, w.Dev) // the kernel refuses a route on a link that is down
		}
	case netstate.Process:
		return needs(st, w)
	case netstate.Chain:
		return cmp.Or(needs(st, w), h.hooks(st, op, w))
	}
	return nil
}

func needs(st netstate.State, o netstate.Object) error {
	for _, n := range o.Needs() {
		if st[n] == nil {
			return fmt.Errorf("%s comes before %s", o.ID(), n)
		}
	}
	return nil
}

// link refuses a link that can't be created.
func (h *Host) link(w netstate.Link) error {
	switch {
	case w.Vxlan != nil:
		return h.leads(w)
	case w.Tag != nil:
		return h.vlan(w)
	case w.Peer == nil:
		return nil
	case !h.netns[w.Peer.Netns]:
		return fmt.Errorf("network namespace %s does not exist: %w", w.Peer.Netns, netstate.ErrAnnounced)
	}
	return h.peerFree(w)
}

// foreignPort refuses a foreign link that can't be set up or enslaved.
func (h *Host) foreignPort(w netstate.Port) error {
	switch {
	case w.Master == "":
		return h.exists(w.Link)
	case !h.links[w.Link]:
		return fmt.Errorf("interface %s does not exist: %w", w.Link, netstate.ErrAnnounced)
	case h.enslaved(w):
		return fmt.Errorf("interface %s is in another bridge: %w", w.Link, netstate.ErrWaiting)
	}
	return nil
}

// exists refuses a port whose interface does not exist.
func (h *Host) exists(link string) error {
	if slices.ContainsFunc(h.ifaces, func(i netstate.Interface) bool { return i.Name == link }) {
		return nil
	}
	return fmt.Errorf("interface %s does not exist: %w", link, netstate.ErrWaiting)
}

// subnetFree refuses an address if another network has one of the same subnet.
func (h *Host) subnetFree(a netstate.Address) error {
	own, err := netip.ParsePrefix(a.Prefix)
	if err != nil || a.Label != "" {
		return err
	}
	for _, st := range h.state {
		for _, o := range st {
			other, ok := o.(netstate.Address)
			p, err := netip.ParsePrefix(other.Prefix)
			if ok && err == nil && !p.Addr().IsLinkLocalUnicast() && other.Link != a.Link &&
				other.Label == "" && p.Overlaps(own) {
				return fmt.Errorf("%s still has %s: %w", other.Link, other.Prefix, netstate.ErrWaiting)
			}
		}
	}
	return nil
}

// errTaken is the error of an op that is in order but that a kernel refuses: after a restart, the network that an
// adapter has left may be the last to change, and a namespace may remove its links between two ops.
var errTaken = errors.New("the world has changed")

// peerFree refuses a name that another link already has in the namespace, as the kernel does: an adapter is never on
// two networks.
func (h *Host) peerFree(w netstate.Link) error {
	for _, st := range h.state {
		for _, o := range st {
			if l, ok := o.(netstate.Link); ok && l.Peer != nil && l.Name != w.Name && l.Peer.Netns == w.Peer.Netns &&
				l.Peer.Name == w.Peer.Name {
				return fmt.Errorf("%s in %s is the peer of %s: %w", w.Peer.Name, w.Peer.Netns, l.Name, errTaken)
			}
		}
	}
	return nil
}

// isBranch reports whether a chain is one of host's that come and go with the networks to which it leads, such as
// ES-NETS-FROM-1: a network whose subnet or type changes may be there before it.
func isBranch(name string) bool {
	return strings.HasPrefix(name, "ES-") && name[len(name)-1] >= '0' && name[len(name)-1] <= '9'
}

// hooks refuses a rule that refers to a chain that does not exist.
func (h *Host) hooks(st netstate.State, op netstate.Op, c netstate.Chain) error {
	exists := func(name string) bool {
		for _, s := range []netstate.State{st, h.state[0]} {
			for _, o := range s {
				if x, ok := o.(netstate.Chain); ok && x.Name == name {
					return true
				}
			}
		}
		for _, it := range op.Items {
			if x, ok := it.Want.(netstate.Chain); ok && x.Name == name {
				return true
			}
		}
		return false
	}
	for _, k := range c.Hooks {
		if !strings.HasPrefix(k.Parent, "ES") || exists(k.Parent) {
			continue
		}
		err := fmt.Errorf("no chain %s to hook %s into", k.Parent, c.Name)
		if isBranch(k.Parent) {
			err = fmt.Errorf("%w: %w", err, netstate.ErrWaiting)
		}
		return err
	}
	if c.Family.Native() {
		return nil
	}
	for _, r := range c.Rules {
		f := strings.Fields(r)
		for i, w := range f[:max(len(f)-1, 0)] {
			if (w == "-j" || w == "-g") && strings.HasPrefix(f[i+1], "ES") && !exists(f[i+1]) {
				return fmt.Errorf("chain %s jumps to %s, which does not exist", c.Name, f[i+1])
			}
		}
	}
	return nil
}

// checkUnused refuses to remove a chain that an active port needs, and a set that a chain names.
func (h *Host) checkUnused(st netstate.State, op netstate.Op, have netstate.Object) error {
	if s, ok := have.(netstate.Set); ok {
		for _, o := range st {
			if c, ok := o.(netstate.Chain); ok && slices.Contains(c.Needs(), s.ID()) {
				return fmt.Errorf("%s goes before %s", s.ID(), c.ID())
			}
		}
	}
	if c, ok := have.(netstate.Chain); ok && !ofOtherType(st, c) && !losesIPv6(op, c) {
		for _, o := range st {
			p, ok := o.(netstate.Port)
			if !ok || p.Master == "" {
				continue
			}
			for _, id := range p.After {
				if id == c.ID() {
					return fmt.Errorf("%s goes while %s is up", id, p.ID())
				}
			}
		}
	}
	return nil
}

func need(st netstate.State, k netstate.Kind, name string) error {
	if st[netstate.ID{Kind: k, Name: name}] == nil {
		return fmt.Errorf("no %s %s", k, name)
	}
	return nil
}

// ofOtherType reports whether a chain is left from before the network became a switch, or stopped being one. Its ports
// are unchanged, but depend on other chains now.
func ofOtherType(st netstate.State, c netstate.Chain) bool {
	number, part, _ := strings.Cut(c.Name, "-")
	has := func(table, part string) bool {
		return st[netstate.Chain{Family: netstate.IPv4, Table: table, Name: number + "-" + part}.ID()] != nil
	}
	if part == "RAW" {
		return has("nat", "POST")
	}
	return has("raw", "RAW") && (part == "POST" || part != "" && strings.Contains("DHMN", part[len(part)-1:]))
}

// losesIPv6 reports whether a chain goes with the IPv6 of its network: its ports are unchanged, and need it no more.
func losesIPv6(op netstate.Op, c netstate.Chain) bool {
	number, _, _ := strings.Cut(c.Name, "-")
	return slices.ContainsFunc(op.Items, func(it netstate.Item) bool {
		x, ok := it.Have.(netstate.Chain)
		return ok && it.Want == nil && x.Family == netstate.IP6Family && x.Name == number+"-FWD"
	})
}

// enslaved reports whether a foreign link is in another network's bridge.
func (h *Host) enslaved(p netstate.Port) bool {
	for _, st := range h.state {
		if o, ok := st[p.ID()].(netstate.Port); ok && o.Master != p.Master {
			return true
		}
	}
	return false
}

// Counters returns the counters that SetCounters set, and counters of 0 for other chains of a State.
func (h *Host) Counters(_ context.Context, o netstate.Owner, chains []netstate.ID) (
	map[netstate.ID][]netstate.Counter, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[netstate.ID][]netstate.Counter{}
	for _, id := range chains {
		c, exists := h.state[o.Number][id].(netstate.Chain)
		switch counts, set := h.counters[id]; {
		case exists && set:
			out[id] = counts
		case exists:
			out[id] = make([]netstate.Counter, len(c.Rules))
		}
	}
	return out, nil
}

// SetCounters sets what the rules of a chain have counted; nil is 0.
func (h *Host) SetCounters(id netstate.ID, counters []netstate.Counter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counters == nil {
		h.counters = map[netstate.ID][]netstate.Counter{}
	}
	h.counters[id] = counters
}

// LinkCounters returns the counters that SetLinkCounters set.
func (h *Host) LinkCounters() (map[string]netstate.LinkCounters, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.carried), nil
}

// SetLinkCounters sets what links have carried.
func (h *Host) SetLinkCounters(carried map[string]netstate.LinkCounters) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.carried = carried
}

// HelperUsage returns one program for the processes of all networks.
func (h *Host) HelperUsage(context.Context) ([]netstate.HelperUsage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, st := range h.state {
		for id := range st {
			if id.Kind == netstate.KindProcess {
				n++
			}
		}
	}
	return []netstate.HelperUsage{{Program: "dnsmasq", Processes: n, Memory: int64(n) << 20}}, nil
}
