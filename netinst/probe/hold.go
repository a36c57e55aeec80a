package probe

import (
	"cmp"
	"time"
)

// Hold is the hold-down of a port: the time until which it must have worked before a network returns to it.
type Hold struct {
	Fails int       `json:"fails"` // how often it failed, each time in service
	Last  time.Time `json:"last"`  // the last time
	Until time.Time `json:"until"`
	// Failed means that it failed last: after a restart it must answer before it counts as working.
	Failed bool `json:"failed,omitempty"`
	// Proven means, of a tunnel that keeps away, that it was answered by another port since: the path is to blame.
	Proven bool `json:"proven,omitempty"`
}

// The longest hold-down of a port that works again, to which that of the config doubles with each failure, and the calm
// time that ends the counting: after the last failure, and after the end of the hold-down.
const (
	maxHold  = 10 * time.Minute
	calmTime = 10 * time.Minute
)

// age keeps the hold-downs: a port that fails in service counts, and one that works again is held from then on. The
// same is true of the limits of loss and latency: a port whose loss is near one crosses it again and again.
func (c *Chooser) age(now time.Time) {
	first := cmp.Or(c.config.Hold, DefaultHold)
	for _, p := range c.ports {
		p.hold.tame(now, first)
		p.limit.tame(now, first)
		class, _ := c.classify(p)
		alive, within := class >= Degraded, class != Degraded
		if p.seen && alive != p.alive {
			p.hold.turn(alive, now, first)
		}
		if within != p.within {
			p.limit.turn(within, now, first)
		}
		p.alive, p.seen, p.hold.Failed, p.within = alive, true, !alive, within
	}
}

// tame corrects what was journalled by a clock that was ahead.
func (h *Hold) tame(now time.Time, first time.Duration) {
	if h.Until.After(now.Add(max(first, maxHold))) {
		h.Until = now.Add(first)
	}
	if h.Last.After(now) {
		h.Last = now
	}
}

// turn begins a hold-down of a port that is well again, and counts if it is no longer.
func (h *Hold) turn(well bool, now time.Time, first time.Duration) {
	switch {
	case well:
		h.Until = now.Add(max(first, min(first<<min(max(h.Fails-1, 0), 10), maxHold)))
	case !now.Before(h.Until): // it was in service, and not only about to be
		if h.Last.Add(calmTime).Before(now) && h.Until.Add(calmTime).Before(now) {
			h.Fails = 0
		}
		h.Fails, h.Last = h.Fails+1, now
	}
}
