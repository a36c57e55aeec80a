package census

import (
	"time"

	"edgespan/pubsub/shellproto"
)

// Trace shows the steps of changes to emit, which must not block, until stop is called: those that concern one network,
// and those that concern none, or all steps if network is "".
func (s *Census) Trace(network string, emit func(shellproto.TraceItem)) (dropped func() uint64, stop func()) {
	return s.traces.add(network, emit)
}

// IsTraced reports whether a shell reads steps: otherwise none need be described.
func (s *Census) IsTraced() bool { return s.traces.Load() != nil }

// Step shows a step to readers.
func (s *Census) Step(i shellproto.TraceItem) {
	all := s.traces.Load()
	if all == nil {
		return
	}
	i.At = time.Now()
	masked := false
	for _, r := range *all {
		if r.of != "" && i.Network != "" && i.Network != r.of || !r.admit() {
			continue
		}
		if !masked { // which costs more than the rest
			i.What, i.Error, masked = s.Masked(i.What), s.Masked(i.Error), true
		}
		r.emit(i)
	}
}
