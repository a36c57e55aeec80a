package pace

import (
	"time"

	"edgespan/pubsub/backoff"
)

// Rule is when a value that changes counts.
type Rule struct {
	Still time.Duration // a value must have been the same for so long
	First time.Duration // from one change that counts to the next one …
	Max   time.Duration // … doubling to so long while it goes on changing …
	Quiet time.Duration // … and forgotten once nothing has changed for so long
}

// Steady is a value that others may change as often as they like. Its first one counts at once, and
// another one by the Rule. The zero value has none.
type Steady[V comparable] struct {
	counts V // that counts
	has    bool
	said   V // last
	since  time.Time
	before V             // that counted before it
	back   bool          // counts was taken back to that
	at     time.Time     // when counts changed last, zero: never
	gap    time.Duration // after that
}

// Assume makes a value count that does for others already: it was stored before, or meanwhile.
func (s *Steady[V]) Assume(v V) {
	if !s.has {
		s.said = v
	}
	s.counts, s.has = v, true
}

// Say notes what the value is said to be now.
func (s *Steady[V]) Say(now time.Time, v V) {
	s.clamp(now)
	switch {
	case !s.has:
		s.Assume(v)
	case s.said != v:
		s.said, s.since = v, now
	}
}

// Value is what counts now, and how long it takes until what was said last does; 0: nothing waits.
func (s *Steady[V]) Value(now time.Time, r Rule) (v V, wait time.Duration) {
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
	// What was taken back is one change together with what it takes back.
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

// Idle says whether nothing of it would be missed but the value: it has been quiet.
func (s *Steady[V]) Idle(now time.Time, r Rule) bool {
	return s.said == s.counts && now.Sub(s.at) >= r.Quiet
}

// clamp keeps a clock that was set back from holding a value up longer than the rule does.
func (s *Steady[V]) clamp(now time.Time) {
	for _, t := range []*time.Time{&s.since, &s.at} {
		if t.After(now) {
			*t = now
		}
	}
}
