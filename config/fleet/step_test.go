package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/config/layers"
)

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	yes  = true
	no   = false

	v1 = layers.Versions{Software: "EDGESPAN-1-0-0", Board: "b1"}
	v2 = layers.Versions{Software: "EDGESPAN-1-1-0", Board: "b1"}

	a, b = Digest{Config: "A"}, Digest{Config: "B"}
)

func gen(counter uint64) Generation { return Generation{Authority: "s", Counter: counter} }

// want returns a managed node's desired config for v1.
func want(d Digest, counter uint64) Desired {
	return Desired{Digest: d, Generation: gen(counter), For: v1, Managed: true}
}

// has returns a report on stream 1 of a node that knows that it is managed.
func has(d Digest, counter uint64) ReportReceived {
	r := ReportReceived{Stream: "1", Digest: d, Versions: v1, Managed: &yes}
	if counter > 0 {
		r.Generation = gen(counter)
	}
	return r
}

// on returns a report of another config on another stream.
func on(stream string) ReportReceived {
	return with(has(b, 0), func(r *ReportReceived) { r.Stream = stream })
}

// runs returns such a report of a node whose config is not confirmed yet.
func runs(d Digest, counter uint64, p PendingConfig) ReportReceived {
	r := has(d, counter)
	p.Generation, p.Remaining = gen(counter), 90*time.Second
	r.Pending = &p
	return r
}

// with changes a report or a desired config.
func with[T any](v T, change func(*T)) T {
	change(&v)
	return v
}

// tell formats effects as one sentence. Stored memory is left out; tests that need it look at it directly.
func tell(effects []Effect, last time.Time) string {
	var out []string
	for _, e := range effects {
		switch e := e.(type) {
		case Push:
			if e.Whole {
				out = append(out, fmt.Sprintf("push#%d %s %s", e.Attempt, e.Digest, e.Generation))
			} else {
				out = append(out, "number "+e.Generation.String())
			}
		case SetManaged:
			out = append(out, fmt.Sprintf("tell managed=%v", e.Managed))
		case Probe:
			out = append(out, fmt.Sprintf("probe#%d", e.Probe))
		case Confirm:
			out = append(out, "confirm "+e.Generation.String())
		case Release:
			out = append(out, "release")
		case Compute:
			out = append(out, "compute "+e.Software)
		case Compare:
			out = append(out, fmt.Sprintf("compare %s with %s", e.Running, e.Desired))
		case RequestBaseConfig:
			out = append(out, "ask "+e.Board)
		case SetTimer:
			if e.At.IsZero() {
				out = append(out, "no timer")
			} else {
				out = append(out, "timer "+e.At.Sub(last).String())
			}
		case Save:
			out = append(out, "save")
		case Status:
			out = append(out, "is "+string(e.state))
		}
	}
	return strings.Join(out, ", ")
}

type step struct {
	after time.Duration // since the step before
	event Event
	want  string
}

// adopted is the memory of a node that the controller has pushed to before.
var adopted = Memory{Adopted: true}

// joined returns the steps that bring a known node to its first report.
func joined(more ...step) []step {
	return append([]step{
		{0, Known{Topology: true, Joined: true}, "is Offline"},
		{0, want(a, 1), "is Offline"},
		{0, Connected{"1", "me"}, "tell managed=true, is NoReport"},
	}, more...)
}

func run(t *testing.T, name string, n *Node, steps []step) time.Time {
	t.Helper()
	now := noon
	for i, s := range steps {
		now = now.Add(s.after)
		if got := tell(n.Step(now, s.event), now); got != s.want {
			t.Errorf("%s: step %d, %T: %s\nwant %s", name, i+1, s.event, got, s.want)
			return now
		}
	}
	return now
}

const (
	pushA = "save, push#1 A s:1, is waiting, timer 2m0s"
	sec   = time.Second
)

// Seed, "Syncing Configuration".
func TestSeed_Syncing(t *testing.T) {
	for _, c := range []struct {
		name  string
		m     Memory
		steps []step
	}{
		{"nodes send an MD5 hash in their reports, and a mismatch is pushed", adopted, joined(
			step{0, has(b, 0), pushA},
			step{5 * sec, has(b, 0), ""},
		)},
		{"no mismatch, no push", adopted, joined(
			step{0, has(a, 1), "is InSync"},
			step{5 * sec, has(a, 1), ""},
		)},
		{"nothing is pushed before a report on the stream of now", adopted, joined(
			step{0, has(a, 1), "is InSync"},
			step{0, Disconnected{"1"}, "is Offline"},
			step{0, want(b, 2), "is Offline"},
			step{0, Connected{"2", "me"}, "tell managed=true, is NoReport"},
			step{0, has(a, 1), ""},
			step{0, with(has(a, 1), func(r *ReportReceived) { r.Stream = "2" }), "save, push#1 B s:2, is waiting, timer 2m0s"},
		)},
		{"there is a fixed interval between consecutive pushes to the same node", adopted, joined(
			step{0, has(b, 0), pushA},
			step{60 * sec, has(b, 0), ""},
			step{59 * sec, Tick{}, "timer 1s"},
			step{1 * sec, Tick{}, "save, push#2 A s:1, timer 2m0s"},
			step{119 * sec, has(b, 0), ""},
			step{1 * sec, has(b, 0), "save, push#3 A s:1, timer 2m0s"},
		)},
		{"this delay is reset by a config change", adopted, joined(
			step{0, has(b, 0), pushA},
			step{5 * sec, want(Digest{Config: "C"}, 2), "save, push#2 C s:2, is waiting, timer 2m0s"},
			step{5 * sec, want(Digest{Config: "C"}, 2), ""},
		)},
		{"and by none that leaves this node's config alone", adopted, joined(
			step{0, has(b, 0), pushA},
			step{5 * sec, want(a, 2), ""},
			step{114 * sec, Tick{}, "timer 1s"},
		)},
		{"the interval survives the controller", Memory{Adopted: true,
			Push: Attempt{Number: 7, Generation: gen(1), Digest: a, At: noon.Add(-time.Minute)}}, joined(
			step{0, has(b, 0), "is waiting, timer 1m0s"},
			step{60 * sec, Tick{}, "save, push#8 A s:1, timer 2m0s"},
		)},
		{"a clock that was set back delays a push by one interval at most",
			Memory{Adopted: true, Push: Attempt{Number: 7, Generation: gen(1), Digest: a, At: noon.Add(1000 * time.Hour)}},
			joined(
				step{0, has(b, 0), "is waiting, timer 2m0s"},
				step{120 * sec, Tick{}, "save, push#8 A s:1, timer 2m0s"},
			)},
		{"the PeerConfiguration counts as the config does", adopted, joined(
			step{0, has(a, 1), "is InSync"},
			step{0, want(Digest{"A", "P"}, 2), "save, push#1 A/P s:2, is waiting, timer 2m0s"},
			step{0, has(Digest{"A", "P"}, 2), "is InSync, no timer"},
		)},
		{"where both are equal only the number is sent", adopted, joined(
			step{0, has(a, 0), "number s:1, is renumbering, timer 15s"},
			step{5 * sec, has(a, 0), ""},
			step{5 * sec, has(a, 1), "is InSync, no timer"},
			step{0, want(a, 2), "number s:2, is renumbering, timer 15s"},
			step{15 * sec, Tick{}, "number s:2, timer 15s"},
		)},
		{"an unreadable config is a mismatch: in the original nothing is ever pushed", adopted, joined(
			step{0, has(Digest{}, 0), pushA},
		)},
		{"a push that arrived and one that did not are pushed again alike", adopted, joined(
			step{0, has(b, 0), pushA},
			step{0, Acked{1}, ""},
			step{120 * sec, Tick{}, "save, push#2 A s:1, timer 2m0s"},
		)},
		{"a push that its stream took with it is made again on the next one, once in the interval", adopted, joined(
			step{0, has(b, 0), pushA},
			step{1 * sec, Disconnected{"1"}, "is Offline, no timer"},
			step{9 * sec, Connected{"2", "me"}, "tell managed=true, is NoReport"},
			step{0, on("2"), "is waiting, timer 15s"},
			step{15 * sec, Tick{}, "save, push#2 A s:1, timer 2m0s"},
			step{1 * sec, Connected{"3", "me"}, "tell managed=true, is NoReport, no timer"},
			step{0, on("3"), "is waiting, timer 1m59s"},
			step{119 * sec, Tick{}, "save, push#3 A s:1, timer 2m0s"},
			step{0, Connected{"4", "me"}, "tell managed=true, is NoReport, no timer"},
			step{0, on("4"), "is waiting, timer 15s"},
		)},
		{"nor is one that arrived, or that the node works on, rejected or undid", adopted, joined(
			step{0, has(b, 0), pushA},
			step{0, Acked{1}, ""},
			step{0, Connected{"2", "me"}, "tell managed=true, is NoReport, no timer"},
			step{0, on("2"), "is waiting, timer 2m0s"},
			step{0, want(Digest{Config: "C"}, 2), "save, push#2 C s:2, is waiting"},
			step{0, Connected{"3", "me"}, "tell managed=true, is NoReport, no timer"},
			step{0, with(on("3"), func(r *ReportReceived) { r.Pending = &PendingConfig{Generation: gen(2)} }), "is applying"},
			step{60 * sec, on("3"), "is waiting, timer 1m0s"},
			step{0, want(Digest{Config: "D"}, 3), "save, push#3 D s:3, is waiting, timer 2m0s"},
			step{0, Connected{"4", "me"}, "tell managed=true, is NoReport, no timer"},
			step{0, on("4"), "is waiting, timer 15s"},
			step{0, Undone{3, Digest{Config: "D"}, Unconfirmed, ""}, "save, timer 2m0s"},
			step{0, want(Digest{Config: "E"}, 4), "save, push#4 E s:4, is waiting"},
			step{0, Connected{"5", "me"}, "tell managed=true, is NoReport, no timer"},
			step{0, on("5"), "is waiting, timer 15s"},
			step{0, Rejected{4, Digest{Config: "E"}, "x"}, "save, is RolledBack, no timer"},
			step{0, Rejected{3, Digest{}, "of what no config is"}, ""},
			step{0, TooLarge{}, "save, is waiting, timer 15s"},
			step{0, TooLarge{}, ""},
		)},
		{"a local config that ends again and again ends the interval each 15 s", adopted, joined(
			step{0, has(b, 0), pushA},
			step{1 * sec, with(has(b, 0), func(r *ReportReceived) { r.Held = &Held{By: "eva"} }), "is HeldLocally, no timer"},
			step{0, has(b, 0), "save, save, push#2 A s:1, is waiting, timer 2m0s"},
			step{5 * sec, with(has(b, 0), func(r *ReportReceived) { r.Held = &Held{By: "eva"} }), "is HeldLocally, no timer"},
			step{0, has(b, 0), "is waiting, timer 1m55s"},
			step{10 * sec, with(has(b, 0), func(r *ReportReceived) { r.Held = &Held{By: "eva"} }), "is HeldLocally, no timer"},
			step{0, has(b, 0), "save, save, push#3 A s:1, is waiting, timer 2m0s"},
		)},
		{"another replica makes it again as well", Memory{Adopted: true,
			Push: Attempt{Number: 7, Generation: gen(1), Digest: a, At: noon, On: "other/7"}}, joined(
			step{0, has(b, 0), "is waiting, timer 15s"},
			step{15 * sec, Tick{}, "save, push#8 A s:1, timer 2m0s"},
		)},
		{"a node that works on what was pushed is left to it", adopted, joined(
			step{0, has(b, 0), pushA},
			step{5 * sec, with(has(b, 0), func(r *ReportReceived) { r.Pending = &PendingConfig{Generation: gen(1)} }),
				"is applying, no timer"},
			step{200 * sec, Tick{}, ""},
			step{0, has(b, 0), "save, push#2 A s:1, is waiting, timer 2m0s"},
		)},
		{"another version of anything makes a config anew, firmware too, and nothing is pushed meanwhile", adopted, joined(
			step{0, has(b, 0), pushA},
			step{5 * sec, with(has(b, 0), func(r *ReportReceived) { r.Firmware = "10.1" }),
				"compute EDGESPAN-1-0-0, is computing, no timer"},
			step{120 * sec, with(has(b, 0), func(r *ReportReceived) { r.Firmware = "10.1" }), ""},
			step{0, want(Digest{Config: "C"}, 2), "is computing"},
			step{0, with(want(Digest{Config: "C"}, 3), func(w *Desired) { w.For.Firmware = "10.1" }),
				"save, push#2 C s:3, is waiting, timer 2m0s"},
		)},
		{"layers that clash make no config, and nothing is pushed", adopted, joined(
			step{0, Desired{Generation: gen(1), For: v1, Fault: "ports: invalid type object"}, "is NoReport"},
			step{0, has(b, 0), "is ConfigError"},
			step{0, want(a, 2), "save, push#1 A s:2, is waiting, timer 2m0s"},
		)},
		{"a node with two boards after another has the config of the one that it reports", adopted, joined(
			step{0, has(a, 1), "is InSync"},
			step{0, with(has(a, 1), func(r *ReportReceived) { r.Board = "b2" }), "compute EDGESPAN-1-0-0, is computing"},
			step{0, with(want(b, 2), func(w *Desired) { w.For.Board = "b2" }), "save, push#1 B s:2, is waiting, timer 2m0s"},
			step{0, has(a, 1), "compute EDGESPAN-1-0-0, is computing, no timer"},
			step{0, want(a, 3), "number s:3, is renumbering, timer 15s"},
		)},
	} {
		run(t, c.name, New("n", c.m, Defaults("me")), c.steps)
	}
}

// A rollout takes a node for cut off by a config if it has received it and is not done with it.
func TestWhoIsAtWork(t *testing.T) {
	pushed := func(more ...step) []step { return joined(append([]step{{0, has(b, 0), pushA}}, more...)...) }
	for _, c := range []struct {
		name          string
		steps         []step
		atWork, undid bool
	}{
		{"nothing was pushed", joined(step{0, has(a, 1), "is InSync"}), false, false},
		{"pushed, and nobody knows whether it arrived", pushed(), false, false},
		{"it has arrived", pushed(step{sec, Acked{1}, ""}), true, false},
		{"another push has", pushed(step{sec, Acked{7}, ""}), false, false},
		{"it has, and found no room", pushed(step{sec, NotStored{Attempt: 1, Digest: a, Why: "full"}, "is waiting"}), false,
			false},
		{"it works on it", pushed(step{sec, runs(b, 1, PendingConfig{}), "is applying, no timer"}), true, false},
		{"it runs it, not settled", pushed(step{sec, runs(a, 1, PendingConfig{}), "is settling, no timer"}), true, false},
		{"it runs it, worse than before",
			pushed(step{sec, runs(a, 1, PendingConfig{Settled: true, Worse: []string{"x"}}), "is Degraded, no timer"}), true,
			false},
		{"it is to be confirmed",
			pushed(step{sec, runs(a, 1, PendingConfig{Settled: true}), "probe#1, is confirming, timer 15s"}),
			true, false},
		{"confirmed", pushed(step{sec, has(a, 1), "is InSync, no timer"}), false, false},
		{"undone: not confirmed", pushed(step{0, Undone{Attempt: 1, Digest: a, Reason: Unconfirmed}, "save"}), false,
			true},
		{"which is forgotten by a retry", pushed(step{0, Undone{Attempt: 1, Digest: a, Reason: Unconfirmed}, "save"},
			step{0, Admission{Staged: true}, "is staged, no timer"}, step{0, Retry{}, "save"}), false, false},
		{"and by another config", pushed(step{0, Undone{Attempt: 1, Digest: a, Reason: Unconfirmed}, "save"},
			step{0, Admission{Staged: true}, "is staged, no timer"}, step{0, want(Digest{Config: "C"}, 2), "is staged"}), false,
			false},
	} {
		n := New("n", adopted, Defaults("me"))
		now := run(t, c.name, n, c.steps)
		if n.IsTrying(now) != c.atWork || n.HasUndone() != c.undid {
			t.Errorf("%s: at work %v, undid %v", c.name, n.IsTrying(now), n.HasUndone())
		}
	}
}
