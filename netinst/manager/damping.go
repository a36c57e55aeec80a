package manager

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// What HostTouched is about, where it is no link: a link's name stands for the link of an
// adapter. Each has a token bucket of its own, so that what an app does to its own link holds
// up no repair of the network's bridge, routes or chains.
const (
	TouchNetwork = ""        // the bridge, addresses, routes, policy rules
	TouchPorts   = "ports"   // links of others in the network's bridge
	TouchRules   = "rules"   // chains and tables: only a full look sees them
	TouchLost    = "lost"    // events were lost: anything may have changed
	TouchAsked   = "asked"   // somebody asked for a full look: it waits for nothing
	touchWorld   = "world"   // namespaces and links of others that came or went
	touchUnder   = "beneath" // the host's addresses and routes
)

// The bucket of a touch: the first is looked at at once, the next touchBurst one second
// apart, the others ten. A minute of calm fills it again.
const (
	touchGap   = time.Second
	touchRest  = 10 * time.Second
	touchBurst = 10
	touchCalm  = time.Minute
	// echoTime is how long after an apply a touch may still be what the apply itself did:
	// the kernel tells it before the op returns, and it is read and gathered for 20 ms.
	echoTime = 250 * time.Millisecond
	// contestAfter repairs within contestTime are told as a contest with others.
	contestAfter = 3
	contestTime  = time.Minute
)

// bucket is what was spent of one bucket.
type bucket struct {
	last time.Time
	n    int
	echo bool // the last look may have been at what we did ourselves: it counts if it found work
}

// full says whether a minute of calm has filled the bucket again.
func (b bucket) full(at time.Time) bool { return at.Sub(b.last) >= touchCalm }

// damping paces the looks that touches ask for. The zero value has full buckets.
type damping struct {
	buckets map[string]bucket
	links   time.Time            // the last look at any adapter's link: together they share 1/s
	pending map[string]time.Time // what was touched and not looked at yet, and when
	tok     uint64               // of the timer of the earliest one
	at      time.Time            // when it ends

	looked   time.Time // the last look of the last apply began: what was told before is known
	full     bool      // that look saw chains too
	began    time.Time // the first op of the last apply with any
	ended    time.Time // the end of the last apply that did anything
	failed   map[string]bool
	repairs  []time.Time
	what     string // the last repair
	reported bool   // of the contest
	tellTok  uint64
}

// due is when a touch of what may be looked at.
func (d *damping) due(what string, at time.Time) time.Time {
	b, known := d.buckets[what] // one that is full again has its last look long behind it
	switch {
	case !known:
	case what == touchUnder && b.n < touchBurst: // it rests for routeRest in any case
	case b.n < touchBurst || what == touchUnder:
		at = later(at, b.last.Add(touchGap))
	default:
		at = later(at, b.last.Add(touchRest))
	}
	if isAdapterLink(what) && !d.links.IsZero() {
		at = later(at, d.links.Add(touchGap))
	}
	if d.isEcho(at) {
		at = later(at, d.ended.Add(echoTime))
	}
	return at
}

// spend takes a token for a look at what.
func (d *damping) spend(what string, at time.Time) {
	if d.buckets == nil {
		d.buckets = map[string]bucket{}
	}
	if len(d.buckets) > touchBurst { // full again
		maps.DeleteFunc(d.buckets, func(_ string, b bucket) bool { return b.full(at) })
	}
	b := d.buckets[what]
	if b.full(at) {
		b.n = 0
	}
	b.last, b.echo = at, d.isEcho(d.pending[what])
	if !b.echo {
		b.n++
	}
	d.buckets[what] = b
	if isAdapterLink(what) {
		d.links = at
	}
	delete(d.pending, what)
}

// isEcho says whether what was told at a time may be what the last apply did.
func (d *damping) isEcho(at time.Time) bool {
	return !d.ended.IsZero() && !at.Before(d.began) && !at.After(d.ended.Add(echoTime))
}

// known says whether the last look has seen what a touch tells.
func (d *damping) known(what string, at time.Time) bool {
	return at.Before(d.looked) && (d.full || what != TouchRules && what != TouchLost)
}

// waits says whether a touch waits for the retry of what failed: it is of an object that
// failed, or may be what the failing apply did itself. Chains that others flush do not wait.
func (d *damping) waits(what string, at time.Time) bool {
	return d.failed[what] || d.isEcho(at) && what != TouchRules && what != TouchLost
}

// isAdapterLink says whether a touch is about the link of one adapter.
func isAdapterLink(what string) bool {
	switch what {
	case TouchNetwork, TouchPorts, TouchRules, TouchLost, TouchAsked, touchWorld, touchUnder:
		return false
	}
	return true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// touched has the network looked at, if what was touched may be of interest to it, as soon as
// its bucket allows.
func (m *Manager) touched(e HostTouched) []Effect {
	d, what := &m.damping, e.What
	switch {
	case e.Namespaces && !m.waiting:
		return nil
	case e.Underlay && (m.config.Type != netinst.Switch || len(m.config.Tunnels) == 0):
		return nil
	case what == TouchAsked:
		m.full = true
		return m.change()
	case e.Namespaces:
		what = touchWorld
	case e.Underlay:
		what = touchUnder
	}
	if d.pending == nil {
		d.pending = map[string]time.Time{}
	}
	d.pending[what] = e.At
	return m.checkTouched(e.At)
}

// checkTouched looks at what was touched and is due, and sets a timer for the rest. What is
// told while an apply is under way is judged at its end: most of it is what the apply does.
func (m *Manager) checkTouched(now time.Time) []Effect {
	d := &m.damping
	if m.flight != nil || len(d.pending) == 0 {
		return nil
	}
	var first time.Time
	look := false
	for _, what := range slices.Sorted(maps.Keys(d.pending)) {
		at := d.pending[what]
		if d.known(what, at) || m.failing && m.retryTok != 0 && d.waits(what, at) {
			delete(d.pending, what)
			continue
		}
		due := d.due(what, at)
		if what == touchUnder {
			due = later(due, at.Add(routeRest))
		}
		if due.After(now) {
			if first.IsZero() || due.Before(first) {
				first = due
			}
			continue
		}
		m.full = m.full || what == TouchRules
		d.spend(what, now)
		look = true
	}
	var out []Effect
	if look {
		out = m.change()
	}
	if first.IsZero() || d.tok != 0 && !first.Before(d.at) {
		return out
	}
	m.token++
	d.tok, d.at = m.token, first
	return append(out, Timer{d.tok, first.Sub(now), false})
}

// applyEnded notes what the end of an apply tells of touches: what is known now, what fails,
// and what others had changed.
func (m *Manager) applyEnded(f *flight, e Applied) {
	d := &m.damping
	m.contest(f, e)
	d.looked, d.full = e.Looked, f.full && len(e.Done) == 0
	if len(e.Done)+len(e.Failures) > 0 {
		d.began, d.ended = e.Began, e.At
	}
	d.failed = nil
	for _, x := range e.Failures {
		if x.ID.Kind == netstate.KindLink || x.ID.Kind == netstate.KindPort {
			if d.failed == nil {
				d.failed = map[string]bool{}
			}
			d.failed[x.ID.Name] = true
		}
	}
}

// contest counts what the apply repaired. A look that found work was not at an echo.
func (m *Manager) contest(f *flight, e Applied) {
	d := &m.damping
	repaired := slices.DeleteFunc(m.ledger.repaired(f.desired.State, e.Done), func(r string) bool {
		return strings.HasPrefix(r, "add process ") // it ended by itself, and is paced by that
	})
	if len(repaired) > 0 {
		d.repairs, d.what = append(d.repairs, e.At), repaired[0]
	}
	for what, b := range d.buckets {
		if b.echo {
			b.echo = false
			if len(repaired) > 0 {
				b.n++
			}
			d.buckets[what] = b
		}
	}
	d.forget(e.At)
}

// forget drops repairs that were long ago.
func (d *damping) forget(now time.Time) {
	d.repairs = slices.DeleteFunc(d.repairs, func(at time.Time) bool { return now.Sub(at) >= contestTime })
}

// text tells of a contest, "" without one.
func (d *damping) text() string {
	if len(d.repairs) < contestAfter {
		return ""
	}
	return fmt.Sprintf("changed by others %d times in the last minute, last %s", len(d.repairs), d.what)
}

// publishContest notes that a contest is told, and sets the timer that ends its warning.
func (m *Manager) publishContest() []Effect {
	d := &m.damping
	if d.text() == "" || d.tellTok != 0 {
		return nil
	}
	m.token++
	d.tellTok = m.token
	return []Effect{Timer{d.tellTok, contestTime, false}}
}

// contestOver looks whether a contest has ended, and says so.
func (m *Manager) contestOver(now time.Time) []Effect {
	d := &m.damping
	d.tellTok = 0
	d.forget(now)
	d.reported = d.reported && d.text() != ""
	out := m.publishContest()
	if m.flight == nil && m.shown {
		out = append(out, m.show(m.status.State, m.status.Error)...)
	}
	return out
}

// account says what is told of a contest: that it began, and while it goes on no single repair.
func (d *damping) account(a *ApplyReport) {
	text := d.text()
	if text == "" {
		return
	}
	a.Contest, a.Contested = text, d.reported
	d.reported = true
}
