package probe

import (
	"encoding/json"
	"testing"
	"time"
)

func TestADrainEndsByTheUptimeWhateverTheClock(t *testing.T) {
	begin := Clock{time.Now(), "m1", 5 * time.Hour}
	later := func(passed, jump time.Duration) Clock {
		return Clock{begin.Wall.Add(passed + jump).Round(0), "m1", begin.Uptime + passed}
	}
	reboot := func(uptime, off, jump time.Duration) Clock {
		return Clock{begin.Wall.Add(uptime + off + jump).Round(0), "m2", uptime}
	}
	const h, day, year = time.Hour, 24 * time.Hour, 365 * 24 * time.Hour
	for _, x := range []struct {
		name string
		now  Clock
		left time.Duration // as dated; 0: over
	}{
		{"as usual", later(20*time.Minute, 0), 40 * time.Minute},
		{"at its end", later(h, 0), 0},
		{"the clock was set forward", later(20*time.Minute, year), 40 * time.Minute},
		{"the clock was set back", later(20*time.Minute, -year), 40 * time.Minute},
		{"at its end, with the clock set back", later(h, -year), 0},
		{"a reboot", reboot(10*time.Minute, 20*time.Minute, 0), 30 * time.Minute},
		{"a reboot, off until its end", reboot(0, h, 0), 0},
		{"a reboot with a clock that lags", reboot(10*time.Minute, 5*time.Minute, -day), 50 * time.Minute},
		{"a reboot with a clock that lags, an hour later", reboot(h, 5*time.Minute, -day), 0},
		{"a reboot with a clock that leads", reboot(time.Minute, time.Minute, year), 0},
	} {
		for _, restarted := range []bool{false, true} {
			d := NewDrain("eve", h, begin)
			if restarted {
				d = stored(t, d)
			}
			dated, over := d.At(x.now)
			if over != (x.left == 0) || !over && dated.Until.Round(0).Sub(x.now.Wall) != x.left {
				t.Errorf("%s, restarted: %v: over: %v, until %v", x.name, restarted, over, dated.Until.Sub(x.now.Wall))
			}
			if again, _ := dated.At(x.now); !over && !again.Until.Equal(dated.Until) {
				t.Errorf("%s: dated twice: %v and %v", x.name, dated, again)
			}
		}
	}
	if _, over := NewDrain("", 0, begin).At(later(year, year)); over {
		t.Error("a drain without an end is over")
	}
	old := Drain{Until: begin.Wall.Add(h).Round(0), By: "an earlier release"}
	if _, over := old.At(later(h-1, 0)); over {
		t.Error("a drain of an earlier release is over too soon")
	}
	if _, over := old.At(later(h, 0)); !over {
		t.Error("a drain of an earlier release is not over")
	}
}

// The end of a drain is dated once, not with each look at it: a date that changes is journalled.
func TestADrainIsDatedAnewOnlyIfTheClockWasSet(t *testing.T) {
	begin := Clock{time.Now(), "m1", time.Hour}
	d, _ := stored(t, NewDrain("eve", time.Hour, begin)).At(begin)
	for passed, dated := range map[time.Duration]bool{time.Second: false, time.Minute: false, 59 * time.Minute: false} {
		now := Clock{begin.Wall.Add(passed + 300*time.Millisecond), "m1", begin.Uptime + passed}
		if got, _ := d.At(now); (got != d) != dated {
			t.Errorf("after %v: %+v and %+v", passed, d, got)
		}
		now.Wall = now.Wall.Add(time.Second)
		if got, _ := d.At(now); got == d {
			t.Errorf("after %v, with the clock set forward: %+v", passed, got)
		}
	}
}

func stored(t *testing.T, d Drain) (again Drain) {
	t.Helper()
	text, err := json.Marshal(d)
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil {
		t.Fatal(err)
	}
	return again
}
