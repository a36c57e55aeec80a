package backend

import (
	"testing"
	"time"
)

// jumpy is a clock that jumps once, between a reading and the timer that follows.
type jumpy struct {
	now    time.Time
	jump   time.Duration
	timers []time.Time
}

func (c *jumpy) Now() time.Time { return c.now }

func (c *jumpy) After(d time.Duration) <-chan time.Time {
	c.now = c.now.Add(c.jump)
	c.jump = 0
	c.timers = append(c.timers, c.now.Add(d))
	return make(chan time.Time, 1)
}

func TestATimerIsNotLateByAJumpOfTheClock(t *testing.T) {
	begin := time.Unix(1000, 0)
	for _, jump := range []time.Duration{0, 7 * time.Second, time.Hour} {
		c := &jumpy{now: begin, jump: jump}
		At(c, begin.Add(10*time.Second))
		last := c.timers[len(c.timers)-1]
		if want := begin.Add(10 * time.Second); last.After(want) && last.After(c.now) {
			t.Errorf("after a jump of %v it sends %v late", jump, last.Sub(want))
		}
	}
}
