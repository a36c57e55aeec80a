package flows

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"edgespan/actors/node/metrics"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst/flowlog"
	"edgespan/netinst/flowlog/ipfix"
)

// remembered is how many flows that go on are exported between their beginning and their end: 3 MiB.
const remembered = 16384

// The destinations of an export.
const (
	ToCollector = "collector"
	ToSocket    = "socket"
)

// Export says where the flow log is sent; the zero value is nowhere.
type Export struct {
	Collector string // "udp://ADDRESS:PORT" or "tcp://ADDRESS:PORT", as IPFIX
	Domain    uint32
	Templates time.Duration // between two transmissions of the templates over UDP
	Socket    string        // path of a Unix stream socket, as JSON lines
}

// Conn is a connection to a destination.
type Conn interface {
	// Write sends octets within a few seconds, and returns how many were sent before an error.
	Write([]byte) (int, error)
	// Check returns an error if the other end is known to have gone.
	Check() error
	// Room is the largest message that the path takes.
	Room() int
	Close() error
}

// Dial connects to a destination: by udp or tcp to ADDRESS:PORT, by unix to a path.
type Dial func(ctx context.Context, protocol, address string) (Conn, error)

// exports are the current destinations, nil where there is none.
type exports struct {
	to                Export
	collector, socket *destination

	mu     sync.Mutex
	deltas *flowlog.Deltas // of the collector
}

// Export sends the log to other destinations from now on, until ctx ends. What still waits for one that changes is lost
// and counted.
func (f *Recorder) Export(ctx context.Context, to Export) {
	old := f.exports.Load()
	if old.to == to {
		return
	}
	x := &exports{to: to, collector: old.collector, socket: old.socket, deltas: old.deltas}
	if to.Collector != old.to.Collector || to.Domain != old.to.Domain || to.Templates != old.to.Templates {
		x.collector = nil
		protocol, address, ok := strings.Cut(to.Collector, "://")
		if ok {
			templates := to.Templates
			if protocol != "udp" {
				templates = 0
			}
			x.collector = f.newDestination(ToCollector, protocol, address,
				func() form { return &messages{Session: ipfix.Session{Domain: to.Domain}, every: templates} })
		}
	}
	if to.Socket != old.to.Socket {
		x.socket = nil
		if to.Socket != "" {
			x.socket = f.newDestination(ToSocket, "unix", to.Socket, func() form { return jsonLines{} })
			x.socket.lost = lostLine
		}
	}
	if x.collector != nil && x.deltas == nil {
		x.deltas = flowlog.NewDeltas(remembered)
		signal(f.baseline)
	} else if x.collector == nil {
		x.deltas = nil
	}
	f.exports.Store(x)
	for _, d := range []struct{ was, is *destination }{{old.collector, x.collector}, {old.socket, x.socket}} {
		if d.was == d.is {
			continue
		}
		d.was.end()
		d.is.start(ctx)
	}
}

func (f *Recorder) newDestination(name, protocol, address string, newForm func() form) *destination {
	counts := f.exported[name]
	if counts == nil {
		counts = &exportCounts{}
		f.exported[name] = counts
	}
	return &destination{newForm: newForm, counts: counts, more: make(chan struct{}, 1),
		dial:   func(ctx context.Context) (Conn, error) { return f.o.Dial(ctx, protocol, address) },
		report: func(err error) { f.o.Exported(name, address, err) },
		queues: flowlog.NewQueues[[]byte](exportWaiting)}
}

// send queues lines, and the records of which the last ones tell, for the destinations. buf has the lines, which end at
// the offsets.
func (f *Recorder) send(text []nodeapi.FlowRecord, list []flowlog.Record, buf []byte, ends []int) {
	x, networks := f.exports.Load(), 1
	if book := f.book.Load(); book != nil {
		networks = book.Networks()
	}
	about := text[len(text)-len(list):]
	if x.socket != nil {
		all, at := append([]byte(nil), buf...), 0
		x.socket.put(len(text), func(i int) (uuid.UUID, []byte) {
			line := all[at:ends[i]:ends[i]]
			at = ends[i]
			if i < len(text)-len(list) {
				return uuid.Nil, line
			}
			return list[i-len(text)+len(list)].Network, line
		}, networks)
	}
	if x.collector != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		all := make([]byte, 0, averageRecord*len(list))
		x.collector.put(len(list), func(i int) (uuid.UUID, []byte) {
			r, ok := x.deltas.Next(list[i], networks)
			if !ok {
				return uuid.Nil, nil
			}
			at := len(all)
			all = ipfix.Append(all, r, about[i].Name)
			return r.Network, all[at:len(all):len(all)]
		}, networks)
	}
}

// lostLine is the line about so many that are missing.
func lostLine(n uint64) []byte {
	line := nodeapi.FlowRecord{Time: time.Now(), Kind: nodeapi.FlowsLost, Lost: n}
	return line.AppendLine(nil)
}

// averageRecord is about how many octets a record of IPFIX has.
const averageRecord = 192

// begin remembers a flow that has gone on for long as exported: the daemon before this one has done it, or the export
// was off.
func (f *Recorder) begin(r flowlog.Record, networks int) {
	x := f.exports.Load()
	if x.deltas == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deltas.Begin(r, networks)
}

// forget forgets flows whose end was missed.
func (f *Recorder) forget(before time.Time) {
	x := f.exports.Load()
	if x.deltas == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deltas.Forget(before)
}

// Counts returns what was counted since the start of the process.
func (f *Recorder) Counts() metrics.FlowLog {
	f.counts.Lock()
	out := metrics.FlowLog{Recorded: maps.Clone(f.counts.recorded), Lost: maps.Clone(f.counts.lost),
		Exports: map[string]metrics.FlowExport{}}
	f.counts.Unlock()
	x := f.exports.Load()
	for name, d := range map[string]*destination{ToCollector: x.collector, ToSocket: x.socket} {
		if d != nil {
			out.Exports[name] = d.counts.get()
		}
	}
	return out
}
