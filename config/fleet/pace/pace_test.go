package pace

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func TestABudget(t *testing.T) {
	l := Limit{Writes: Rate{Burst: 3, PerSecond: 2}, Bytes: Rate{Burst: 1000, PerSecond: 100}}
	for _, one := range []struct {
		name  string
		sizes []int // written at once
		after time.Duration
		want  time.Duration
	}{
		{"nothing was written", nil, 0, 0},
		{"the last one at once", []int{1, 1}, 0, 0},
		{"one too many", []int{1, 1, 1}, 0, 500 * time.Millisecond},
		{"some of the wait is over", []int{1, 1, 1}, 300 * time.Millisecond, 200 * time.Millisecond},
		{"all of it is", []int{1, 1, 1}, 500 * time.Millisecond, 0},
		{"overdrawn", []int{1, 1, 1, 1}, 0, time.Second},
		{"too much, and it went", []int{1500}, 0, 5 * time.Second},
		{"as much as there is", []int{1000}, 0, 0},
		{"the longer of two waits", []int{1500, 1, 1}, 0, 5020 * time.Millisecond},
		{"it never has more than all", []int{1}, time.Hour, 0},
	} {
		var b Budget
		for _, size := range one.sizes {
			b.Spend(noon, l, size)
		}
		if got := b.Wait(noon.Add(one.after), l, 1); got != one.want {
			t.Errorf("%s: waits %v, want %v", one.name, got, one.want)
		}
	}
	var b Budget
	b.Spend(noon, l, 1)
	b.Spend(noon, l, 1)
	b.Spend(noon.Add(time.Hour), l, 1)
	b.Spend(noon.Add(time.Hour), l, 1)
	if got := b.Wait(noon.Add(time.Hour), l, 1); got != 0 {
		t.Errorf("what came back is gone: waits %v", got)
	}
	b.Spend(noon.Add(time.Hour), l, 1)
	if got := b.Wait(noon, l, 1); got != 500*time.Millisecond {
		t.Errorf("a clock that was set back: waits %v", got)
	}
	if got := b.Wait(noon.Add(500*time.Millisecond), l, 1); got != 0 {
		t.Errorf("and went on: waits %v", got)
	}
}

func TestAValueCountsOnceItStands(t *testing.T) {
	r := DebounceRule{Still: 3 * time.Second, First: 15 * time.Second, Max: 60 * time.Second, Quiet: 5 * time.Minute}
	// Each word is said at a second, or "?" asks then; "=v" is what must count, "+n" for how long more.
	for _, one := range []struct{ name, script string }{
		{"the first one at once", "0 a =a"},
		{"one that is known from before", "0 assume:a =a; 1 a =a; 2 b =a+3"},
		{"what others made count meanwhile",
			"0 a; 10 b; 11 assume:c =c+2; 13 ? =b; 14 assume:b =b; 15 assume:a =a+13; 28 ? =b"},
		{"and what was said then", "0 a; 10 b; 11 assume:b =b; 20 ? =b; 21 a =b+3"},
		{"another one once it stood", "0 a; 10 b =a+3; 12 b =a+1; 13 ? =b"},
		{"what did not stand never counts", "0 a; 10 b; 12 c =a+3; 14 b =a+3; 16 c =a+3; 19 ? =c"},
		{"back again in time is no change", "0 a; 10 b; 12 a =a; 20 ? =a; 21 b =a+3; 24 ? =b"},
		{"the next one waits longer", "0 a; 10 b; 13 ? =b; 14 c =b+14; 27 ? =b+1; 28 ? =c"},
		{"and the one after it twice as long, to a bound",
			"0 a; 10 b; 13 ?; 14 c; 28 ? =c; 29 d =c+29; 58 ? =d; 59 a =d+59; 118 ? =a; 119 b =a+59; 178 ? =b"},
		{"what is taken back is one change with it", "0 a; 10 b; 13 ?; 14 a =b+14; 28 ? =a; 29 c =a+14; 43 ? =c; 44 d =c+29"},
		{"and no end of them is free",
			"0 a; 10 b; 13 ?; 14 a; 28 ? =a; 29 b =a+14; 43 ? =b; 44 a =b+29; 73 ? =a; 74 b =a+29; 103 ? =b; 104 a =b+59"},
		{"quiet makes it new", "0 a; 10 b; 13 ?; 14 c; 28 ? =c; 400 d =c+3; 403 ? =d; 404 e =d+14"},
		{"quiet is measured from the last change", "0 a; 10 b; 13 ?; 14 c; 28 ? =c; 320 d =c+3; 323 ? =d; 324 e =d+59"},
		{"a clock that was set back", "1000 a; 1010 b; 1013 ? =b; 0 c =b+15; 15 ? =c"},
		{"set back while it waits", "1000 a; 1010 b; 5 ? =a+3; 8 ? =b"},
	} {
		var s Debouncer[string]
		for _, line := range strings.Split(one.script, "; ") {
			f := strings.Fields(line)
			var at int
			fmt.Sscan(f[0], &at)
			now := noon.Add(time.Duration(at) * time.Second)
			if v, assumes := strings.CutPrefix(f[1], "assume:"); assumes {
				s.Assume(v)
			} else if f[1] != "?" {
				s.Set(now, f[1])
			}
			v, wait := s.Value(now, r)
			if len(f) < 3 {
				continue
			}
			got := "=" + v
			if wait > 0 {
				got += fmt.Sprintf("+%g", wait.Seconds())
			}
			if got != f[2] {
				t.Errorf("%s: %q: %s", one.name, line, got)
			}
		}
	}
}

// Whatever is said, however often: a value changes no more often than the rule has it, and one that
// stays counts in the end.
func TestAValueThatFlaps(t *testing.T) {
	r := DebounceRule{Still: 3 * time.Second, First: 15 * time.Second, Max: 10 * time.Minute, Quiet: time.Hour}
	for _, every := range []time.Duration{50 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second,
		20 * time.Second, time.Minute, 7 * time.Minute} {
		var s Debouncer[int]
		changes, last := -1, -1
		for at := time.Duration(0); at < 4*time.Hour; at += every {
			s.Set(noon.Add(at), int(at/every))
			if v, _ := s.Value(noon.Add(at+every-1), r); v != last {
				last = v
				changes++
			}
		}
		if limit := 7 + 4*6; changes > limit || every > r.Still && changes < 20 {
			t.Errorf("each %v: %d changes count in 4 hours, %d may", every, changes, limit)
		}
		if v, wait := s.Value(noon.Add(4*time.Hour+r.Max), r); v != int((4*time.Hour-1)/every) || wait != 0 {
			t.Errorf("each %v: %d counts at the end, in %v", every, v, wait)
		}
	}
}

// One that goes back and forth is bounded too: of each two changes one counts.
func TestAValueThatGoesBackAndForth(t *testing.T) {
	t.Parallel()
	r := DebounceRule{First: 15 * time.Second, Max: 10 * time.Minute, Quiet: time.Hour}
	var s Debouncer[int]
	changes, last := -1, -1
	for at := time.Duration(0); at < 4*time.Hour; at += time.Second {
		s.Set(noon.Add(at), 1-max(last, 0))
		if v, _ := s.Value(noon.Add(at), r); v != last {
			last = v
			changes++
		}
	}
	if limit := 2*7 + 4*6; changes > limit || changes < 20 {
		t.Errorf("%d changes count in 4 hours, %d may", changes, limit)
	}
}

func TestOneThatIsIdle(t *testing.T) {
	r := DebounceRule{Still: time.Second, First: time.Second, Max: time.Second, Quiet: time.Minute}
	var s Debouncer[string]
	s.Assume("a")
	if !s.Idle(noon, r) {
		t.Error("one that never changed is not idle")
	}
	s.Set(noon, "b")
	if s.Idle(noon, r) {
		t.Error("one that waits is idle")
	}
	s.Value(noon.Add(time.Second), r)
	if s.Idle(noon.Add(time.Minute), r) || !s.Idle(noon.Add(61*time.Second), r) {
		t.Error("one that changed is idle at another time than after quiet")
	}
}

// What is small waits for none of the bytes that something large has taken.
func TestWhatIsSmallIsNotLate(t *testing.T) {
	t.Parallel()
	l := Limit{Writes: Rate{Burst: 3, PerSecond: 1}, Bytes: Rate{Burst: 100, PerSecond: 1}, Small: 10}
	var b Budget
	b.Spend(noon, l, 700)
	if small, large := b.Wait(noon, l, 10), b.Wait(noon, l, 11); small != 0 || large < 600*time.Second {
		t.Errorf("small waits %v, large %v", small, large)
	}
	b.Spend(noon, l, 1)
	b.Spend(noon, l, 1)
	if got := b.Wait(noon, l, 1); got == 0 {
		t.Error("small writes have no bound")
	}
}
