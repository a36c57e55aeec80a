package census

import (
	"slices"
	"sync/atomic"
	"time"

	"edgespan/pubsub/shellproto"
)

// traces are the readers of what a change does on its way.
type traces struct{ readers atomic.Pointer[[]*steps] }

// steps is one reader.
type steps struct {
	Tap
	network string // "" for all
	emit    func(shellproto.TraceItem)
}

// Trace shows the steps of changes to emit, which must not block, until stop is called: those that concern one network,
// and those that concern none, or all steps if network is "".
func (s *Census) Trace(network string, emit func(shellproto.TraceItem)) (dropped func() uint64, stop func()) {
	r := &steps{Tap: Tap{rate: newRate(tapRate, tapBurst)}, network: network, emit: emit}
	s.changeTraces(func(all []*steps) []*steps { return append(all, r) })
	return func() uint64 { return r.dropped.Swap(0) }, func() {
		s.changeTraces(func(all []*steps) []*steps {
			return slices.DeleteFunc(all, func(o *steps) bool { return o == r })
		})
	}
}

func (s *Census) changeTraces(change func([]*steps) []*steps) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*steps
	if now := s.traces.readers.Load(); now != nil {
		all = slices.Clone(*now)
	}
	if all = change(all); len(all) == 0 {
		s.traces.readers.Store(nil)
		return
	}
	for _, r := range all {
		r.rate.set(tapRate/float64(len(all)), max(1, tapBurst/float64(len(all))))
	}
	s.traces.readers.Store(&all)
}

// IsTraced reports whether anybody reads steps: otherwise none need be described.
func (s *Census) IsTraced() bool { return s.traces.readers.Load() != nil }

// Step shows a step to readers.
func (s *Census) Step(i shellproto.TraceItem) {
	all := s.traces.readers.Load()
	if all == nil {
		return
	}
	i.At = time.Now()
	i.What, i.Error = s.Masked(i.What), s.Masked(i.Error)
	for _, r := range *all {
		if (r.network == "" || i.Network == "" || i.Network == r.network) && r.admit() {
			r.emit(i)
		}
	}
}
