package kv

import "time"

// Retention says how much of its own history a store keeps: what is younger than Age, and the
// last Revisions. Once the store has grown by Bytes since it was compacted last, only what is
// younger than Least is kept: large values fill a store long before they are many. Who follows
// the store more slowly reads all keys again.
type Retention struct {
	Age       time.Duration
	Revisions Revision
	Bytes     int64 // 0: any number
	Least     time.Duration
}

// Mark is that a store had reached a revision by a time.
type Mark struct {
	Revision Revision
	At       time.Time
}

// CompactTo is the revision that a store at a revision may be compacted to, 0 for none; it has
// grown by so many bytes since it was compacted last. The marks are in their order; a time before
// them says nothing, so whoever begins to mark keeps all for Age.
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

// Needed are the marks that later calls of CompactTo go by: of those that are old enough, the
// last.
func (r Retention) Needed(marks []Mark, now time.Time) []Mark {
	for len(marks) > 1 && now.Sub(marks[1].At) >= r.Age {
		marks = marks[1:]
	}
	return marks
}
