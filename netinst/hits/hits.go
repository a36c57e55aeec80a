package hits

import (
	"maps"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// Total is what an access rule, or the drop behind the last one, has decided. Last is the time of the last reading in
// which it had grown, zero if that is unknown.
type Total struct {
	Packets, Bytes uint64
	Exceeded       uint64 // those of Packets above the rate of a limit
	Last           time.Time
}

// Add returns the sum of two totals.
func (t Total) Add(o Total) Total {
	t.Packets, t.Bytes, t.Exceeded = t.Packets+o.Packets, t.Bytes+o.Bytes, t.Exceeded+o.Exceeded
	if o.Last.After(t.Last) {
		t.Last = o.Last
	}
	return t
}

// Key names a rule of an adapter for packets of one way; Rule is "" for the drop behind the last. Observed are the
// packets that it would deny and that passed, since the adapter has observe: those it has denied before count no more.
type Key struct {
	Rule     string
	Way      netinst.Way
	Observed bool
}

func keyOf(h netinst.Hit, w netinst.Way) Key { return Key{h.Rule, w, h.Kind == netinst.Observed} }

// Network has the totals of the adapters of one network. Its zero value has none.
type Network struct {
	counted  func(netinst.AdapterKey) []netinst.CountedChain
	adapters map[netinst.AdapterKey]*adapter
	turn     uint64 // changes with each write of chains
	writing  bool
}

type adapter struct {
	totals map[Key]Total
	base   map[netstate.ID][]netstate.Counter // as last read
	read   time.Time
}

// Reading is one reading of an adapter's counters: the caller reads Chains from the kernel and hands them to Record.
type Reading struct {
	Adapter netinst.AdapterKey
	Chains  []netinst.CountedChain
	turn    uint64
}

// IDs are the chains to read.
func (r Reading) IDs() []netstate.ID {
	out := make([]netstate.ID, len(r.Chains))
	for i, c := range r.Chains {
		out[i] = c.ID
	}
	return out
}

// Begin begins a reading; only one at a time may be under way. Its Chains are empty if there is nothing to read, and
// while chains are written, unless by the writer.
func (n *Network) Begin(k netinst.AdapterKey, writer bool) Reading {
	if n.counted == nil || n.writing && !writer {
		return Reading{Adapter: k}
	}
	return Reading{k, n.counted(k), n.turn}
}

// Record adds what a reading found. A reading during which chains were written is ignored, and so is a chain that has
// not the rules that were written: others have changed it. A counter that fell was written anew.
//
// The kernel's count when an adapter is first read is from before the daemon's start: it counts, and its time is
// unknown.
func (n *Network) Record(r Reading, counts map[netstate.ID][]netstate.Counter, at time.Time) {
	if r.turn != n.turn || len(r.Chains) == 0 {
		return
	}
	a := n.adapter(r.Adapter)
	a.read = at
	known := map[Key]bool{}
	for _, c := range r.Chains {
		for _, h := range c.Hits {
			known[keyOf(h, c.Way)] = known[keyOf(h, c.Way)] || h.Kind != netinst.NoHit
		}
		if found := counts[c.ID]; len(found) == len(c.Hits) {
			a.add(c, found, at)
		}
	}
	for k := range a.totals {
		if !known[k] { // the rule is gone
			delete(a.totals, k)
		}
	}
}

func (n *Network) adapter(k netinst.AdapterKey) *adapter {
	if n.adapters == nil {
		n.adapters = map[netinst.AdapterKey]*adapter{}
	}
	a := n.adapters[k]
	if a == nil {
		a = &adapter{totals: map[Key]Total{}, base: map[netstate.ID][]netstate.Counter{}}
		n.adapters[k] = a
	}
	return a
}

func (a *adapter) add(c netinst.CountedChain, found []netstate.Counter, at time.Time) {
	base, seen := a.base[c.ID]
	a.base[c.ID] = nil
	for i, now := range found {
		if now != (netstate.Counter{}) {
			a.base[c.ID] = found
		}
		var was netstate.Counter
		if i < len(base) && base[i].Packets <= now.Packets && base[i].Bytes <= now.Bytes {
			was = base[i]
		}
		more := Total{Packets: now.Packets - was.Packets, Bytes: now.Bytes - was.Bytes}
		if more.Packets == 0 || c.Hits[i].Kind == netinst.NoHit {
			continue
		}
		if c.Hits[i].Kind == netinst.Exceeded {
			more = Total{Exceeded: more.Packets}
		}
		if seen {
			more.Last = at
		}
		k := keyOf(c.Hits[i], c.Way)
		a.totals[k] = a.totals[k].Add(more)
	}
}

// Writing reports that chains of the network are about to be written: readings under way are ignored.
func (n *Network) Writing() {
	n.writing = true
	n.turn++
}

// Written reports the end of that, and the chains that were written: their counters are 0.
func (n *Network) Written(chains map[netstate.ID]bool) {
	n.writing = false
	n.turn++
	for _, a := range n.adapters {
		for id := range a.base {
			if chains[id] {
				a.base[id] = nil
			}
		}
	}
}

// Applied says which rules the chains have now, and which adapters there are.
func (n *Network) Applied(counted func(netinst.AdapterKey) []netinst.CountedChain,
	adapters map[netinst.AdapterKey][]netstate.ID) {
	n.counted = counted
	maps.DeleteFunc(n.adapters, func(k netinst.AdapterKey, _ *adapter) bool { return adapters[k] == nil })
}

// Totals returns the totals of an adapter that are not 0, and when its counters were read; the zero time if never.
func (n *Network) Totals(k netinst.AdapterKey) (totals map[Key]Total, read time.Time) {
	a := n.adapters[k]
	if a == nil {
		return nil, time.Time{}
	}
	return maps.Clone(a.totals), a.read
}
