package kv

import "time"

// Retention limits the history that a store keeps: everything younger than Age, and the last Revisions. Once the store
// has grown by Bytes since the last compaction, it keeps only what is younger than Least, since a few large values can
// fill a store. A watcher that falls further behind must read all keys again.
type Retention struct {
	Age       time.Duration
	Revisions Revision
	Bytes     int64 // 0: no limit
	Least     time.Duration
}

// Mark records that a store had reached a revision by a time.
type Mark struct {
	Revision Revision
	At       time.Time
}

// CompactTo returns the revision up to which the store may be compacted, 0 for none. at is the store's revision, and
// grown the bytes by which it has grown since the last compaction. The marks are in order of time; without a mark as
// old as Age nothing is compacted, so a process keeps everything for Age after it starts to mark.
func (r Retention) CompactTo(marks []Mark, now time.Time, at Revision, grown int64) Revision {
	age, revisions := r.Age, r.Revisions
	if r.Bytes > 0 && grown >= r.Bytes {
		age, revisions = r.Least, 0
	}
	var old Revision
	for _, m := range marks {
		if now.Sub(m.At) >= age {
			old = max(old, m.Revision)
		}
	}
	if at <= revisions {
		return 0
	}
	return min(old, at-revisions)
}

// Needed drops the marks that later calls of CompactTo don't need: of the marks older than Age it keeps only the last.
func (r Retention) Needed(marks []Mark, now time.Time) []Mark {
	for len(marks) > 1 && now.Sub(marks[1].At) >= r.Age {
		marks = marks[1:]
	}
	return marks
}
