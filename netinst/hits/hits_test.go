package hits

import (
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

var (
	key     = netinst.AdapterKey{AppUUID: uuid.MustParse("a0000000-0000-4000-8000-000000000001")}
	egress  = netstate.ID{Kind: netstate.KindChain, Name: "ipv4/filter/ES1-1E"}
	ingress = netstate.ID{Kind: netstate.KindChain, Name: "ipv4/filter/ES1-1I"}
	ipv6    = netstate.ID{Kind: netstate.KindChain, Name: "ip6/edgespan/ES1-1E"}
	bucket  = netstate.ID{Kind: netstate.KindChain, Name: "ipv4/filter/ES1-1EB0"}
	start   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

func at(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }

func packets(ns ...uint64) (out []netstate.Counter) {
	for _, n := range ns {
		out = append(out, netstate.Counter{Packets: n, Bytes: 100 * n})
	}
	return out
}

func matched(names ...string) (out []netinst.Hit) {
	for _, n := range names {
		out = append(out, netinst.Hit{Rule: n, Kind: netinst.Matched})
	}
	return out
}

// world is a Network with one adapter, whose chains have the counters in counts.
type world struct {
	*testing.T
	n      Network
	chains []netinst.CountedChain
	counts map[netstate.ID][]netstate.Counter
}

func newWorld(t *testing.T, chains ...netinst.CountedChain) *world {
	w := &world{T: t, chains: chains, counts: map[netstate.ID][]netstate.Counter{}}
	w.applied()
	return w
}

func (w *world) applied() {
	chains := w.chains
	w.n.Applied(func(k netinst.AdapterKey) []netinst.CountedChain {
		if k != key {
			return nil
		}
		return chains
	}, map[netinst.AdapterKey][]netstate.ID{key: {egress}})
}

func (w *world) read(second int) { w.n.Record(w.n.Begin(key, false), w.counts, at(second)) }

func (w *world) expect(want map[Key]Total) {
	w.Helper()
	if got, _ := w.n.Totals(key); !maps.Equal(got, want) {
		w.Errorf("totals %v, want %v", got, want)
	}
}

func web(packets uint64, last time.Time) map[Key]Total {
	return map[Key]Total{{"web", netinst.Sent, false}: {Packets: packets, Bytes: 100 * packets, Last: last}}
}

func sentBy(names ...string) netinst.CountedChain {
	return netinst.CountedChain{ID: egress, Way: netinst.Sent, Hits: matched(names...)}
}

func TestARuleHasTheSumOfItsKernelRules(t *testing.T) {
	limit := netinst.CountedChain{ID: bucket, Way: netinst.Sent, Hits: []netinst.Hit{{},
		{Rule: "slow", Kind: netinst.Exceeded}}}
	w := newWorld(t, sentBy("web", "web", "slow", ""),
		netinst.CountedChain{ID: ingress, Way: netinst.Received, Hits: matched("web")},
		netinst.CountedChain{ID: ipv6, Way: netinst.Sent, Hits: matched("web")}, limit)
	w.counts = map[netstate.ID][]netstate.Counter{egress: packets(0, 0, 0, 0), ingress: packets(0), ipv6: packets(0),
		bucket: packets(0, 0)}
	w.read(1)
	w.expect(map[Key]Total{})
	w.counts = map[netstate.ID][]netstate.Counter{egress: packets(1, 2, 30, 4), ingress: packets(5), ipv6: packets(6),
		bucket: packets(10, 20)}
	w.read(2)
	w.expect(map[Key]Total{
		{"web", netinst.Sent, false}: {Packets: 9, Bytes: 900, Last: at(2)}, {"web", netinst.Received, false}: {Packets: 5, Bytes: 500,
			Last: at(2)},
		{"slow", netinst.Sent, false}: {Packets: 30, Bytes: 3000, Exceeded: 20, Last: at(2)},
		{"", netinst.Sent, false}:     {Packets: 4, Bytes: 400, Last: at(2)},
	})
	w.counts[ingress] = packets(7)
	w.read(3)
	if got, read := w.n.Totals(key); got[Key{"web", netinst.Received, false}].Last != at(3) ||
		got[Key{"web", netinst.Sent, false}].Last != at(2) || read != at(3) {
		t.Errorf("%v, read at %v", got, read)
	}
}

// Totals never fall, whatever happens to the chains.
func TestTotalsSurviveAWrite(t *testing.T) {
	w := newWorld(t, sentBy("web", ""))
	w.counts[egress] = packets(0, 0)
	w.read(1)
	w.counts[egress] = packets(5, 0)
	w.n.Writing()
	w.n.Record(w.n.Begin(key, true), w.counts, at(2)) // the last reading of the old chain
	w.expect(web(5, at(2)))
	w.counts[egress] = packets(0, 0)
	w.n.Written(map[netstate.ID]bool{egress: true})
	w.chains = []netinst.CountedChain{sentBy("new", "web", "")}
	w.applied()
	w.counts[egress] = packets(0, 7, 0) // more than before the write
	w.read(3)
	w.expect(web(12, at(3)))
	w.counts[egress] = packets(0, 2, 0) // others have written it
	w.read(4)
	w.expect(web(14, at(4)))
	w.counts[egress] = packets(9, 9) // or changed it
	w.read(5)
	w.expect(web(14, at(4)))
	w.chains = []netinst.CountedChain{sentBy("")}
	w.applied()
	w.counts[egress] = packets(0)
	w.read(6)
	w.expect(map[Key]Total{})
}

func TestAReadingDuringAWriteIsIgnored(t *testing.T) {
	w := newWorld(t, sentBy("web", ""))
	w.counts[egress] = packets(0, 0)
	w.read(1)
	before := w.n.Begin(key, false)
	w.n.Writing()
	w.counts[egress] = packets(3, 0)
	w.n.Record(before, w.counts, at(2))
	w.expect(map[Key]Total{})
	if r := w.n.Begin(key, false); len(r.Chains) > 0 {
		t.Error("a reading may begin while chains are written")
	}
	during := w.n.Begin(key, true)
	w.n.Written(map[netstate.ID]bool{})
	w.n.Record(during, w.counts, at(3))
	w.expect(map[Key]Total{})
	w.read(4)
	w.expect(web(3, at(4)))
}

// What the kernel counted before the daemon's start counts, at an unknown time.
func TestTheFirstReadingHasNoTime(t *testing.T) {
	w := newWorld(t, sentBy("web", ""))
	w.counts[egress] = packets(5, 0)
	w.read(1)
	w.expect(web(5, time.Time{}))
	w.counts[egress] = packets(6, 0)
	w.read(2)
	w.expect(web(6, at(2)))
}

func TestAnAdapterThatIsGoneHasNoTotals(t *testing.T) {
	w := newWorld(t, sentBy("web", ""))
	if got, read := w.n.Totals(key); len(got) > 0 || !read.IsZero() {
		t.Errorf("%v at %v before the first reading", got, read)
	}
	w.counts[egress] = packets(5, 0)
	w.read(1)
	w.n.Applied(nil, nil)
	if got, _ := w.n.Totals(key); len(got) > 0 {
		t.Errorf("%v", got)
	}
	if r := w.n.Begin(key, true); len(r.Chains)+len(r.IDs()) > 0 {
		t.Errorf("%v", r)
	}
}

// What a rule would deny is counted by itself, with its own times, and from the moment on at which its adapter begins to
// observe.
func TestWhatWouldBeDeniedIsCountedByItself(t *testing.T) {
	w := newWorld(t, sentBy("web", "no", ""))
	w.counts[egress] = packets(0, 0, 0)
	w.read(1)
	w.counts[egress] = packets(1, 2, 3)
	w.read(2)
	observed := func(name string) netinst.Hit { return netinst.Hit{Rule: name, Kind: netinst.Observed} }
	w.n.Writing()
	w.n.Written(map[netstate.ID]bool{egress: true})
	w.chains = []netinst.CountedChain{
		{ID: egress, Way: netinst.Sent, Hits: append(matched("web"), observed("no"), observed(""))},
		{ID: bucket, Way: netinst.Sent, Hits: []netinst.Hit{{}, observed("web")}}}
	w.applied()
	w.counts[egress], w.counts[bucket] = packets(0, 0, 0), packets(0, 0)
	w.read(3)
	w.expect(web(1, at(2)))
	w.counts[egress], w.counts[bucket] = packets(4, 1, 0), packets(1, 3)
	w.read(4)
	w.counts[egress] = packets(5, 1, 0)
	w.read(5)
	w.expect(map[Key]Total{
		{"web", netinst.Sent, false}: {Packets: 6, Bytes: 600, Last: at(5)},
		{"web", netinst.Sent, true}:  {Packets: 3, Bytes: 300, Last: at(4)},
		{"no", netinst.Sent, true}:   {Packets: 1, Bytes: 100, Last: at(4)},
	})
}
