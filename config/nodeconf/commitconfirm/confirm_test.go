package commitconfirm

import (
	"strings"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf/action"
)

func push(t testing.TB, n uint64, text string) Candidate {
	return Candidate{Source: Push, Generation: c(n), Document: doc(t, text)}
}

func faultyPush(t testing.TB, n uint64, text string) Candidate {
	o := push(t, n, text)
	o.Validate = func() config.Faults {
		return config.Faults{{Path: []string{"a"}, Problem: "invalid value 2", Expectation: "must be 1"}}
	}
	return o
}

const (
	taken   = "write pending c:2 {a:2}; accepted; publish c:2 {a:2}; timer 30s"
	backing = "write pending c:2 {a:2}; undo c:2 "
	gone    = "publish j:3 {a:1}; timer 30s"
)

// Order on a node: validate, store as pending, publish, reconcile until settled or 30 s,
// then the actions, RESTART_MINION or REBOOT last.
func TestOrderOnANode(t *testing.T) {
	for name, steps := range map[string][]step{
		"a push that is confirmed by the controller": {
			{push(t, 2, `{"a":2}`), taken},
			{settled{map[string]bool{"uplink": true}}, "run a"},
			{ran{}, "applied; ask c:2"},
			{HealthChanged{map[string]bool{"uplink": true}}, ""},
			{answer{c(2)}, "write confirmed c:2 {a:2}; confirmed; drop pending; write copy c:2 {a:2}"},
			{seconds(200), ""},
		},
		"it does not settle within 30 s: the actions are run all the same, and it is not confirmed until it does": {
			{push(t, 2, `{"a":2}`), taken},
			{timedOut{}, "run a"},
			{ran{}, "applied"},
			{settled{map[string]bool{"uplink": true}}, "ask c:2"},
			{answer{c(2)}, "write confirmed c:2 {a:2}; confirmed; drop pending; write copy c:2 {a:2}"},
		},
		"a reboot comes last, is written first, and is no crash": {
			{push(t, 2, `{"a":2}`), taken},
			{settled{}, "run a"},
			{ran{restart: "REBOOT"}, "write pending c:2 {a:2}; restart REBOOT"},
			{Stopping{}, "write clock 2m0s"},
			{boots{"m2"}, "write pending c:2 {a:2}; write clock 2m0s; publish c:2 {a:2}; timer 30s"},
			{settled{map[string]bool{"uplink": true}}, "applied; ask c:2"},
			{answer{c(2)}, "write confirmed c:2 {a:2}; confirmed; drop pending; write copy c:2 {a:2}"},
		},
		"a reboot that did not come is asked for again": {
			{push(t, 2, `{"a":2}`), taken},
			{settled{}, "run a"},
			{ran{restart: "REBOOT"}, "write pending c:2 {a:2}; restart REBOOT"},
			{boots{"m1"}, "write clock 2m0s; publish c:2 {a:2}; timer 30s"},
			{settled{}, "restart REBOOT"},
			{RestartFailed{"no permission"}, "write pending c:2 {a:2}; applied; ask c:2"},
		},
		"an answer to what is over counts for nothing": {
			{Stopping{}, ""},
			{push(t, 2, `{"a":2}`), taken},
			{Settled{ID: 1}, ""},
			{TimedOut{1}, ""},
			{settled{}, "run a"},
			{timedOut{}, ""},
			{ActionsDone{ID: 99}, ""},
			{RestartFailed{"not asked for"}, ""},
			{ran{}, "applied; ask c:2"},
			{settled{}, ""},
			{ran{}, ""},
			{Tick{-time.Hour}, ""},
			{seconds(5), "ask c:2; write clock 1m55s"},
			{RollbackAsked{}, backing + "unconfirmed: rolled back by hand; " + gone},
			{Stopping{}, ""},
		},
		"where nothing was good before, the answer is enough": {
			{boots{"m2"}, "…"},
			{settled{}, "…"},
			{push(t, 2, `{"a":2}`), taken},
			{settled{}, "run a"},
			{ran{}, "applied; ask c:2"},
			{answer{c(2)}, "write confirmed c:2 {a:2}; confirmed; drop pending; write copy c:2 {a:2}"},
		},
		"a reboot that is owed is not made a restart by the next config": {
			{push(t, 2, `{"a":2}`), taken},
			{settled{}, "run a"},
			{ran{restart: action.NameReboot}, "write pending c:2 {a:2}; restart REBOOT"},
			{boots{"m1"}, "write clock 2m0s; publish c:2 {a:2}; timer 30s"},
			{push(t, 3, `{"a":3}`), "write pending c:3 {a:3}; accepted; publish c:3 {a:3}; timer 30s"},
			{settled{}, "run a"},
			{ran{restart: action.NameRestart}, "write pending c:3 {a:3}; restart REBOOT"},
			{boots{"m1"}, "…"},
			{push(t, 4, `{"a":4}`), "…"},
			{settled{}, "run a"},
			{ran{}, "write pending c:4 {a:4}; restart REBOOT"},
		},
		"faults": {
			{faultyPush(t, 2, `{"a":2}`), "rejected: a: invalid value 2: must be 1"},
			{Candidate{Source: Apply}, "rejected: no document: must be an explicit mapping; {} removes everything"},
			{Candidate{Source: Push, Document: doc(t, "{}")},
				"rejected: the push has no generation: must be one of the controller's"},
			{Candidate{Source: Apply, Document: doc(t, "{}"), Confirm: -1},
				"rejected: negative time to confirm: must be 0 or more"},
		},
		"the newest offer wins while one is pending": {
			{push(t, 2, `{"a":2}`), taken},
			{push(t, 4, `{"b":1}`), "write pending c:4 {b:1}; accepted; publish c:4 {b:1}; timer 30s"},
			{settled{}, "run ab"},
			{push(t, 5, `{"b":2}`), ""}, // it waits for the actions
			{push(t, 6, `{"b":3}`), "superseded: a newer one came"},
			{ran{}, "applied; ask c:4; write pending c:6 {b:3}; accepted; publish c:6 {b:3}; timer 30s"},
			{settled{}, "run b"},
		},
		"where all is equal only the number is taken": {
			{push(t, 2, `{"a":1}`), "write confirmed c:2 {a:1}; renumbered"},
			{push(t, 2, `{"a":1}`), "renumbered"},
			{Candidate{Source: Push, Generation: c(3), Document: doc(t, `{"a":1}`), Peer: "p"},
				"write pending c:3 {a:1}; accepted; publish c:3 {a:1}; timer 30s"},
		},
		"an apply without a time stands at once, over what is pending": {
			{push(t, 2, `{"a":2}`), taken},
			{Candidate{Source: Apply, Document: doc(t, `{"b":1}`)},
				"write confirmed j:3 {b:1}; accepted; drop pending; publish j:3 {b:1}; timer 30s; write copy j:3 {b:1}"},
			{settled{}, "run ab"},
			{ran{}, "write confirmed j:3 {b:1}; applied"},
			{seconds(200), ""},
		},
		"a file is applied once": {
			{Candidate{Source: File, FileDigest: "f1", Document: doc(t, `{"b":1}`)}, "…"},
			{Candidate{Source: File, FileDigest: "f1", Document: doc(t, `{"b":1}`)}, "unchanged"},
			{Candidate{Source: Apply, Document: doc(t, `{"b":2}`)}, "…"},
			{settled{}, "…"},
			{ran{}, "…"},
			{Candidate{Source: File, FileDigest: "f1", Document: doc(t, `{"b":1}`)}, "unchanged"},
			{Candidate{Source: File, FileDigest: "f2", Document: doc(t, `{"b":1}`)},
				"write confirmed j:4 {b:1}; accepted; write copy j:4 {b:1}; publish j:4 {b:1}; timer 30s"},
		},
	} {
		t.Run(name, func(t *testing.T) { on(t).play(t, steps) })
	}
}

// A word of a person that came before a write has ended is about what is pending then, whatever was offered meanwhile.
func TestWhatWaitsIsDecidedBeforeAnOfferThatWaits(t *testing.T) {
	b := on(t)
	sound := func(o Candidate) Candidate {
		o.Validate = func() config.Faults { return nil }
		return o
	}
	for i, s := range []step{
		{sound(push(t, 2, `{"a":2}`)), "write pending c:2 {a:2}"},
		{sound(push(t, 3, `{"a":3}`)), ""},
		{Confirmed{}, ""},
		{Stored{}, "accepted; publish c:2 {a:2}; timer 30s; write confirmed c:2 {a:2}"},
		{Stored{}, "confirmed; drop pending"},
		{Stored{}, "write copy c:2 {a:2}"},
		{Stored{}, "write pending c:3 {a:3}"},
	} {
		var got []string
		for _, e := range b.m.Step(s.event) {
			got = append(got, tell(e))
		}
		if got := strings.Join(got, "; "); got != s.want {
			t.Fatalf("step %d, %T: got %s, want %s", i, s.event, got, s.want)
		}
	}
}

// A config is undone unless it is confirmed; an undo goes to the last confirmed config and
// runs the actions of the reverse difference.
func TestUndo(t *testing.T) {
	for name, steps := range map[string][]step{
		"nobody confirms it: unconfirmed": {
			{push(t, 2, `{"a":2}`), taken},
			{settled{map[string]bool{"uplink": true}}, "run a"},
			{ran{}, "…"},
			{seconds(119), "…"},
			{seconds(1), "ask c:2; " + "write clock 0s; " + backing + "unconfirmed: not confirmed within 2m0s; " + gone},
		},
		"what was good before is bad now: unhealthy, and the controller's answer does not confirm": {
			{push(t, 2, `{"a":2}`), taken},
			{settled{map[string]bool{"uplink": false, "dns": false}}, "run a"},
			{ran{}, "applied; ask c:2"},
			{HealthChanged{map[string]bool{"uplink": false}}, ""},
			{answer{c(2)}, "not confirmed: good before and bad now: uplink"},
			{Tick{2 * time.Minute}, "ask c:2; write clock 0s; " + backing + "unhealthy: good before and bad now: uplink; " +
				gone},
		},
		"by hand": {
			{push(t, 2, `{"a":2}`), taken},
			{settled{}, "run a"},
			{ran{}, "…"},
			{RollbackAsked{}, backing + "unconfirmed: rolled back by hand; " + gone},
			{RollbackAsked{}, "declined: it is being undone: rolled back by hand"},
			{Confirmed{}, "declined: it is being undone: rolled back by hand"},
			{faultyPush(t, 9, `{"a":9}`), ""}, // it waits for the end
		},
		"while its actions run: these come to their end first": {
			{push(t, 2, `{"a":2}`), taken},
			{settled{}, "run a"},
			{Tick{2 * time.Minute}, "write clock 0s; " + backing + "unconfirmed: not confirmed within 2m0s; " + gone},
			{settled{}, ""},
			{ran{restart: "REBOOT"}, "run back a"},
		},
		"by a second start that nobody asked for": {
			{push(t, 2, `{"a":2}`), taken},
			{seconds(12), "write clock 1m55s; write clock 1m50s"},
			{boots{"m2"}, "write clock 1m50s; publish c:2 {a:2}; timer 30s"},
			{seconds(5), "write clock 1m45s"},
			{Stopping{}, "write clock 1m45s"},
			{boots{"m3"}, "write clock 1m45s; publish c:2 {a:2}; timer 30s"}, // by intention
			{boots{"m3"}, backing + "unhealthy: the node started twice without being asked to; " + gone},
			{boots{"m4"}, gone}, // goes on with the undo
		},
		"by a start after its time was over": {
			{push(t, 2, `{"a":2}`), taken},
			{Stopping{}, "…"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := on(t)
			b.play(t, steps)
			if name == "by a start after its time was over" {
				b.disk.Clock = &Clock{Seq: 2}
				if got, want := b.boot("m9"), backing+"unconfirmed: not confirmed within 2m0s; "+gone; got != want {
					t.Fatalf("got %s\nwant %s", got, want)
				}
			}
			if !b.m.running {
				if got := b.do(settled{}); got != "run back a" {
					t.Fatal(got)
				}
			}
			got := b.do(ran{})
			if !strings.HasPrefix(got, "write confirmed j:3 {a:1}; gone back: ") ||
				!strings.Contains(got, "; drop pending; applied; ") || !strings.HasSuffix(got, "write copy j:3 {a:1}") {
				t.Fatal(got)
			}
			s := b.m.State()
			if s.Pending || s.Source != Rollback || s.Restores != c(1) || s.Undone == nil || s.Undone.Generation != c(2) ||
				s.Echo != s.Desired {
				t.Errorf("%+v", s)
			}
			b.boot("m99") // the controller learns of it after a restart as well
			if again := b.m.State(); again.Undone == nil || *again.Undone != *s.Undone || again.Desired != s.Desired {
				t.Errorf("%+v", again)
			}
		})
	}
}

// What was bad before does not block, nor what is new or has gone.
func TestWhatWasBadBeforeDoesNotBlock(t *testing.T) {
	for _, health := range []map[string]bool{
		{"uplink": true, "dns": false},
		{"uplink": true, "dns": false, "new": false},
		{"dns": true},
		{},
	} {
		b := on(t)
		b.play(t, []step{
			{push(t, 2, `{"a":2}`), taken},
			{settled{}, "run a"},
			{ran{}, "…"},
			{answer{c(2)}, ""}, // nothing is known of its health yet
			{HealthChanged{health}, ""},
			{answer{c(2)}, "write confirmed c:2 {a:2}; confirmed; drop pending; write copy c:2 {a:2}"},
		})
	}
}

// Only a round trip that follows settling confirms, and only the generation that is pending.
func TestOnlyAFreshAnswerConfirms(t *testing.T) {
	b := on(t)
	b.play(t, []step{{push(t, 2, `{"a":2}`), taken}, {settled{}, "run a"}, {ran{}, "…"},
		{HealthChanged{map[string]bool{"uplink": true}}, ""}})
	old := b.nonce
	for _, e := range []Event{
		ControllerAnswered{Nonce{"s0", 1}, c(2)},
		ControllerAnswered{Nonce{old.Start, old.Number + 1}, c(2)},
		ControllerAnswered{Nonce{old.Start, 0}, c(2)},
		answer{c(1)},
		Confirmed{Generation: c(1)},
	} {
		if got := b.do(e); got != "" && got != "declined: pending is c:2" {
			t.Errorf("%+v: %s", e, got)
		}
	}
	b.play(t, []step{
		{push(t, 3, `{"a":3}`), "write pending c:3 {a:3}; accepted; publish c:3 {a:3}; timer 30s"},
		{ControllerAnswered{old, c(3)}, ""},
		{settled{map[string]bool{"uplink": true}}, "run a"},
		{ran{}, "applied; ask c:3"},
		{HealthChanged{map[string]bool{"uplink": true}}, ""},
		{ControllerAnswered{old, c(3)}, ""}, // of the config before
	})
	if got := b.do(answer{c(3)}); !strings.Contains(got, "; confirmed; ") {
		t.Error(got)
	}
}

// A dry run never confirms, stores, or publishes.
func TestADryRunNeverConfirms(t *testing.T) {
	b := on(t)
	dry := push(t, 2, `{"a":2}`)
	dry.DryRun = true
	b.play(t, []step{
		{dry, "would take {a:1}"},
		{Confirmed{DryRun: true}, "declined: nothing is pending"},
		{push(t, 2, `{"a":2}`), taken},
		{Confirmed{DryRun: true}, "would confirm"},
		{dry, "would take {}"},
	})
	if b.disk.Confirmed.Generation != c(1) || !b.m.State().Pending {
		t.Errorf("%+v", b.m.State())
	}
	if got := b.do(Tick{2 * time.Minute}); !strings.Contains(got, "undo c:2 unconfirmed") {
		t.Error(got)
	}
}

// A confirm by hand counts at once; actions that are still due are run, after a crash too.
func TestConfirmedByHandBeforeItsActions(t *testing.T) {
	b := on(t)
	b.play(t, []step{
		{push(t, 2, `{"a":2}`), taken},
		{Confirmed{Generation: c(2)}, "write confirmed c:2 {a:2}; confirmed; drop pending; write copy c:2 {a:2}"},
		{boots{"m2"}, "publish c:2 {a:2}; timer 30s"},
		{timedOut{}, "run a"},
		{ran{}, "write confirmed c:2 {a:2}; applied"},
		{boots{"m3"}, "publish c:2 {a:2}; timer 30s"},
		{settled{}, "applied"},
	})
}

// A controller that goes away for an hour undoes no healthy node's config for good.
func TestSeed_AControllerAwayForAnHourUndoesNoHealthyConfigForGood(t *testing.T) {
	b := on(t)
	hour := func() {
		for range 3600 {
			b.step(Tick{time.Second})
		}
	}
	if hour(); b.m.State().Desired.Generation != c(1) { // nothing is pending: nothing happens
		t.Fatalf("%+v", b.m.State())
	}
	b.play(t, []step{{push(t, 2, `{"a":2}`), taken}, {settled{map[string]bool{"uplink": true}}, "run a"},
		{ran{}, "…"}})
	hour() // the controller has gone
	if s := b.m.State(); s.Undone == nil || s.Undone.Reason != Unconfirmed || !s.Undoing {
		t.Fatalf("%+v", s)
	}
	b.play(t, []step{
		{settled{}, "run back a"},
		{ran{}, "…"},
		// it is back, and pushes again
		{push(t, 2, `{"a":2}`), "write pending c:2 {a:2}; accepted; publish c:2 {a:2}; timer 30s"},
		{settled{}, "run a"},
		{ran{}, "applied; ask c:2"},
		{HealthChanged{map[string]bool{"uplink": true}}, ""},
		{answer{c(2)}, "write confirmed c:2 {a:2}; confirmed; drop pending; write copy c:2 {a:2}"},
	})
	if hour(); b.m.State().Desired.Generation != c(2) || b.m.State().Undone != nil {
		t.Fatalf("%+v", b.m.State())
	}
}

// The MD5 of a config is reported when its actions are done and the restart that they ask
// for has been, not before.
func TestTheMD5IsReportedWhenItIsTrue(t *testing.T) {
	b := on(t)
	old, next := Echo{c(1), config.MD5(doc(t, `{"a":1}`))}, Echo{c(2), config.MD5(doc(t, `{"a":2}`))}
	check := func(when string, want Echo) {
		t.Helper()
		if got := b.m.State().Echo; got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	b.play(t, []step{{push(t, 2, `{"a":2}`), taken}})
	check("published", old)
	b.do(settled{})
	check("its actions run", old)
	b.do(ran{restart: action.NameRestart,
		results: []action.Result{{Action: "RESTART_KEA", State: action.Failed, Cause: "x"}}})
	check("a restart is to come", old)
	b.boot("m1")
	check("restarted", next)
	if got := b.m.State().Results; len(got) != 1 || got[0].String() != "RESTART_KEA: failed: x" {
		t.Error(got)
	}
	b.play(t, []step{{push(t, 3, `{"a":3}`), "…"}, {settled{}, "…"},
		{ran{restart: action.NameReboot}, "…"}})
	check("a reboot is to come", next)
	b.boot("m1")
	check("only the agent restarted", next)
	b.boot("m2")
	check("rebooted", Echo{c(3), config.MD5(doc(t, `{"a":3}`))})
}

// A second push over one that broke something is measured by what was good before both: an
// undo would go back behind both.
func TestASecondPushIsMeasuredByTheConfirmedConfig(t *testing.T) {
	b := on(t)
	bad := map[string]bool{"uplink": false}
	b.play(t, []step{
		{push(t, 2, `{"a":2}`), taken},
		{settled{bad}, "run a"},
		{ran{}, "…"},
		{push(t, 3, `{"a":3}`), "write pending c:3 {a:3}; accepted; publish c:3 {a:3}; timer 30s"},
		{settled{bad}, "run a"},
		{ran{}, "applied; ask c:3"},
		{HealthChanged{bad}, ""},
		{answer{c(3)}, "not confirmed: good before and bad now: uplink"},
		{Tick{DefaultConfirm},
			"ask c:3; write clock 0s; write pending c:3 {a:3}; undo c:3 unhealthy: good before and bad now: uplink; publish " +
				"j:4 {a:1}; timer 30s"},
		{settled{}, "run back a"},
	})
}

// A push is told by its attempt, also by what is left of it after an undo and a restart.
func TestThePushIsToldByItsAttempt(t *testing.T) {
	b := on(t)
	first, again := push(t, 2, `{"a":2}`), push(t, 2, `{"a":2}`)
	first.Attempt, again.Attempt = 7, 8
	b.play(t, []step{{first, "…"}})
	if s := b.m.State(); s.Attempt != 7 {
		t.Errorf("pending is %+v, want attempt 7", s)
	}
	b.play(t, []step{{again, "write pending c:2 {a:2}; renumbered"}, {again, "renumbered"},
		{push(t, 2, `{"a":2}`), "renumbered"}, {Candidate{Source: Push, Generation: c(3), Document: doc(t, `{"a":2}`)}, "…"}})
	if s := b.m.State(); s.Attempt != 8 || s.Desired.Generation != c(3) {
		t.Errorf("pushed again and numbered it is %+v, want attempt 8 and c:3", s)
	}
	b.play(t, []step{{settled{}, "run a"}, {ran{}, "…"}, {RollbackAsked{}, "…"}, {settled{}, "run back a"}, {ran{}, "…"}})
	for _, when := range []string{"undone", "undone and started again"} {
		if s := b.m.State(); s.Attempt != 0 || s.Undone == nil || s.Undone.Attempt != 8 || s.Undone.Generation != c(3) {
			t.Errorf("%s it is %+v, %+v; want attempt 8 undone", when, s, s.Undone)
		}
		b.boot("m1")
	}
}

// The keys of two differences are due, an object's rather than what is none in its place.
func TestBothDifferencesAreDue(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{`{"a":1}`, `{"b":2}`, `{a:1,b:2}`},
		{`{"a":{"x":1}}`, `{"a":{"y":1}}`, `{a:{x:1,y:1}}`},
		{`{"a":{"x":1}}`, `{"a":1}`, `{a:{x:1}}`},
		{`{"a":1}`, `{"a":{"y":1}}`, `{a:{y:1}}`},
	} {
		a := doc(t, c.a)
		if got := short(mergeKeys(a, doc(t, c.b))); got != c.want || short(a) != short(doc(t, c.a)) {
			t.Errorf("%s and %s: %s, want %s", c.a, c.b, got, c.want)
		}
	}
}
