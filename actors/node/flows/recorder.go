// Package flows records the flows of apps for the flow log: it takes ended connections and denied packets from the
// kernel, asks the pure core (netinst/flowlog) what to say of them, writes lines, sends them to
// a collector and a socket, and lets readers follow them. It counts what gets lost, and reports once that nothing can
// be written or sent.
//
// It never decides whose flows are recorded (actors/node does, by the config), and nothing waits for it: it loses
// records rather than hold up a network, a reader or the kernel.
//
// Read recorder.go first, then export.go and read.go.
package flows

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/flowlog"
	"edgespan/netinst/netstate"
)

// waiting is how many records wait to be written: about a second of 10,000 flows, and 2 MiB.
const waiting = 8192

// Store keeps the lines of the flow log.
type Store interface {
	// Write appends whole lines; with an error none of them.
	Write(lines []byte) error
	// Stored returns a function that emits the lines that are there now, the oldest first. It must be called once.
	Stored() (read func(ctx context.Context, emit func(line []byte) error) error, err error)
}

// Options are what a Recorder works with.
type Options struct {
	Store Store
	// Ended and Denied report ended connections and denied packets until ctx ends. They may use the slices again.
	Ended, Denied func(ctx context.Context, emit func(netstate.FlowEvents)) error
	// List reports the flows that go on, until ctx ends.
	List func(ctx context.Context, each func(netstate.EndedFlow)) error
	// Name returns the display name of an app.
	Name func(app uuid.UUID) string
	// RemoteName returns the name that an adapter's app knows a remote end by, "" for none; nil for no names.
	RemoteName func(flowlog.Record) string
	// Stored is called with the error of the first write of several that fail, and with nil once one succeeds again.
	Stored func(error)
	Dial   Dial
	// Exported is called with the error of the first failure of several to export to a destination, and with nil once it
	// works again.
	Exported func(name, address string, err error)
	// Deaf is called with the error of Ended or Denied, once for the same one. They are called again after a while.
	Deaf func(error)
}

// Recorder records flows. Its goroutines share it with readers of the log.
type Recorder struct {
	o    Options
	book atomic.Pointer[flowlog.Book]
	more chan struct{} // has room for one: records wait
	room chan struct{} // has room for one: some were taken

	exports  atomic.Pointer[exports]
	exported map[string]*exportCounts // of the destinations that there were; Export's alone
	baseline chan struct{}            // has room for one: begin is to be called for flows that go on
	counts   counts

	running sync.Mutex

	mu     sync.Mutex
	queues *flowlog.Queues[flowlog.Record]

	// out guards what readers see: a line is stored and followed at once.
	out     sync.Mutex
	readers map[*reader]struct{}
	failing bool // nothing can be written
	buf     []byte
	ends    []int // offsets in buf, of lines

	ids map[netinst.AdapterKey]ids // of write alone
}

// ids are the texts of an adapter's record. Making them is a tenth of what a line costs.
type ids struct {
	of               uuid.UUID
	network, adapter string
}

// maxIDs bounds the adapters whose texts are kept, also of those that are gone.
const maxIDs = 4096

func (f *Recorder) idsOf(r flowlog.Record) ids {
	x, known := f.ids[r.Adapter]
	if !known || x.of != r.Network {
		if len(f.ids) >= maxIDs {
			clear(f.ids)
		}
		x = ids{r.Network, "ni/" + r.Network.String(), "adapter/" + strings.Replace(r.Adapter.String(), "#", "/", 1)}
		f.ids[r.Adapter] = x
	}
	return x
}

// counts are those of lines since the start of the process.
type counts struct {
	sync.Mutex
	recorded map[string]uint64 // by kind
	lost     map[string]uint64 // by reason
}

// The reasons why lines are lost.
const (
	lostByKernel = "kernel" // events that were not read in time
	lostByQueue  = "queue"  // the network's share of the queue was full
	lostByDisk   = "disk"   // they could not be written
)

func (c *counts) lose(reason string, n uint64) {
	if n > 0 {
		c.Lock()
		defer c.Unlock()
		c.lost[reason] += n
	}
}

// countWritten counts lines that are written, or that are not.
func (c *counts) countWritten(list []nodeapi.FlowRecord, err error) {
	c.Lock()
	defer c.Unlock()
	for i := range list {
		switch {
		case list[i].Kind == nodeapi.FlowsLost: // counted already
		case err != nil:
			c.lost[lostByDisk]++
		default:
			c.recorded[list[i].Kind]++
		}
	}
}

// New returns a Recorder that records nothing yet.
func New(o Options) *Recorder {
	f := &Recorder{o: o, more: make(chan struct{}, 1), room: make(chan struct{}, 1), baseline: make(chan struct{}, 1),
		queues: flowlog.NewQueues[flowlog.Record](waiting), readers: map[*reader]struct{}{},
		exported: map[string]*exportCounts{}, ids: map[netinst.AdapterKey]ids{},
		counts: counts{recorded: map[string]uint64{nodeapi.FlowEnded: 0, nodeapi.FlowGoesOn: 0, nodeapi.FlowDenied: 0},
			lost: map[string]uint64{lostByKernel: 0, lostByQueue: 0, lostByDisk: 0}}}
	f.exports.Store(&exports{})
	return f
}

// Use says whose flows are recorded from now on; nil for none.
func (f *Recorder) Use(b *flowlog.Book) { f.book.Store(b) }

// Run listens to the kernel and writes records until ctx ends. Without one of the two kinds of events, the other is
// recorded.
func (f *Recorder) Run(ctx context.Context) {
	f.running.Lock() // the one before is ending
	defer f.running.Unlock()
	var all sync.WaitGroup
	all.Go(func() { f.write(ctx) })
	all.Go(func() { f.tellOfLongFlows(ctx) })
	all.Go(func() { f.listen(ctx, f.o.Denied) })
	f.listen(ctx, f.o.Ended)
	all.Wait()
}

// listenAgain is the pause after listening has failed.
const listenAgain = 10 * time.Second

func (f *Recorder) listen(ctx context.Context, to func(context.Context, func(netstate.FlowEvents)) error) {
	said := ""
	for {
		err := to(ctx, f.take)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("listen to the kernel: it ended by itself")
		}
		if err.Error() != said {
			said = err.Error()
			f.o.Deaf(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(listenAgain):
		}
	}
}

// take queues the records of ended flows and denied packets.
func (f *Recorder) take(e netstate.FlowEvents) {
	book := f.book.Load()
	if book == nil {
		return
	}
	full := uint64(0)
	f.mu.Lock()
	f.queues.Lose(e.Lost)
	put := func(r flowlog.Record) {
		if !f.queues.Put(r.Network, r, book.Networks()) {
			full++
		}
	}
	for _, flow := range e.Ended {
		for _, r := range book.Records(flow) {
			put(r)
		}
	}
	for _, p := range e.Denied {
		if r, ok := book.Denied(p); ok {
			put(r)
		}
	}
	f.mu.Unlock()
	f.counts.lose(lostByKernel, e.Lost)
	f.counts.lose(lostByQueue, full)
	signal(f.more)
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// write writes what is queued until ctx ends.
func (f *Recorder) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.more:
		}
		for ctx.Err() == nil {
			f.mu.Lock()
			list, lost := f.queues.Take()
			f.mu.Unlock()
			signal(f.room)
			if len(list) == 0 && lost == 0 {
				break
			}
			text := f.lines(list, lost)
			stored := f.put(text)
			f.send(text, list, f.buf, f.ends)
			if !stored {
				break // until the next flow ends
			}
		}
	}
}

// lines are lines of the log.
func (f *Recorder) lines(list []flowlog.Record, lost uint64) []nodeapi.FlowRecord {
	now := time.Now()
	out := make([]nodeapi.FlowRecord, 0, len(list)+1)
	if lost > 0 {
		out = append(out, nodeapi.FlowRecord{Time: now, Kind: nodeapi.FlowsLost, Lost: lost})
	}
	for _, r := range list {
		kind := nodeapi.FlowEnded
		switch {
		case r.Packet:
			kind = nodeapi.FlowDenied
		case r.GoesOn:
			kind = nodeapi.FlowGoesOn
		}
		id := f.idsOf(r)
		remote := ""
		if f.o.RemoteName != nil {
			remote = f.o.RemoteName(r)
		}
		out = append(out, nodeapi.FlowRecord{Time: now, Kind: kind, Network: id.network, Adapter: id.adapter,
			Name: f.o.Name(r.Adapter.AppUUID), RemoteName: remote,
			Direction: string(r.Direction), Protocol: nodeapi.ProtocolName(r.Proto),
			Local: endText(r.Local), Remote: endText(r.Remote), NAT: endText(r.NAT),
			Rule: r.Rule, BuiltIn: string(r.BuiltIn), Denied: r.Denied, PacketsOut: r.Out.Packets, BytesOut: r.Out.Bytes,
			PacketsIn: r.In.Packets, BytesIn: r.In.Bytes, Start: r.Start, End: r.End})
	}
	return out
}

// endText is an end of a flow: its address, and its port if the protocol has any.
func endText(a netip.AddrPort) string {
	switch {
	case !a.IsValid():
		return ""
	case a.Port() == 0:
		return a.Addr().String()
	}
	return a.String()
}

// put stores lines and passes them to those who follow. What can't be stored is counted as lost, and put returns false.
func (f *Recorder) put(list []nodeapi.FlowRecord) bool {
	f.out.Lock()
	defer f.out.Unlock()
	f.buf, f.ends = f.buf[:0], f.ends[:0]
	missing := uint64(0)
	for i := range list {
		f.buf = list[i].AppendLine(f.buf)
		f.ends = append(f.ends, len(f.buf))
		missing += max(list[i].Lost, 1)
	}
	err := f.o.Store.Write(f.buf)
	f.counts.countWritten(list, err)
	if failing := err != nil; failing != f.failing {
		f.failing = failing
		f.o.Stored(err)
	}
	if err != nil {
		f.mu.Lock()
		f.queues.Lose(missing)
		f.mu.Unlock()
	}
	for r := range f.readers {
		r.pass(list)
	}
	return err == nil
}
