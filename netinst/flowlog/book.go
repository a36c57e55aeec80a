package flowlog

import (
	"net/netip"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/verdict"
)

// Record is what the log says of one flow of one adapter.
type Record struct {
	Network   uuid.UUID
	Adapter   netinst.AdapterKey
	Direction netinst.Direction // Egress: the app began it
	Proto     uint8             // IANA protocol number
	// Local is the app's end, Remote the other one as the app sees it. NAT is the app's end as the remote end sees it,
	// invalid if that is Local.
	Local, Remote, NAT netip.AddrPort
	// Rule is the access rule of the adapter that allows the flow; without one, BuiltIn is the built-in decision.
	// Denied means that the flow is not allowed any more, and its entry was deleted for that; Rule is the adapter's own.
	// Packet means that it is no flow but one denied packet, and GoesOn that the flow has not ended.
	Rule       string
	BuiltIn    verdict.BuiltIn
	Denied     bool
	Packet     bool
	GoesOn     bool
	Out, In    netstate.Traffic // sent by the app, and received
	Start, End time.Time        // Start is zero if unknown
}

// Book finds the adapters of flows. It is safe for concurrent use by readers.
type Book struct {
	world    *verdict.World
	networks int // that have a flow log
	ends     map[netip.Addr][]end
	numbers  map[number]end
}

// number names an adapter in the names of chains.
type number struct{ network, adapter int }

// end is one address of an adapter.
type end struct {
	network uuid.UUID
	adapter netinst.AdapterKey
	owns    func(netstate.Flow) bool
}

// NewBook returns the book of those networks that have a flow log; world has all networks.
func NewBook(world *verdict.World, inputs []netinst.Input) *Book {
	b := &Book{world: world, ends: map[netip.Addr][]end{}, numbers: map[number]end{}}
	for _, in := range inputs {
		if !in.Config.FlowLog {
			continue
		}
		b.networks++
		owns := netinst.Owns(in)
		for _, a := range in.Adapters {
			e := end{in.Config.UUID, a.Config.Key(), owns}
			b.numbers[number{in.Owner.Number, a.Lease.Number}] = e
			for _, addr := range addressesOf(in.Config, a) {
				b.ends[addr] = append(b.ends[addr], e)
			}
		}
	}
	return b
}

// addressesOf returns the addresses of an adapter: those that a switch network's app was observed to use, else its own.
func addressesOf(c netinst.NetworkInstanceConfig, a netinst.Adapter) []netip.Addr {
	if c.Type == netinst.Switch {
		return a.ObservedAddresses
	}
	list := []netip.Addr{a.Lease.IP}
	if six := netinst.AdapterIP6(c, a.Config.Spec, a.Lease); six.IsValid() {
		list = append(list, six)
	}
	return list
}

// Networks is the number of networks that have a flow log.
func (b *Book) Networks() int { return b.networks }

// Records returns what the log says of an ended flow: a record for each adapter that is one of its ends, none for a
// flow of others.
func (b *Book) Records(f netstate.EndedFlow) []Record {
	var out []Record
	for _, e := range b.ends[f.Src.Addr()] {
		if !e.owns(f.Flow) {
			continue
		}
		r := Record{Network: e.network, Adapter: e.adapter, Direction: netinst.Egress, Proto: f.Proto,
			Local: f.Src, Remote: f.Dst, Out: f.Out, In: f.In, Start: f.Start, End: f.End}
		if f.ReplyDst != f.Src {
			r.NAT = f.ReplyDst
		}
		out = append(out, b.decided(r, f.Flow))
	}
	for _, e := range b.ends[f.ReplySrc.Addr()] {
		if !e.owns(f.Flow) {
			continue
		}
		r := Record{Network: e.network, Adapter: e.adapter, Direction: netinst.Ingress, Proto: f.Proto,
			Local: f.ReplySrc, Remote: f.Src, Out: f.In, In: f.Out, Start: f.Start, End: f.End}
		if f.Dst != f.ReplySrc {
			r.NAT = f.Dst
		}
		out = append(out, b.decided(r, f.Flow))
	}
	return out
}

// Denied returns what the log says of a denied packet; false if it is of no network with a flow log.
func (b *Book) Denied(p netstate.DeniedPacket) (Record, bool) {
	network, adapter, d, ok := netinst.DeniedBy(p.Chain)
	e, known := b.numbers[number{network, adapter}]
	if !ok || !known {
		return Record{}, false
	}
	r := Record{Network: e.network, Adapter: e.adapter, Direction: d, Proto: p.Proto, Local: p.Src, Remote: p.Dst,
		Packet: true, Out: netstate.Traffic{Packets: 1, Bytes: p.Bytes}, End: p.At}
	if d == netinst.Ingress {
		r.Local, r.Remote, r.Out, r.In = p.Dst, p.Src, r.In, r.Out
	}
	r = b.decided(r, p.Flow)
	if !r.Denied { // the answer depends on what the book does not know, such as the addresses of a host
		r.Rule, r.BuiltIn, r.Denied = "", "", true
	}
	return r, true
}

// decided enters the rule by which the flow is allowed or denied now.
func (b *Book) decided(r Record, f netstate.Flow) Record {
	p := b.world.FirstPacket(r.Adapter, f.Proto, f.Src, f.Dst, r.Direction == netinst.Ingress)
	a := b.world.Evaluate(p)
	r.Denied = !a.Allowed()
	own := func(c verdict.Check) bool { return c.Adapter == r.Adapter && c.Direction == r.Direction }
	for _, c := range a.Checks {
		if own(c) {
			r.Rule, r.BuiltIn = c.Rule, c.BuiltIn
		}
	}
	if last := a.Decided(); r.Denied && !own(last) { // by the other end's rules, or behind the rules
		r.Rule, r.BuiltIn = "", last.BuiltIn
	}
	return r
}
