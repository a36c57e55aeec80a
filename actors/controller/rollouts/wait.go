package rollouts

import (
	"sync/atomic"
	"time"
)

// Writes of the controller itself wait while a staged rollout is under way: as another revision that touches nodes,
// they would supersede it, with a canary and a budget of their own. They do not wait forever: a rollout may be paused
// for days, and the address of a tunnel is wrong until it is written.
const (
	maxWait   = time.Hour
	WaitCheck = time.Second
)

// Wait is one write that waits for a rollout to end.
type Wait struct{ since atomic.Int64 }

// Underway reports whether a staged rollout is under way.
type Underway struct {
	clock func() time.Time
	is    atomic.Bool
}

// NewUnderway uses clock as the current time.
func NewUnderway(clock func() time.Time) *Underway { return &Underway{clock: clock} }

// Waits reports whether w must wait; the caller asks again after WaitCheck.
func (d *Underway) Waits(w *Wait) bool {
	if !d.is.Load() {
		w.since.Store(0)
		return false
	}
	now := d.clock()
	w.since.CompareAndSwap(0, now.UnixNano())
	if w.since.Load() > now.UnixNano() { // the clock was set back
		w.since.Store(now.UnixNano())
	}
	if now.Sub(time.Unix(0, w.since.Load())) < maxWait {
		return true
	}
	w.since.Store(0)
	return false
}

// underWay reports whether a staged rollout is under way: stored, or about to be stored by this leader. It is true
// until the state is known.
func (a *rolloutActor) underWay() bool {
	if !a.knows {
		return true
	}
	last := a.last()
	if a.leads != nil && a.now != nil {
		last = a.now
	}
	return a.staging.On && last != nil && last.End == ""
}
