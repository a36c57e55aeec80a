package pace

import (
	"time"

	"edgespan/pubsub/backoff"
)

// DebounceRule says when a changing value takes effect.
type DebounceRule struct {
	Still time.Duration // how long a value must have been unchanged
	First time.Duration // between a change that takes effect and the next one …
	Max   time.Duration // … doubling up to this while it keeps changing …
	Quiet time.Duration // … and reset after no change for this long
}

// Debouncer is a value that others may change at any rate. The first one takes effect at once, later ones according to
// the DebounceRule. The zero value has none.
type Debouncer[V comparable] struct {
	counts V // the effective value
	has    bool
	said   V // the last reported value
	since  time.Time
	before V             // the effective value before
	back   bool          // counts was reverted to before
	at     time.Time     // when counts changed last; zero: never
	gap    time.Duration // required after that
}

// Assume sets the effective value to one that is effective elsewhere: it was stored before, or meanwhile.
func (s *Debouncer[V]) Assume(v V) {
	if !s.has {
		s.said = v
	}
	s.counts, s.has = v, true
}

// Set records the reported value.
func (s *Debouncer[V]) Set(now time.Time, v V) {
	s.clamp(now)
	switch {
	case !s.has:
		s.Assume(v)
	case s.said != v:
		s.said, s.since = v, now
	}
}

// Value returns the effective value, and how long until the reported one takes effect; 0: none is waiting.
func (s *Debouncer[V]) Value(now time.Time, r DebounceRule) (v V, wait time.Duration) {
	s.clamp(now)
	if s.said == s.counts {
		return s.counts, 0
	}
	due := s.since.Add(r.Still)
	if next := s.at.Add(s.gap); next.After(due) {
		due = next
	}
	if wait = due.Sub(now); wait > 0 {
		return s.counts, wait
	}
	// A change and its reversal count as one.
	back := s.gap > 0 && !s.back && s.said == s.before
	switch {
	case s.gap == 0 || now.Sub(s.at) >= r.Quiet:
		s.gap = r.First
	case !back:
		s.gap = backoff.Backoff{First: r.First, Max: r.Max}.Next(s.gap)
	}
	s.before, s.back = s.counts, back
	s.counts, s.at = s.said, now
	return s.counts, 0
}

// Idle reports whether only the value is worth keeping, because it has not changed for Quiet.
func (s *Debouncer[V]) Idle(now time.Time, r DebounceRule) bool {
	return s.said == s.counts && now.Sub(s.at) >= r.Quiet
}

// clamp limits recorded times to now, so that a clock that was set back does not delay a value beyond the rule.
func (s *Debouncer[V]) clamp(now time.Time) {
	for _, t := range []*time.Time{&s.since, &s.at} {
		if t.After(now) {
			*t = now
		}
	}
}
