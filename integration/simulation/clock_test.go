package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"edgespan/config/httpapi/nodeapi"
)

// wallClock is the wall clock of a machine, which jumps. As on a machine, durations do not: each reading has that of the
// monotonic clock beside it.
type wallClock struct {
	mu     sync.Mutex
	behind time.Duration // of the bubble's clock, in whole seconds
}

func (c *wallClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return shifted(time.Now(), -c.behind)
}

// epoch is when the clock of a bubble begins, which has no monotonic one.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// shifted returns a time whose wall clock is another one, and whose reading of the monotonic clock is that of the bubble.
// Package time can't make such a value: pubsub/tape explains the layout.
func shifted(t time.Time, by time.Duration) time.Time {
	wall := t.Add(by)
	raw := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&wall))
	since1885 := wall.Unix() - time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	raw.wall = 1<<63 | uint64(since1885)<<30 | uint64(wall.Nanosecond())
	raw.ext = int64(t.Sub(epoch))
	return wall
}

// jump sets the clock: by minutes, hours, days, to 1970, where a machine without a battery begins, to a far future, or
// right again.
func (c *wallClock) jump(rng *rand.Rand) {
	to := []time.Duration{0, time.Duration(rng.IntN(7200)-3600) * time.Second, time.Duration(rng.IntN(200)-100) * time.Hour,
		time.Since(time.Unix(3600, 0)).Truncate(time.Second), -20 * 365 * 24 * time.Hour}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind = to[rng.IntN(len(to))]
}

// A clock that jumps shows another time at once, and measures durations as before.
func TestAWallClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c wallClock
		for seed := range uint64(20) {
			before, real := c.now(), time.Now()
			c.jump(rand.New(rand.NewPCG(seed, 3)))
			time.Sleep(time.Minute)
			if after := c.now(); after.Sub(before) != time.Minute || !after.After(before) ||
				after.Round(0).Sub(real.Round(0)) != time.Minute-c.behind {
				t.Errorf("%v, %v later %v: want it %v behind", before, after.Sub(before), after, c.behind)
			}
		}
	})
}

// drained is what a model knows of a port's drains: they end by the machine's uptime, whatever its wall clock says.
type drained struct {
	longest time.Duration // of those that may not be over
	over    time.Time     // when the last one must be over, by the clock of the test
}

// beat is how late a drain may end: with the second beat of the router, and that of a process that has just begun.
const beat = 2 * time.Minute

func (w *town) drain(rng *rand.Rand) {
	label := []string{"wan", "lte"}[rng.IntN(2)]
	how := nodeapi.DrainOptions{For: time.Duration(1+rng.IntN(600)) * time.Second, By: "a person"}
	ctx, cancel := context.WithTimeout(context.Background(), applyTimeout)
	defer cancel()
	_, _ = w.life.node.Drain(ctx, label, how) // a process that has just begun may know no ports
	if d := w.drains[label]; d == nil || time.Now().After(d.over) {
		w.drains[label] = &drained{}
	}
	d := w.drains[label]
	d.longest = max(d.longest, how.For)
	if over := time.Now().Add(how.For); over.After(d.over) {
		d.over = over
	}
}

// bootDrains is for a reboot: only the wall clock knows how long the machine was off, so that a drain may begin anew.
func (w *town) bootDrains() {
	for _, d := range w.drains {
		if over := time.Now().Add(d.longest); time.Now().Before(d.over.Add(beat)) && over.After(d.over) {
			d.over = over
		}
	}
}

// lateDrains judges that no port is drained for longer than a person wanted.
func (w *town) lateDrains() {
	list, err := w.life.node.List(context.Background(), "port")
	if err != nil {
		return // the process may have died
	}
	for _, r := range list {
		s, is := r.Status.(nodeapi.PortStatus)
		d := w.drains[r.ID]
		if is && s.Drained && (d == nil || time.Now().After(d.over.Add(beat))) && time.Since(w.life.began) > beat {
			w.fault("port %s is still drained, until %v by its clock, which is %v behind", r.ID, s.DrainedUntil, w.clock.behind)
		}
	}
}
