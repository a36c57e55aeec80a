package controller

import (
	"sync/atomic"
	"testing"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/history"
)

// wallClock is a replica's wall clock, which the test can set.
type wallClock struct{ off atomic.Int64 }

func (c *wallClock) now() time.Time { return time.Now().Add(time.Duration(c.off.Load())) }

func (c *wallClock) jump(d time.Duration) { c.off.Add(int64(d)) }

// The clock is set forward or back while a push to a node is due. The push comes after the interval, not hours later,
// and what is written then has the new clock's time.
func TestAClockIsSet(t *testing.T) {
	for _, jump := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			onRig(t, func(r *rig) {
				clock := &wallClock{}
				r.change = func(o *Options) { o.Now = clock.now }
				c := r.start("a")
				n := r.node(c, "n0")
				r.pass(time.Minute)
				r.behave("n0", silent)
				r.network(c, `{"envParams":{"B":"one"}}`)
				r.pass(time.Second)
				before, _ := n.got()
				clock.jump(jump)
				r.pass(2*r.replicas["a"].d.settings().Interval + 2*r.replicas["a"].d.settings().Confirm)
				if again, _ := n.got(); again <= before || again > before+3 {
					t.Errorf("%d pushes, %d before the clock was set", again, before)
				}
				r.behave("n0", speaks)
				r.network(c, `{"envParams":{"B":"two"}}`)
				r.pass(5 * time.Minute)
				r.wants(c, "n0", "InSync")
				state, err := history.Head(storage.NewReader(r.Context(), r.store))
				if err != nil {
					t.Fatal(err)
				}
				log, err := state.Log(1)
				if err != nil || time.Since(log[0].Time)+jump < 5*time.Minute || time.Since(log[0].Time)+jump > 6*time.Minute {
					t.Errorf("written at %v, now is %v, %v", log, time.Now(), err)
				}
			})
		})
	}
}
