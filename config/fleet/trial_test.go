package fleet

import (
	"testing"
	"time"

	"edgespan/config"
)

// A config on trial passes by the staged rollout, is pushed with its own time limit and is never confirmed; then the
// node gets what it should have, which is.
func TestATrialIsNeverConfirmed(t *testing.T) {
	t.Parallel()
	trial := with(want(b, 2), func(d *Desired) { d.Trial = time.Minute })
	pending := runs(b, 2, PendingConfig{Generation: gen(2), Settled: true})
	n := New("n", adopted, Defaults("me"))
	now := run(t, "trial", n, joined(
		step{0, Admission{Staged: true, Open: a}, ""},
		step{0, has(a, 1), "is InSync"},
		step{0, trial, "save, push#1 B s:2, is waiting, timer 2m0s"},
		step{5 * sec, pending, "is trying, no timer"},
		step{5 * sec, pending, ""},
		step{0, Answered{Stream: "1", Probe: 1, Generation: gen(2), Digest: b}, ""},
	))
	if n.mem.Push.Number != 1 || n.State(now) != Pushing || n.Blocked(now) != "" {
		t.Errorf("it is %s, %q", n.State(now), n.Blocked(now))
	}
	push := n.Step(now, with(trial, func(d *Desired) { d.Digest, d.Generation = Digest{Config: "C"}, gen(3) }))
	if p, ok := push[1].(Push); !ok || p.Confirm != time.Minute {
		t.Errorf("%+v", push)
	}
	run(t, "back", n, []step{
		{0, want(a, 4), "save, push#3 A s:4, is waiting, timer 2m0s"},
		{5 * sec, runs(a, 4, PendingConfig{Generation: gen(4), Settled: true}), "probe#1, is confirming, timer 15s"},
	})
}

// What the node undid before a trial began is tried again at once, and the late result of that undo is no failure of it.
func TestATrialIsPushedAtOnceThoughItWasUndoneBefore(t *testing.T) {
	t.Parallel()
	trial := with(want(b, 2), func(d *Desired) { d.Trial = time.Minute })
	n := New("n", adopted, Defaults("me"))
	now := run(t, "trial", n, joined(
		step{0, has(a, 1), "is InSync"},
		step{0, trial, "save, push#1 B s:2, is waiting, timer 2m0s"},
		step{5 * sec, Undone{Attempt: 1, Digest: b, Reason: Unconfirmed}, "save, timer 2m0s"},
		step{0, want(a, 3), "number s:3, is renumbering, timer 15s"},
		step{0, has(a, 3), "is InSync, no timer"},
		step{0, with(trial, func(d *Desired) { d.Generation = gen(4) }), "save, save, push#2 B s:4, is waiting, timer 2m0s"},
		step{0, Undone{Attempt: 1, Digest: b, Reason: Unconfirmed}, ""},
	))
	if reason, why := n.Failed(); reason != "" {
		t.Errorf("at %v: %s %s", now, reason, why)
	}
}

func TestWhatANodeDidWithItsConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event  Event
		reason Reason
		why    string
	}{
		"nothing yet":  {Tick{}, "", ""},
		"rejected":     {Rejected{Attempt: 1, Digest: a, Faults: "x"}, Invalid, "x"},
		"unhealthy":    {Undone{Attempt: 1, Digest: a, Reason: Unhealthy, Why: "y"}, Unhealthy, "y"},
		"undone again": {Undone{Attempt: 1, Digest: a, Reason: Unconfirmed}, Unconfirmed, ""},
	} {
		n := New("n", adopted, Defaults("me"))
		now := run(t, name, n, joined(step{0, has(b, 0), pushA}))
		n.Step(now, c.event)
		if reason, why := n.Failed(); reason != c.reason || why != c.why || n.Blocked(now) != "" {
			t.Errorf("%s: %q %q", name, reason, why)
		}
	}
	n := New("n", adopted, Defaults("me"))
	now := run(t, "held", n, joined(step{0, with(has(b, 0), func(r *ReportReceived) { r.Held = &Held{By: "bob"} }),
		"is HeldLocally"}))
	if n.Blocked(now) == "" {
		t.Error("a node that is held locally takes pushes")
	}
}

// The config of a trial replaces the node's own until the trial ends; the rest of the fleet is not touched. A trial of
// the config that the node should have anyway is none.
func TestATrialReplacesTheLayersOfOneNode(t *testing.T) {
	t.Parallel()
	f := tiny(t, `{"sysParams": {"managedConfig": true}}`)
	put := func(node, own string) string {
		return touchedText(f.Put(node, v1, nil, parse(own), Counted{}))
	}
	for _, c := range []struct{ what, got, want string }{
		{"the node", put("n1", `{"x": 1}`), "n1 s:1 managed"},
		{"another", put("n2", `{"x": 1}`), "n2 s:1 managed"},
		{"a trial", touchedText(f.SetTrial("n1", &Trial{Own: parse(`{"x": 2}`), Undo: time.Minute})), "n1 s:2 managed"},
		{"a change of the network", touchedText(f.SetNetwork(parse(`{"y": 1}`))), "n2 s:2 managed"},
		{"the node again", put("n1", `{"x": 3}`), "n1 s:2 managed"},
		{"layers that clash", touchedText(f.SetTrial("n1", &Trial{Own: parse(`{"sysParams": 2}`), Undo: time.Minute})),
			"n1 s:2 faulty"},
		{"what it should have", touchedText(f.SetTrial("n1", &Trial{Network: parse(`{"y": 1}`), Own: parse(`{"x": 3}`),
			Undo: time.Minute})), "n1 s:3 managed"},
		{"the end of its management", put("n1", `{"sysParams": {"managedConfig": false}}`), "n1 s:4"},
		{"the trial again", put("n1", `{"x": 3}`), "n1 s:5 managed"},
		{"the end", touchedText(f.SetTrial("n1", nil)), ""},
		{"an unknown node", touchedText(f.SetTrial("n9", nil)), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
	if w := f.nodes["n1"]; w.desired.Trial != 0 || w.counted.Trial {
		t.Errorf("after the trial: %+v", w)
	}
	touched, _ := f.SetTrial("n1", &Trial{Undo: time.Minute})
	set, _ := f.Layers("n1")
	o, _ := set.Effective()
	if d := touched[0].Desired; d.Trial != time.Minute || !touched[0].Counted.Trial || d.Config != config.MD5(o) {
		t.Errorf("during a trial: %+v, config %v", touched, o)
	}
}
