package revision

import "time"

// Retention says how much of its own history a store keeps: what is younger than Age, and the
// last Revisions. Who follows the store more slowly than both reads all keys again.
type Retention struct {
	Age       time.Duration
	Revisions Revision
}

// Mark is that a store had reached a revision by a time.
type Mark struct {
	Revision Revision
	At       time.Time
}

// CompactTo is the revision that a store at a revision may be compacted to, 0 for none. The
// marks are in their order; a time before them says nothing, so whoever begins to mark keeps
// all for Age.
func (r Retention) CompactTo(marks []Mark, now time.Time, at Revision) Revision {
	var old Revision
	for _, m := range marks {
		if now.Sub(m.At) >= r.Age {
			old = max(old, m.Revision)
		}
	}
	if at <= r.Revisions {
		return 0
	}
	return min(old, at-r.Revisions)
}

// Needed are the marks that later calls of CompactTo go by: of those that are old enough, the
// last.
func (r Retention) Needed(marks []Mark, now time.Time) []Mark {
	for len(marks) > 1 && now.Sub(marks[1].At) >= r.Age {
		marks = marks[1:]
	}
	return marks
}
