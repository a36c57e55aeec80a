package flowlog

import (
	"net/netip"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// Deltas turns the counts of records, which are those since a flow began, into those since its last record: a collector
// adds them up. It remembers flows that go on, of each network as many as its share of a limit. It is not safe for
// concurrent use.
type Deltas struct {
	limit int
	flows map[flowKey]counted
	of    map[uuid.UUID]int // flows, by network
}

// flowKey names a flow of an adapter. It has no pointers, nor has counted: garbage collection does not look at them.
type flowKey struct {
	adapter       netinst.AdapterKey
	proto         uint8
	local, remote [16]byte
	ports         [2]uint16
	start         int64
}

// counted is what a flow's records have had.
type counted struct {
	network uuid.UUID
	out, in netstate.Traffic
	at      int64 // nanoseconds since 1970
}

// NewDeltas returns Deltas that remember so many flows together.
func NewDeltas(limit int) *Deltas {
	return &Deltas{limit: limit, flows: map[flowKey]counted{}, of: map[uuid.UUID]int{}}
}

func keyOf(r Record) flowKey {
	k := flowKey{adapter: r.Adapter, proto: r.Proto, local: as16(r.Local.Addr()), remote: as16(r.Remote.Addr()),
		ports: [2]uint16{r.Local.Port(), r.Remote.Port()}}
	if !r.Start.IsZero() {
		k.start = r.Start.UnixNano()
	}
	return k
}

func as16(a netip.Addr) [16]byte {
	if !a.IsValid() {
		return [16]byte{}
	}
	return a.As16()
}

// Next returns a record of one of so many networks with the counts since the flow's last record, and with that one's
// time as its begin. It returns false for a flow that goes on and can't be remembered: the record of its end has it
// all.
func (d *Deltas) Next(r Record, networks int) (Record, bool) {
	if r.Packet {
		return r, true
	}
	if !r.GoesOn && len(d.flows) == 0 {
		return r, true
	}
	k := keyOf(r)
	last, known := d.flows[k]
	switch {
	case r.GoesOn && !d.remember(k, r, networks):
		return r, false
	case !r.GoesOn && known:
		d.forget(k, last)
	}
	// Smaller counts are those of another flow, whose begin the kernel does not know.
	if known && since(last.out, r.Out) && since(last.in, r.In) {
		r.Out, r.In, r.Start = less(r.Out, last.out), less(r.In, last.in), time.Unix(0, last.at)
	}
	return r, true
}

// Begin remembers a flow that goes on as if it had had a record.
func (d *Deltas) Begin(r Record, networks int) { d.remember(keyOf(r), r, networks) }

func (d *Deltas) remember(k flowKey, r Record, networks int) bool {
	if _, known := d.flows[k]; !known {
		if d.of[r.Network] >= max(minShare, d.limit/max(1, networks)) {
			return false
		}
		d.of[r.Network]++
	}
	d.flows[k] = counted{r.Network, r.Out, r.In, r.End.UnixNano()}
	return true
}

func (d *Deltas) forget(k flowKey, c counted) {
	delete(d.flows, k)
	if d.of[c.network]--; d.of[c.network] == 0 {
		delete(d.of, c.network)
	}
}

// Forget forgets flows without a record since a time: their ends were missed.
func (d *Deltas) Forget(before time.Time) {
	for k, c := range d.flows {
		if c.at < before.UnixNano() {
			d.forget(k, c)
		}
	}
}

func since(last, now netstate.Traffic) bool {
	return now.Packets >= last.Packets && now.Bytes >= last.Bytes
}

func less(now, last netstate.Traffic) netstate.Traffic {
	return netstate.Traffic{Packets: now.Packets - last.Packets, Bytes: now.Bytes - last.Bytes}
}
