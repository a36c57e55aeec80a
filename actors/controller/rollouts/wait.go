package rollouts

import (
	"sync/atomic"
	"time"

	"edgespan/config/fleet/rollout/staged"
)

// Writes of the controller itself wait while a staged rollout is under way: as another revision that touches nodes,
// they would supersede it, with a first batch and a limit of failures of their own. They do not wait forever: a rollout
// may be paused for days, and the address of a tunnel is wrong until it is written.
const (
	maxWait   = time.Hour
	WaitCheck = time.Second // how often a write that waits asks again
)

// Wait is one write that waits for a rollout to end.
type Wait struct{ since atomic.Int64 }

// UnderwayCache remembers whether a staged rollout is under way, and the newest stored one.
type UnderwayCache struct {
	clock    func() time.Time
	underway atomic.Bool
	last     atomic.Pointer[staged.RolloutRecord]
}

// Last returns the newest stored rollout, which the caller must not change; nil for none.
func (u *UnderwayCache) Last() *staged.RolloutRecord { return u.last.Load() }

// NewUnderwayCache returns a cache that reads the current time from clock.
func NewUnderwayCache(clock func() time.Time) *UnderwayCache { return &UnderwayCache{clock: clock} }

// MustWait reports whether w must wait; the caller asks again after WaitCheck.
func (u *UnderwayCache) MustWait(w *Wait) bool {
	if !u.underway.Load() {
		w.since.Store(0)
		return false
	}
	now := u.clock()
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

// isUnderWay reports whether a staged rollout is under way: stored, or about to be stored by this leader. It is true
// until the state is known.
func (a *rolloutActor) isUnderWay() bool {
	if !a.initialized {
		return true
	}
	last := a.lastRecord()
	if a.leadership != nil && a.current != nil {
		last = a.current
	}
	return a.staging.On && last != nil && last.End == ""
}
