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

// Subjects of HostTouched other than the link of an adapter, which is named by its interface name. A touch is one
// HostTouched: a subject may have changed, or an operator asked. Each subject has its own token bucket, so that changes
// an app makes to its own link do not delay repairs of the network's bridge, routes or chains.
const (
	TouchNetwork    = ""           // the bridge, addresses, routes, policy rules
	TouchPorts      = "ports"      // links of other programs in the network's bridge
	TouchRules      = "rules"      // chains and tables: only a full observation reads them
	TouchLost       = "lost"       // events were lost: anything may have changed
	TouchAsked      = "asked"      // an operator asked for a full observation: never delayed
	TouchMoved      = "moved"      // edgespan itself may have removed what led to the network: never delayed
	touchNamespaces = "namespaces" // namespaces and links of other programs that appeared or disappeared
	touchRouting    = "routing"    // the host's addresses and routes
)

// The bucket of a subject: the first touch is observed at once, the next touchBurst ones one second apart, later ones
// ten seconds apart. A minute without touches fills the bucket again.
const (
	touchGap   = time.Second
	touchRest  = 10 * time.Second
	touchBurst = 10
	touchCalm  = time.Minute
	// echoTime is how long after an apply a touch may still come from the apply itself: the kernel reports it before the
	// op returns, and events are read and collected for 20 ms.
	echoTime = 250 * time.Millisecond
	// contestAfter repairs within contestTime count as a contest: another program keeps changing the same objects.
	contestAfter = 3
	contestTime  = time.Minute
)

// bucket is the token bucket of one subject.
type bucket struct {
	last time.Time
	n    int
	echo bool // the last observation may have been of the last apply's own changes: it counts if it found work
}

// full reports whether a minute without touches has filled the bucket again.
func (b bucket) full(at time.Time) bool { return at.Sub(b.last) >= touchCalm }

// damping paces the observations that touches request. The zero value has full buckets.
type damping struct {
	buckets  map[string]bucket
	links    time.Time            // the last observation of any adapter's link: all of them share 1/s
	pending  map[string]time.Time // subjects touched and not yet observed, and the time
	timerTok uint64               // of the timer of the earliest of them
	timerAt  time.Time            // when it ends

	observedAt time.Time // start of the last observation of the last apply: earlier touches are covered by it
	full       bool      // that observation read chains too
	began      time.Time // the first op of the last apply that had any
	ended      time.Time // the end of the last apply that had any ops
	failed     map[string]bool
	repairs    []time.Time
	what       string // the last repair
	reported   bool   // the contest was reported
	contestTok uint64
}

// due returns when a touch of the subject may be observed.
func (d *damping) due(what string, at time.Time) time.Time {
	b, known := d.buckets[what] // the last observation for a full bucket was long ago
	switch {
	case !known:
	case what == touchRouting && b.n < touchBurst: // it waits for routeRest in any case
	case b.n < touchBurst || what == touchRouting || what == touchNamespaces: // what waits has no other retry as soon
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

// spend takes a token for an observation of the subject.
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

// isEcho reports whether a touch at that time may come from the last apply.
func (d *damping) isEcho(at time.Time) bool {
	return !d.ended.IsZero() && !at.Before(d.began) && !at.After(d.ended.Add(echoTime))
}

// covers reports whether the last observation covers a touch.
func (d *damping) covers(what string, at time.Time) bool {
	return at.Before(d.observedAt) && (d.full || what != TouchRules && what != TouchLost)
}

// waits reports whether a touch waits for the retry of failed ops: its subject failed, or the touch may come from the
// failing apply itself. Touches of chains that other programs flush do not wait.
func (d *damping) waits(what string, at time.Time) bool {
	return d.failed[what] || d.isEcho(at) && what != TouchRules && what != TouchLost
}

// isAdapterLink reports whether a subject is the link of one adapter.
func isAdapterLink(what string) bool {
	switch what {
	case TouchNetwork, TouchPorts, TouchRules, TouchLost, TouchAsked, TouchMoved, touchNamespaces,
		touchRouting:
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

// slowestWait returns the longest time between two retries of what waits. Where a HostEvent reports the appearance of
// all of it, touched applies at once, and the retry is for an event that was lost.
func slowestWait(fs []netstate.OpFailure) time.Duration {
	if slices.ContainsFunc(fs, func(x netstate.OpFailure) bool { return !x.Announced && !x.Blocked }) {
		return waitRetry
	}
	return retries.Max
}

// touched schedules an observation of the network, if the touch may concern it, as soon as its bucket allows.
func (m *Manager) touched(e HostTouched) []Effect {
	d, what := &m.damping, e.What
	switch {
	case e.Namespaces && !m.waiting:
		return nil
	case e.HostRouting && (m.config.Type != netinst.Switch || len(m.config.Tunnels) == 0):
		return nil
	case what == TouchAsked, what == TouchMoved:
		m.full, m.anew = true, m.anew || what == TouchMoved
		return m.change()
	case e.Namespaces:
		what = touchNamespaces
	case e.HostRouting:
		what = touchRouting
	}
	if d.pending == nil {
		d.pending = map[string]time.Time{}
	}
	d.pending[what] = e.At
	return m.checkTouched(e.At)
}

// checkTouched starts an observation for the touches that are due, and sets a timer for the rest. Touches that arrive
// during an apply are examined at its end: most of them come from the apply.
func (m *Manager) checkTouched(now time.Time) []Effect {
	d := &m.damping
	if m.flight != nil || len(d.pending) == 0 {
		return nil
	}
	var first time.Time
	look := false
	for _, what := range slices.Sorted(maps.Keys(d.pending)) {
		at := d.pending[what]
		if d.covers(what, at) || m.failing && m.retryTok != 0 && d.waits(what, at) {
			delete(d.pending, what)
			continue
		}
		due := d.due(what, at)
		if what == touchRouting {
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
	if first.IsZero() || d.timerTok != 0 && !first.Before(d.timerAt) {
		return out
	}
	m.token++
	d.timerTok, d.timerAt = m.token, first
	return append(out, Timer{d.timerTok, first.Sub(now), false})
}

// applyEnded updates the touches from the end of an apply: what is known now, what fails, and what other programs had
// changed.
func (m *Manager) applyEnded(f *flight, e Applied) {
	d := &m.damping
	m.countRepairs(f, e)
	d.observedAt, d.full = e.ObservedAt, f.full && len(e.Done) == 0
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

// countRepairs counts the repairs of the apply. An observation that found work was no echo.
func (m *Manager) countRepairs(f *flight, e Applied) {
	d := &m.damping
	repaired := slices.DeleteFunc(m.ledger.repaired(f.desired.State, e.Done), func(r string) bool {
		return strings.HasPrefix(r, "add process ") // it ended by itself; restarts have their own back-off
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

// forget drops repairs older than contestTime.
func (d *damping) forget(now time.Time) {
	d.repairs = slices.DeleteFunc(d.repairs, func(at time.Time) bool { return now.Sub(at) >= contestTime })
}

// text describes a contest, "" if there is none.
func (d *damping) text() string {
	if len(d.repairs) < contestAfter {
		return ""
	}
	return fmt.Sprintf("changed by others %d times in the last minute, last %s", len(d.repairs), d.what)
}

// publishContest marks the contest as reported, and sets the timer that ends its warning.
func (m *Manager) publishContest() []Effect {
	d := &m.damping
	if d.text() == "" || d.contestTok != 0 {
		return nil
	}
	m.token++
	d.contestTok = m.token
	return []Effect{Timer{d.contestTok, contestTime, false}}
}

// endContest checks whether a contest has ended, and reports that.
func (m *Manager) endContest(now time.Time) []Effect {
	d := &m.damping
	d.contestTok = 0
	d.forget(now)
	d.reported = d.reported && d.text() != ""
	out := m.publishContest()
	if m.flight == nil && m.shown {
		out = append(out, m.show(m.status.State, m.status.Error)...)
	}
	return out
}

// addToReport adds the contest to an apply report: its beginning is reported, and no single repair while it lasts.
func (d *damping) addToReport(a *ApplyReport) {
	text := d.text()
	if text == "" {
		return
	}
	a.Contest, a.Contested = text, d.reported
	d.reported = true
}
