package fleet

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edgespan/config/layers"
)

// watch checks a node's state machine by its inputs and outputs, with a simple memory of its own.
type watch struct {
	n, twin *Node // the twin gets the same events, and must return the same effects
	set     Settings
	now     time.Time
	saved   Memory // as in the store
	wrong   []string

	known   Known
	desired Desired
	gate    Admission
	stream  string
	here    bool
	report  *ReportReceived // on this stream
	adopted bool
	loses   map[Compare]bool

	pushed   Push
	pushedAt time.Time
	pushedOn string // the stream
	again    bool   // it was the second one in its interval
	arrived  bool   // as far as this controller knows
	began    time.Time
	other    bool // the interval does not apply: the controller died over another push, or a local config ended
	held     bool // by the last report, also on a stream before
	floor    uint64
	failed   map[Digest]layers.Versions
	probed   map[uint64]bool // sent on this stream, after the report of having settled
}

func newWatch(m Memory, s Settings) *watch {
	return &watch{
		n: New("n", m, s), twin: New("n", m, s), set: s, now: noon, saved: m, adopted: m.Adopted, loses: map[Compare]bool{},
		failed: map[Digest]layers.Versions{}, probed: map[uint64]bool{},
	}
}

func (w *watch) complain(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf("%v: ", w.now.Sub(noon))+fmt.Sprintf(format, args...))
}

// before records what an event means according to the rules.
func (w *watch) before(e Event) {
	switch e := e.(type) {
	case Known:
		w.known = e
	case Desired:
		if e.Generation != w.desired.Generation {
			clear(w.probed)
		}
		w.desired = e
	case Connected:
		w.stream, w.here, w.report, w.began = e.Stream, e.Replica == w.set.Replica, nil, w.now
		clear(w.probed)
	case Disconnected:
		if e.Stream == w.stream {
			w.stream, w.here, w.report = "", false, nil
			clear(w.probed)
		}
	case ReportReceived:
		w.reports(e)
	case Admission:
		w.gate = e
	case Compared:
		w.loses[Compare{e.Desired, e.Running}] = len(e.Removes) > 0
	case AdoptionDecided:
		w.adopted = w.adopted || e.Replace
	case Retry:
		delete(w.failed, w.desired.Digest)
		w.floor, w.pushedAt = w.pushed.Attempt, time.Time{}
	case Acked:
		w.arrived = w.arrived || e.Attempt == w.saved.Push.Number
	case Rejected:
		w.answer(e.Attempt, e.Digest, Invalid)
	case Undone:
		w.answer(e.Attempt, e.Digest, e.Reason)
	}
}

func (w *watch) reports(e ReportReceived) {
	if e.Stream != w.stream || w.stream == "" {
		return
	}
	freed := w.held && e.Held == nil
	w.report, w.held = &e, e.Held != nil
	if !w.here {
		return
	}
	w.other = w.other || freed && !w.saved.Push.Undone
	p := w.saved.Push
	w.arrived = w.arrived || e.Digest == p.Digest || e.Pending != nil && e.Pending.Generation == p.Generation
	for d, v := range w.failed {
		if v != e.Versions {
			delete(w.failed, d)
			w.floor = w.pushed.Attempt
		}
	}
	if e.Pending == nil {
		delete(w.failed, e.Digest)
	}
}

// answer records a node's answer to an attempt: it counts for the last one whatever digest it contains.
func (w *watch) answer(attempt uint64, d Digest, r Reason) {
	last := w.saved.Push
	if attempt == last.Number {
		d = last.Digest
	}
	if _, had := w.failed[d]; !had && attempt > w.floor && attempt <= last.Number && r != Unconfirmed {
		w.failed[d] = last.For
	}
}

// step gives an event to both; only the first done effects are carried out.
func (w *watch) step(e Event, done int) (crashed bool) {
	w.before(e)
	effects, same := w.n.Step(w.now, e), w.twin.Step(w.now, e)
	if !reflect.DeepEqual(effects, same) {
		w.complain("%T: %s and %s", e, tell(effects, w.now), tell(same, w.now))
	}
	if lines := w.n.Explain(w.now); len(lines) < 2 ||
		slices.ContainsFunc(lines, func(s string) bool { return strings.TrimSpace(s) != s || s == "" }) {
		w.complain("explained by %q", lines)
	}
	for i, effect := range effects {
		if i >= done {
			return true
		}
		w.effect(e, effect)
	}
	return false
}

func (w *watch) effect(e Event, effect Effect) {
	switch effect := effect.(type) {
	case Save:
		w.saved = effect.Memory
		if w.report != nil && w.here && w.report.Digest == w.desired.Digest { // no progress to lose
			w.adopted = w.adopted || effect.Adopted
		}
	case Push:
		w.push(effect)
	case Probe:
		if r := w.report; r != nil && r.Pending != nil && r.Pending.Settled {
			w.probed[effect.Probe] = true
		}
	case Confirm:
		a, ok := e.(Answered)
		if !ok || !w.probed[a.Probe] || a.Stream != w.stream || a.Generation != w.desired.Generation ||
			a.Digest != w.desired.Digest || len(a.Worse) > 0 {
			w.complain("confirmed by %+v", e)
		}
	case SetManaged, Release:
		if !w.here || !w.known.Joined {
			w.complain("%T to a node that is not here", effect)
		}
	case RequestBaseConfig:
		if !w.set.Queries || !w.desired.Unknown || !w.desired.Managed {
			w.complain("it is asked for its base config")
		}
	}
}

// push checks a push against every rule.
func (w *watch) push(p Push) {
	r := w.report
	for what, bad := range map[string]bool{
		"it is not the desired one":          p.Digest != w.desired.Digest || p.Generation != w.desired.Generation,
		"the node has not joined":            !w.known.Joined,
		"its stream is not here":             !w.here,
		"nothing was reported on it":         r == nil,
		"the layers make no config":          w.desired.Fault != "",
		"the node is not managed":            !w.desired.Managed,
		"it is HeldLocally":                  r != nil && r.Held != nil,
		"it was computed for other versions": r != nil && r.Versions != w.desired.For,
		"whole is the difference":            r != nil && p.Whole != (r.Digest != p.Digest || r.Digest.Config == ""),
	} {
		if bad {
			w.complain("push of %s: %s", p.Digest, what)
		}
	}
	if !p.Whole || r == nil {
		return
	}
	loses, compared := w.loses[Compare{p.Digest, r.Digest}]
	_, failed := w.failed[p.Digest]
	soon := p.Digest == w.pushed.Digest && w.pushed.Attempt > 0 && !w.other && w.now.Sub(w.pushedAt) < w.set.Interval
	lost := w.stream != w.pushedOn && !w.arrived && !w.again && !w.saved.Push.Undone && w.now.Sub(w.began) >= w.set.Resend
	for what, bad := range map[string]bool{
		"the hardware is UnknownNode":         w.desired.Unknown,
		"it failed, and nothing changed":      failed,
		"the rollout has not come to it":      w.gate.Staged && w.gate.Open != p.Digest,
		"it may remove objects":               !w.adopted && (loses || !compared),
		"the same was pushed in the interval": soon && !lost,
		"the number of the attempt repeats":   p.Attempt <= w.pushed.Attempt,
		"it was not stored first":             w.saved.Push.Number != p.Attempt || w.saved.Push.Digest != p.Digest,
		"it has no time to be confirmed in":   p.Confirm != w.set.Confirm,
	} {
		if bad {
			w.complain("push of %s: %s", p.Digest, what)
		}
	}
	w.pushed, w.pushedAt, w.adopted, w.other = p, w.now, true, false
	w.pushedOn, w.again, w.arrived = w.stream, soon, false
}

// restart starts another controller with the stored state.
func (w *watch) restart() {
	w.n, w.twin = New("n", w.saved, w.set), New("n", w.saved, w.set)
	w.known, w.desired, w.gate, w.stream, w.here, w.report = Known{}, Desired{}, Admission{}, "", false, nil
	w.adopted, w.loses, w.floor = w.saved.Adopted, map[Compare]bool{}, w.saved.Floor
	w.other = w.saved.Push.Digest != w.pushed.Digest || w.saved.Push.At.IsZero()
	w.held, w.arrived = false, false
	w.pushed.Attempt = max(w.pushed.Attempt, w.saved.Push.Number)
	clear(w.probed)
	clear(w.failed)
	for _, f := range w.saved.Failures { // what was not stored was not acknowledged, and the node repeats it
		w.failed[f.Digest] = f.For
	}
}

func pick[T any](t *rapid.T, name string, of ...T) T { return rapid.SampledFrom(of).Draw(t, name) }

func anyEvent(t *rapid.T, w *watch) Event {
	digest := func() Digest {
		return pick(t, "digest", a, b, Digest{"A", "P"}, w.desired.Digest, w.desired.Digest, w.pushed.Digest)
	}
	versions := func() layers.Versions { return pick(t, "versions", v1, v1, v1, v1, v1, v2) }
	generation := func() Generation {
		return pick(t, "generation", gen(1), gen(2), w.desired.Generation, w.desired.Generation, w.desired.Generation)
	}
	rare := func(name string) bool { return rapid.IntRange(0, 7).Draw(t, name) == 0 }
	stream := func() string { return pick(t, "stream", "1", "2", w.stream, w.stream, w.stream, w.stream) }
	attempt := func() uint64 { return pick(t, "attempt", 1, 2, w.pushed.Attempt, w.pushed.Attempt, w.pushed.Attempt+1) }
	switch rapid.IntRange(0, 26).Draw(t, "event") {
	case 0:
		return Known{Topology: rapid.Bool().Draw(t, "topology"), Joined: !rare("left"),
			Token: pick(t, "token", time.Time{}, w.now.Add(time.Minute))}
	case 1, 2, 3:
		x := Desired{Digest: digest(), Generation: generation(), For: versions(), Managed: !rare("unmanaged"),
			Unknown: rare("unknown")}
		if rare("fault") {
			x.Fault, x.Digest = "x", Digest{}
		}
		return x
	case 4, 5:
		return Connected{pick(t, "new stream", "1", "2", "3"), pick(t, "replica", "me", "me", "me", "other")}
	case 6:
		return Disconnected{stream()}
	case 7:
		return Admission{Staged: rapid.Bool().Draw(t, "staged"), Open: digest()}
	case 8:
		return pick[Event](t, "decision", AdoptionDecided{true}, AdoptionDecided{false}, ReleaseAsked{"ben"}, Retry{})
	case 9, 10:
		c := Compare{w.desired.Digest, digest()}
		if w.report != nil {
			c.Running = w.report.Digest
		}
		return Compared{c.Desired, c.Running, pick(t, "removes", nil, []string{"x"})}
	case 11:
		return pick[Event](t, "arrived", Acked{attempt()}, NotStored{attempt(), digest(), "x"})
	case 12:
		return Rejected{attempt(), digest(), "x"}
	case 13, 14:
		return Undone{attempt(), digest(), pick(t, "reason", Unhealthy, Unconfirmed, Unconfirmed), "x"}
	case 15, 16:
		return Answered{stream(), uint64(rapid.IntRange(1, 5).Draw(t, "probe")), generation(), digest(),
			pick(t, "worse", nil, nil, []string{"x"})}
	case 17:
		return Asked{rapid.Bool().Draw(t, "granted"), w.now.Add(time.Minute)}
	case 18:
		return Tick{}
	}
	r := ReportReceived{Stream: stream(), Digest: digest(), Generation: generation(), Versions: versions(),
		Managed: pick(t, "echo", &yes, &yes, &no, nil)}
	if rare("held") {
		r.Held = &Held{"eva", w.now}
	}
	if rapid.IntRange(0, 3).Draw(t, "pending") == 0 {
		r.Pending = &PendingConfig{Generation: generation(), Settled: !rare("unsettled"),
			Worse: pick(t, "worse", nil, nil, []string{"x"})}
	}
	return r
}

// Over any events in any order, with controllers that crash between any two effects, no push breaks a rule; and once
// the node reports its desired config, nothing more is sent.
func TestPropertyNoPushBreaksARule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Defaults("me")
		s.Queries = rapid.Bool().Draw(t, "queries")
		w := newWatch(Memory{Adopted: rapid.Bool().Draw(t, "adopted")}, s)
		begin := func() {
			for _, e := range []Event{Known{Joined: true}, want(a, 1), Connected{"1", "me"}} {
				w.step(e, 99)
			}
		}
		begin()
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			w.now = w.now.Add(pick(t, "after", 0, 0, time.Second, 5*time.Second, 15*time.Second, 60*time.Second,
				120*time.Second))
			done := 99
			if rapid.IntRange(0, 40).Draw(t, "crash") == 0 {
				done = rapid.IntRange(0, 2).Draw(t, "done")
			}
			if w.step(anyEvent(t, w), done) {
				w.restart()
				begin()
			}
		}
		w.quiet()
		if w.wrong != nil {
			t.Fatal(strings.Join(w.wrong, "\n"))
		}
	})
}

// quiet repairs the node, and expects that nothing more is done about it.
func (w *watch) quiet() {
	for _, e := range []Event{Known{Joined: true}, Admission{}, want(a, 9), Connected{"9", "me"}} {
		w.step(e, 99)
	}
	r := has(a, 9)
	r.Stream = "9"
	w.step(r, 99)
	for range 30 {
		w.now = w.now.Add(5 * time.Second)
		for _, e := range []Event{r, Tick{}} {
			if effects := w.n.Step(w.now, e); effects != nil {
				w.complain("in sync, and still: %s", tell(effects, w.now))
			}
		}
	}
	if got := w.n.State(w.now); got != InSync {
		w.complain("at the end it is %s", got)
	}
	w.twin = New("n", w.n.Memory(), w.set) // it was left behind
}
