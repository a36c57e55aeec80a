package events

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// soon is how long before an apply a port may have changed that began it.
const soon = 10 * time.Second

// before returns the number of the event that led to e, 0 for none or for that of its config.
func (l *Log) before(e Event, related []string) uint64 {
	sameApply := func(kinds ...string) func(*Event) bool {
		return func(o *Event) bool {
			return e.Cause.Apply != "" && o.Cause.Apply == e.Cause.Apply && slices.Contains(kinds, o.Kind)
		}
	}
	switch e.Kind {
	case State:
		if e.Cause.Apply != "" {
			if seq := l.newest(sameApply(Failed)); seq > 0 {
				return seq
			}
			return l.newest(sameApply(Applied, Repaired, Process, Recovered))
		}
		return l.newestSince(e.Object, related)
	case Recovered:
		return l.newest(func(o *Event) bool { return o.Kind == Failed && o.Object == e.Object && o.Op == e.Op })
	case Applied, Failed, Repaired:
		switch e.Cause.Began {
		case BeganPorts:
			return l.newest(func(o *Event) bool {
				return (o.Kind == Port || o.Kind == Uplink && o.Object == e.Object) && e.Time.Sub(o.At()) < soon
			})
		case BeganRetry:
			return l.newest(func(o *Event) bool { return o.Kind == Failed && o.Object == e.Object })
		}
	}
	return 0
}

// newest returns the number of the newest event that fits, 0 for none.
func (l *Log) newest(fits func(*Event) bool) uint64 {
	for i := len(l.list) - 1; i >= 0; i-- {
		if fits(&l.list[i].event) {
			return l.list[i].event.Seq
		}
	}
	return 0
}

// newestSince returns the number of the newest event of the adapters of an app or of related objects, if the app itself
// had none since.
func (l *Log) newestSince(object string, related []string) uint64 {
	adapters := ""
	if id, app := strings.CutPrefix(object, "app/"); app {
		adapters = "adapter/" + id + "/"
	}
	for i := len(l.list) - 1; i >= 0; i-- {
		o := &l.list[i].event
		switch {
		case o.Object == object:
			return 0
		case slices.Contains(related, o.Object), adapters != "" && strings.HasPrefix(o.Object, adapters):
			return o.Seq
		}
	}
	return 0
}

// longestChain bounds a chain, whatever a list says.
const longestChain = 8

// Chain returns the events that led to e, the oldest first: that of its config, what began the apply, and what the
// apply did. Events that are no longer in the list are missing.
func Chain(list []Event, e Event) []Event {
	by := make(map[uint64]int, len(list))
	for i, o := range list {
		by[o.Seq] = i
	}
	var out []Event
	first := e
	for len(out) < longestChain {
		i, there := by[first.Cause.Event]
		if !there || first.Cause.Event >= first.Seq {
			break
		}
		first = list[i]
		out = append([]Event{first}, out...)
	}
	if root, ok := configOf(list, first, e); ok {
		out = append([]Event{root}, out...)
	}
	for i := range out {
		out[i].Chain = nil
	}
	return out
}

// configOf returns the event of the config of the first event of a chain, or of its last one.
func configOf(list []Event, first, last Event) (Event, bool) {
	number := first.Cause.Config
	if number == 0 {
		number = last.Cause.Config
	}
	if first.Kind == Config || number == 0 {
		return Event{}, false
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Kind == Config && list[i].Cause.Config == number && list[i].Error == "" {
			return list[i], true
		}
	}
	return Event{}, false
}

// Why says in words why an event happened, one line for each step from the config to the event. Chain is that of the
// event.
func Why(e Event) []string {
	var out []string
	if number := e.Cause.Config; number > 0 && e.Kind != Config && (len(e.Chain) == 0 || e.Chain[0].Kind != Config) {
		out = append(out, fmt.Sprintf("config %d of this node, whose event is no longer stored", number))
	}
	apply := ""
	for _, o := range append(slices.Clone(e.Chain), e) {
		if o.Cause.Apply != "" && o.Cause.Apply != apply {
			apply = o.Cause.Apply
			out = append(out, "apply "+apply+began(o.Cause.Began))
		}
		out = append(out, sentence(o))
	}
	if len(out) == 1 && e.Kind != Config {
		return append([]string{"no cause is known"}, out...)
	}
	return out
}

func began(what string) string {
	switch what {
	case BeganConfig:
		return ", since its config changed"
	case BeganApps:
		return ", since an adapter was added, changed or removed"
	case BeganPorts:
		return ", since a port changed or another one was chosen"
	case BeganOverlap:
		return ", since addresses of the host changed"
	case BeganHost:
		return ", since something changed on the host"
	case BeganProcess:
		return ", since a process of it ended"
	case BeganRetry:
		return ", to try again what failed or waits"
	case BeganCheck:
		return ", to compare it with the host"
	case BeganStart:
		return ", since the daemon or an actor of it started"
	case BeganLearning:
		return ", since an app uses another address"
	}
	return ""
}

// sentence says what an event is, with what made it.
func sentence(e Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "event %d: ", e.Seq)
	if e.Kind == Config {
		b.WriteString("config")
	} else {
		b.WriteString(e.Object)
		if e.Name != "" {
			b.WriteString(" (" + e.Name + ")")
		}
	}
	b.WriteString(": " + e.Text)
	if e.Kind == Config && e.Cause.Generation != "" {
		b.WriteString(", as " + e.Cause.Generation)
	}
	if e.Cause.By != "" {
		b.WriteString(", by " + e.Cause.By)
	}
	if e.Command != "" {
		b.WriteString(": " + e.Command)
	}
	if e.Error != "" {
		b.WriteString(": " + e.Error)
	}
	if e.Count > 1 {
		fmt.Fprintf(&b, " (%d times)", e.Count)
	}
	return b.String()
}
