package watched

import "time"

// The messages that all readers together read in each slice of time, and those that each may read anyway.
const (
	slice        = 100 * time.Millisecond
	perSlice     = 500
	minPerReader = 4
	atOnce       = 100 // for one reading, of which a slice has five
)

// Budget divides what the daemon spends on reading messages among the links that have any, so that a flood on one of
// them leaves the others their part. The caller's lock guards it.
type Budget struct {
	began  time.Time
	active int // readers in the slice before
	spent  map[string]int
}

// Allow returns how many messages a reader may read now.
func (b *Budget) Allow(reader string, now time.Time) int {
	if since := now.Sub(b.began); since < 0 || since >= slice {
		b.active = len(b.spent)
		if since >= 2*slice {
			b.active = 0
		}
		b.began, b.spent = now, map[string]int{}
	}
	spent := b.spent[reader]
	b.spent[reader] = spent // it counts as active
	n := max(0, min(atOnce, max(minPerReader, perSlice/max(1, b.active, len(b.spent)))-spent))
	b.spent[reader] += n
	return n
}
