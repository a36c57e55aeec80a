package events

import (
	"encoding/json"
	"slices"
	"time"
)

// Log is a ring of events. When it is full it drops the oldest event, but leaves each object its newest ones: half of
// an equal share of the ring, so that one that flaps displaces its own events and not those of all others.
type Log struct {
	limits Limits
	list   []entry // by Seq
	bytes  int
	of     map[string]int // events by object
	first  uint64         // the lowest number of this start of the daemon
	next   uint64
}

// Limits bound a Log.
type Limits struct {
	Events int
	Bytes  int // in the form of a file
}

type entry struct {
	event Event
	bytes int
}

// NewLog returns an empty Log whose first number is at least first.
func NewLog(l Limits, first uint64) *Log {
	first = max(first, 1)
	return &Log{limits: l, of: map[string]int{}, first: first, next: first}
}

// repeats is how many of an object's newest events are compared with a new one, and stale how long after it happened
// last an event that happens again is a new one.
const (
	repeats = 8
	stale   = 10 * time.Minute
)

// Change is what adding an event has changed.
type Change struct {
	Event   Event
	Repeats bool     // Event was there; it has another Count
	Dropped []uint64 // by Seq
}

// Add numbers and keeps an event. It repeats another one of this start if both say the same of the same object and
// config, soon after each other: then that one is counted. related are objects on which the event's object depends: an
// event that names no cause is connected to the newest event of these.
func (l *Log) Add(e Event, related ...string) Change {
	e = e.cleaned()
	if i := l.repeated(e); i >= 0 {
		old := &l.list[i].event
		old.Count, old.Last, old.Rev = max(old.Count, 1)+1, e.Time, l.number()
		return Change{Event: *old, Repeats: true, Dropped: l.resize(i)}
	}
	e.Cause.Event = l.before(e, related)
	e.Seq = l.number()
	return Change{Event: e, Dropped: l.insert(e)}
}

func (l *Log) number() uint64 {
	n := l.next
	l.next++
	return n
}

// repeated returns the index of the event that e repeats, -1 for none. What happens at each start is an event of each
// start.
func (l *Log) repeated(e Event) int {
	seen := 0
	for i := len(l.list) - 1; i >= 0 && seen < repeats && l.list[i].event.Seq >= l.first; i-- {
		old := &l.list[i].event
		if old.Object != e.Object {
			continue
		}
		seen++
		if old.Kind == e.Kind && old.Name == e.Name && old.Text == e.Text && old.Op == e.Op && old.Command == e.Command &&
			old.Error == e.Error && old.Cause.Config == e.Cause.Config && old.Cause.By == e.Cause.By &&
			e.Time.Sub(old.At()) < stale {
			return i
		}
	}
	return -1
}

// insert keeps an event that has a higher Seq than all others, and returns what is dropped for it.
func (l *Log) insert(e Event) []uint64 {
	size := len(Encode(e))
	l.list = append(l.list, entry{e, size})
	l.bytes += size
	l.of[e.Object]++
	return l.shrink()
}

// resize computes the size of a changed event, and returns what is dropped for it.
func (l *Log) resize(i int) []uint64 {
	x := &l.list[i]
	l.bytes -= x.bytes
	x.bytes = len(Encode(x.event))
	l.bytes += x.bytes
	return l.shrink()
}

func (l *Log) shrink() (dropped []uint64) {
	for len(l.list) > l.limits.Events || l.bytes > l.limits.Bytes && len(l.list) > 1 {
		i := l.victim()
		dropped = append(dropped, l.list[i].event.Seq)
		l.remove(i)
	}
	return dropped
}

// victim returns the index of the event to drop: the oldest one of an object that has more than its share.
func (l *Log) victim() int {
	share := max(1, min(l.limits.Events, len(l.list))/(2*len(l.of)))
	for i := range len(l.list) - 1 {
		if l.of[l.list[i].event.Object] > share {
			return i
		}
	}
	return 0
}

func (l *Log) remove(i int) {
	x := l.list[i]
	l.bytes -= x.bytes
	if l.of[x.event.Object]--; l.of[x.event.Object] == 0 {
		delete(l.of, x.event.Object)
	}
	l.list = slices.Delete(l.list, i, i+1)
}

// Restore adds events of an earlier start, which a file had, to a Log, and returns those that it keeps. It skips those
// whose numbers the Log has already given.
func (l *Log) Restore(list []Event) []Event {
	had := l.list
	own := l.next // the lowest number of this start
	if len(had) > 0 {
		own = had[0].event.Seq
	}
	l.list, l.bytes, l.of = nil, 0, map[string]int{}
	for _, e := range list {
		if len(had) > 0 && e.Changed() >= own {
			continue
		}
		l.next = max(l.next, e.Changed()+1)
		l.insert(e)
	}
	if len(had) == 0 {
		l.first = l.next
	}
	for _, x := range had {
		l.insert(x.event)
	}
	var out []Event
	for _, x := range l.list {
		if len(had) == 0 || x.event.Seq < own {
			out = append(out, x.event)
		}
	}
	return out
}

// Events returns the events by Seq.
func (l *Log) Events() []Event {
	out := make([]Event, len(l.list))
	for i, x := range l.list {
		out[i] = x.event
	}
	return out
}

// Get returns the event with a number.
func (l *Log) Get(seq uint64) (Event, bool) {
	i, found := slices.BinarySearchFunc(l.list, seq, func(x entry, seq uint64) int {
		switch {
		case x.event.Seq < seq:
			return -1
		case x.event.Seq > seq:
			return 1
		}
		return 0
	})
	if !found {
		return Event{}, false
	}
	return l.list[i].event, true
}

// Last returns the number of the last change, 0 for none.
func (l *Log) Last() uint64 {
	var last uint64
	for _, x := range l.list {
		last = max(last, x.event.Changed())
	}
	return last
}

// Newest returns of a list those events that changed after a number, as many of the newest ones as fit into a number of
// bytes, by their last change; and how many others there are.
func Newest(list []Event, after uint64, bytes int) (out []Event, others int) {
	for _, e := range list {
		if e.Changed() > after {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Event) int {
		if a.Changed() < b.Changed() {
			return -1
		}
		return 1
	})
	for i := len(out) - 1; i >= 0; i-- {
		text, err := json.Marshal(out[i])
		if bytes -= len(text) + 1; err != nil || bytes < 0 {
			return out[i+1:], i + 1
		}
	}
	return out, 0
}
