package kv

import (
	"testing"
	"time"
)

func TestRetention(t *testing.T) {
	r := Retention{Age: 10 * time.Minute, Revisions: 100}
	start := time.Unix(1000, 0)
	mark := func(minute int, at Revision) Mark { return Mark{at, start.Add(time.Duration(minute) * time.Minute)} }
	for _, c := range []struct {
		name  string
		marks []Mark
		now   int // minute
		at    Revision
		want  Revision
		left  int // marks that are still needed
	}{
		{"nothing is marked", nil, 60, 1000, 0, 0},
		{"all is young", []Mark{mark(0, 500), mark(9, 700)}, 9, 1000, 0, 2},
		{"one is old enough", []Mark{mark(0, 500), mark(9, 700)}, 10, 1000, 500, 2},
		{"the youngest of the old ones counts", []Mark{mark(0, 500), mark(1, 600), mark(2, 700)}, 11, 1000, 600, 2},
		{"all are old", []Mark{mark(0, 500), mark(1, 600), mark(2, 700)}, 60, 1000, 700, 1},
		{"it is among the last revisions", []Mark{mark(0, 950)}, 60, 1000, 900, 1},
		{"there are few revisions", []Mark{mark(0, 5), mark(1, 6)}, 60, 100, 0, 1},
		{"one more than that", []Mark{mark(0, 5), mark(1, 6)}, 60, 101, 1, 1},
		{"nothing was written since", []Mark{mark(0, 1000)}, 60, 1000, 900, 1},
	} {
		now := start.Add(time.Duration(c.now) * time.Minute)
		if got := r.CompactTo(c.marks, now, c.at, 0); got != c.want {
			t.Errorf("%s: to %d, want %d", c.name, got, c.want)
		}
		if got := r.Needed(c.marks, now); len(got) != c.left {
			t.Errorf("%s: %d marks are left, want %d", c.name, len(got), c.left)
		} else if again := r.CompactTo(got, now, c.at, 0); again != c.want {
			t.Errorf("%s: with the marks that are needed to %d, want %d", c.name, again, c.want)
		}
	}
}

// A store that grows fast keeps its history for a minute, however few revisions these are.
func TestRetentionByBytes(t *testing.T) {
	r := Retention{Age: 10 * time.Minute, Revisions: 100, Bytes: 1000, Least: time.Minute}
	start := time.Unix(1000, 0)
	marks := []Mark{{5, start}, {6, start.Add(time.Minute)}, {7, start.Add(2 * time.Minute)}}
	now := start.Add(2 * time.Minute)
	for grown, want := range map[int64]Revision{0: 0, 999: 0, 1000: 6, 5000: 6, -1: 0} {
		if got := r.CompactTo(marks, now, 8, grown); got != want {
			t.Errorf("grown by %d: to %d, want %d", grown, got, want)
		}
	}
	if r.Bytes = 0; r.CompactTo(marks, now, 8, 5000) != 0 {
		t.Error("without a bound it goes by bytes")
	}
}
