package probe

import (
	"cmp"
	"slices"
	"time"
)

// State is what the outcomes of a probe, or of all probes of a port, say.
type State string

// The states. Unknown counts as working: what was not asked yet moves no network.
const (
	Unknown State = "unknown"
	Works   State = "works"
	Fails   State = "fails"
)

// window is the number of outcomes over which loss is measured.
const window = 32

// health is what is known of one probe.
type health struct {
	outcomes Outcomes // that were judged last
	state    State
	streak   int // successes in a row, or failures if negative
	lost     []bool
	usual    []bool        // the same without the failures with which it failed and those after: what it loses as it works
	latency  time.Duration // moving average
	last     string        // the last error, of one that fails that with which it failed: others would be news each time
	none     bool          // it can't be sent
}

// successor returns what is known of a probe before its first outcome: as many failures in a row as the best of those
// that it follows, but one fewer than it takes to fail.
func successor(before []*health, failAfter int) *health {
	h := &health{state: Unknown}
	if len(before) == 0 {
		return h
	}
	best := slices.MaxFunc(before, func(a, b *health) int { return cmp.Compare(a.streak, b.streak) })
	h.streak = max(min(best.streak, 0), 1-failAfter)
	return h
}

// facts are what a choice and its scores follow from.
type facts struct {
	state   State
	none    bool
	loss    int
	latency time.Duration
	last    string
}

func (h *health) facts() facts { return facts{h.state, h.none, h.loss(), rounded(h.latency), h.last} }

// learn takes over the outcomes that are new, and reports whether the facts have changed.
func (h *health) learn(o Outcomes, c Config) (changed bool) {
	before := h.facts()
	for _, out := range o.Since(h.outcomes.Count) {
		h.add(out, c)
	}
	h.outcomes = o
	return h.facts() != before
}

func (h *health) add(o Outcome, c Config) {
	// What can't be asked any more says nothing new: other programs may move the host's routes away from a dead port.
	if h.none = o.None && h.state != Fails; o.None {
		return
	}
	h.lost = append(h.lost, !o.OK())
	h.lost = h.lost[max(0, len(h.lost)-window):]
	if !o.OK() {
		h.streak = min(h.streak, 0) - 1
		if h.state == Fails {
			return
		}
		if h.last = o.Error; -h.streak >= h.failAfter(c) {
			h.state = Fails
		}
		return
	}
	if h.state != Fails {
		h.usual = append(append(h.usual, slices.Repeat([]bool{true}, max(-h.streak, 0))...), false)
		h.usual = h.usual[max(0, len(h.usual)-window):]
	}
	h.streak = max(h.streak, 0) + 1
	if h.latency == 0 {
		h.latency = o.Took
	}
	h.latency += (o.Took - h.latency) / 8 // as a TCP connection averages its round trips (RFC 6298)
	if h.state == Unknown || h.state == Fails && h.streak >= c.recoverAfter() {
		h.state = Works
	}
}

// failAfter returns how many failures in a row make the probe fail. Without a configured number it is one more for each
// lossStep percent that the probe loses as it works, and no more than are sent quickly: otherwise an uplink that loses
// much would be taken for a dead one.
func (h *health) failAfter(c Config) int {
	if c.FailAfter != 0 {
		return c.FailAfter
	}
	return min(DefaultFailAfter+percent(h.usual)/lossStep, quickShots)
}

const lossStep = 8

// loss returns the percentage of lost shots.
func (h *health) loss() int { return percent(h.lost) }

func percent(list []bool) int {
	if len(list) == 0 {
		return 0
	}
	n := 0
	for _, l := range list {
		if l {
			n++
		}
	}
	return (100*n + len(list)/2) / len(list)
}

// combined is the state of several probes of which a quorum must work; Works for none.
func combined(list []*health, quorum int) State {
	works, fails := 0, 0
	for _, h := range list {
		switch h.state {
		case Works:
			works++
		case Fails:
			fails++
		}
	}
	quorum = min(max(quorum, 1), len(list))
	switch {
	case works >= quorum:
		return Works
	case len(list)-fails < quorum:
		return Fails
	}
	return Unknown
}
