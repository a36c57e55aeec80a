package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
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
		return h.checkUnused(st, it.Have)
	}
	switch w := it.Want.(type) {
	case netstate.Link:
		if w.Vxlan != nil {
			return h.leads(w)
		}
		if w.Peer != nil && !h.netns[w.Peer.Netns] {
			return fmt.Errorf("network namespace %s does not exist: %w", w.Peer.Netns, netstate.ErrWaiting)
		}
		if w.Peer != nil {
			return h.peerFree(w)
		}
	case netstate.Sysctl:
		if w.Link != "" {
			return need(st, netstate.KindLink, w.Link)
		}
	case netstate.Address:
		return cmp.Or(h.subnetFree(w), need(st, netstate.KindLink, w.Link))
	case netstate.Port:
		if h.vanished[w.Link] && st[netstate.ID{Kind: netstate.KindLink, Name: w.Link}] == nil {
			return errTaken
		}
		if w.Foreign && !h.links[w.Link] {
			return fmt.Errorf("interface %s does not exist: %w", w.Link, netstate.ErrWaiting)
		}
		if w.Foreign && h.enslaved(w) {
			return fmt.Errorf("interface %s is in another bridge: %w", w.Link, netstate.ErrWaiting)
		}
		for _, n := range w.Needs() {
			if st[n] == nil {
				return fmt.Errorf("%s stands before %s", id, n)
			}
		}
	case netstate.Route:
		if w.Dev != "" && strings.HasPrefix(w.Dev, "es") {
			return need(st, netstate.KindPort, w.Dev) // the kernel refuses a route on a link that is down
		}
	case netstate.Process:
		for _, n := range w.Needs() {
			if st[n] == nil {
				return fmt.Errorf("%s starts before %s", id, n)
			}
		}
	case netstate.Chain:
		return h.hooks(st, op, w)
	}
	return nil
}

// subnetFree refuses an address if another network has one of the same subnet.
func (h *Host) subnetFree(a netstate.Address) error {
	own, err := netip.ParsePrefix(a.Prefix)
	if err != nil {
		return err
	}
	for _, st := range h.state {
		for _, o := range st {
			other, ok := o.(netstate.Address)
			if p, err := netip.ParsePrefix(other.Prefix); ok && err == nil && other.Link != a.Link && p.Overlaps(own) {
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
		if strings.HasPrefix(k.Parent, "ES") && !exists(k.Parent) {
			return fmt.Errorf("no chain %s to hook %s into", k.Parent, c.Name)
		}
	}
	if c.Family.IsTable() {
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

// checkUnused refuses to remove a chain that an active port needs.
func (h *Host) checkUnused(st netstate.State, have netstate.Object) error {
	if c, ok := have.(netstate.Chain); ok && !ofOtherType(st, c) {
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
	return has("raw", "RAW") && (part == "POST" || strings.HasSuffix(part, "N") || strings.HasSuffix(part, "M"))
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

// Dropped returns the counts that SetDropped set; other chains have dropped no packets.
func (h *Host) Dropped(_ context.Context, _ netstate.Owner, chains []netstate.ID) (map[netstate.ID]uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[netstate.ID]uint64{}
	for _, id := range chains {
		out[id] = h.dropped[id]
	}
	return out, nil
}

// SetDropped sets how many packets a chain has dropped.
func (h *Host) SetDropped(id netstate.ID, n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dropped == nil {
		h.dropped = map[netstate.ID]uint64{}
	}
	h.dropped[id] = n
}
