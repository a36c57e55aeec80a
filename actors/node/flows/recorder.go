// Package flows records the flows of apps for the flow log: it takes ended connections and denied packets from the
// kernel, asks the pure core (netinst/flowlog) what to say of them, writes lines, and lets readers follow them. It
// counts what gets lost, and reports once that nothing can be written.
//
// It never decides whose flows are recorded (actors/node does, by the config), and nothing waits for it: it loses
// records rather than hold up a network, a reader or the kernel.
//
// Read recorder.go first, then read.go.
package flows

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"edgespan/config/httpapi/nodeapi"
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
	// Stored is called with the error of the first write of several that fail, and with nil once one succeeds again.
	Stored func(error)
	// Deaf is called with the error of Ended or Denied, once for the same one. They are called again after a while.
	Deaf func(error)
}

// Recorder records flows. Its goroutines share it with readers of the log.
type Recorder struct {
	o    Options
	book atomic.Pointer[flowlog.Book]
	more chan struct{} // has room for one: records wait
	room chan struct{} // has room for one: some were taken

	running sync.Mutex

	mu     sync.Mutex
	queues *flowlog.Queues[flowlog.Record]

	// out guards what readers see: a line is stored and followed at once.
	out     sync.Mutex
	readers map[*reader]struct{}
	failing bool // nothing can be written
	buf     bytes.Buffer
}

// New returns a Recorder that records nothing yet.
func New(o Options) *Recorder {
	return &Recorder{o: o, more: make(chan struct{}, 1), room: make(chan struct{}, 1),
		queues: flowlog.NewQueues[flowlog.Record](waiting), readers: map[*reader]struct{}{}}
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
	f.mu.Lock()
	f.queues.Lose(e.Lost)
	for _, flow := range e.Ended {
		for _, r := range book.Records(flow) {
			f.queues.Put(r.Network, r, book.Networks())
		}
	}
	for _, p := range e.Denied {
		if r, ok := book.Denied(p); ok {
			f.queues.Put(r.Network, r, book.Networks())
		}
	}
	f.mu.Unlock()
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
			if !f.put(f.lines(list, lost)) {
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
		out = append(out, nodeapi.FlowRecord{Time: now, Kind: kind, Network: "ni/" + r.Network.String(),
			Adapter: "adapter/" + strings.Replace(r.Adapter.String(), "#", "/", 1), Name: f.o.Name(r.Adapter.AppUUID),
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
	f.buf.Reset()
	encode := json.NewEncoder(&f.buf)
	missing := uint64(0)
	for i := range list {
		if err := encode.Encode(&list[i]); err != nil {
			panic(err) // a struct of texts, times and numbers
		}
		missing += max(list[i].Lost, 1)
	}
	err := f.o.Store.Write(f.buf.Bytes())
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
