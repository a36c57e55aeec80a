package actors

import (
	"context"
	"time"
)

// Commands that run at once. A hundred networks that start together would
// otherwise run hundreds of commands on a small box, each slow enough to miss its
// own deadline.
const (
	gateSlots = 3
	// gatePatience is how long a command keeps its slot: one that hangs must not
	// hold up other networks (docs/architecture.md, law 7).
	gatePatience = time.Second
)

// gate lets in so many at once. Waiting in front of it costs nobody's deadline.
type gate chan struct{}

func newGate() gate { return make(gate, gateSlots) }

// enter waits for a slot. The slot is free again when leave is called, or after
// gatePatience.
func (g gate) enter(ctx context.Context) (leave func()) {
	select {
	case g <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	t := time.AfterFunc(gatePatience, func() { <-g })
	return func() {
		if t.Stop() {
			<-g
		}
	}
}
