package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheGateIsNotHeldByWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		for range gateSlots { // nobody of these leaves
			g.enter(t.Context())
		}
		start := time.Now()
		leave := g.enter(t.Context())
		if d := time.Since(start); d != gatePatience {
			t.Errorf("the next one waited %v, want %v", d, gatePatience)
		}
		leave()
		start = time.Now()
		g.enter(t.Context())()
		if d := time.Since(start); d != 0 {
			t.Errorf("with a free slot it waited %v", d)
		}
		for range gateSlots {
			g.enter(t.Context())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		g.enter(ctx)() // the node stops: nobody is kept
		time.Sleep(time.Second)
	})
}
