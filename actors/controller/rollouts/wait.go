package rollouts

import (
	"sync/atomic"
	"time"
)

// What the controller writes by itself waits while a staged rollout is under way: as another revision that touches
// nodes it would supersede it, with a canary and a budget of its own. It does not wait for ever: a rollout may be
// paused for days, and the address of a tunnel is wrong until it is written.
const (
	maxWait   = time.Hour
	WaitCheck = time.Second
)

// Wait is one thing that waits for a rollout to end.
type Wait struct{ since atomic.Int64 }

// Underway says whether a staged rollout is under way.
type Underway struct {
	clock func() time.Time
	is    atomic.Bool
}

// NewUnderway goes by a clock.
func NewUnderway(clock func() time.Time) *Underway { return &Underway{clock: clock} }

// Waits says whether it is to be looked at again after WaitLook.
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

// rolls says whether a staged rollout is under way, as the store has it or the leader is about to store it. Until
// it is known one may be.
func (a *rolloutActor) rolls() bool {
	if !a.knows {
		return true
	}
	last := a.last()
	if a.leads != nil && a.now != nil {
		last = a.now
	}
	return a.staging.On && last != nil && last.End == ""
}
