package bisect

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/fleet"
)

// Observation is what the replica with the canary's stream knows of the canary.
type Observation struct {
	Process string    // of the controller that observes
	Up      time.Time // since when that runs
	Online  bool
	Desired string       // MD5 of the config that the controller desires on it
	Trial   bool         // that is a config to test, which is not confirmed
	Fault   string       // why there is no desired config
	Stuck   string       // why nothing can be pushed
	Failed  fleet.Reason // what the canary did with the desired config: Invalid, Unhealthy, Unconfirmed
	Why     string       // of Failed
	Taken   bool         // it has received the desired config
	Report  Snapshot
	Heard   time.Time // when the report came
	Pending bool      // what it runs is not confirmed
	Settled bool      // with nothing left to do
}

// Step continues the search, and reports whether the record has changed. The caller stores it before it steps again.
func (r *Record) Step(now time.Time, o Observation) (changed bool) {
	r.clamp(now)
	switch {
	case r.Phase == Undoing:
		return r.awaitUndo(now, o)
	case r.Phase != Testing:
		return false
	case r.Before == nil:
		changed = r.observeFirst(now, o)
	default:
		changed = r.watch(now, o)
	}
	if changed && r.Phase == Testing && r.Test == nil && r.Before != nil {
		r.next(now, o) // in the same step: without a test the canary would go back
	}
	return changed
}

// clamp limits recorded times to now: the clock may have been set back, and that of another replica may be ahead.
func (r *Record) clamp(now time.Time) {
	times := []*time.Time{&r.Since}
	if r.Test != nil {
		times = append(times, &r.Test.Since, &r.Test.Settled)
	}
	for _, t := range times {
		if t.After(now) {
			*t = now
		}
	}
}

// observeFirst records what the canary has before the first test.
func (r *Record) observeFirst(now time.Time, o Observation) bool {
	switch {
	case r.Since.IsZero():
		r.Since = now
	case o.Stuck != "":
		r.end(Failed, "the canary takes no config: "+o.Stuck)
	case o.Online && !o.Pending && o.Settled && o.Report.MD5 != "" && o.Heard.After(r.Since):
		r.Before = &o.Report
	case now.Sub(r.Since) < offlineLimit:
		return false
	default:
		r.end(Failed, fmt.Sprintf("the canary was not connected and settled within %v", offlineLimit))
	}
	return true
}

// next judges what needs no test, and begins the next test or ends the search.
func (r *Record) next(now time.Time, o Observation) {
	for r.Phase == Testing {
		i, left := r.pick()
		if !left {
			r.conclude()
			return
		}
		v, by, why := r.evaluateUntested(i)
		if v == "" {
			r.Test = &Test{Index: i, Since: now, Pushed: o.Report.MD5 != r.Candidates[i].MD5}
			if o.Online {
				r.Test.On = o.Process
			}
			if r.Test.Pushed {
				r.Pushes++
			}
			return
		}
		r.record(now, i, v, by, why)
	}
}

// pick returns the candidate to judge next: the two ends first, then the one nearest to the middle.
func (r *Record) pick() (index int, left bool) {
	switch r.Verified {
	case 0:
		return 0, true
	case 1:
		return len(r.Candidates) - 1, true
	}
	middle := (r.Lo + r.Hi) / 2
	for d := 0; d <= r.Hi-r.Lo; d++ {
		for _, i := range []int{middle - d, middle + d} {
			if i > r.Lo && i < r.Hi && !r.isUnsure(i) {
				return i, true
			}
		}
	}
	return 0, false
}

// conclude ends a search that has no candidate left to test.
func (r *Record) conclude() {
	if r.Hi-r.Lo == 1 {
		r.end(Found, "")
		return
	}
	r.end(Inconclusive, fmt.Sprintf("%d of the revisions in question can't be tested", r.Hi-r.Lo-1))
}

// evaluateUntested judges a candidate by what is known already; "" if it must be tested.
func (r *Record) evaluateUntested(i int) (v Verdict, by, why string) {
	c := r.Candidates[i]
	known, seen := r.Known[c.MD5]
	past, failed := r.Past[c.MD5]
	switch {
	case seen:
		return known.Verdict, bySame, fmt.Sprintf("the config is that of revision %d", known.Revision)
	case c.Invalid != "":
		return r.evaluateRejected(i), bySimulation, "nodes reject it: " + c.Invalid
	case c.Unfit != "":
		return Unsure, bySimulation, c.Unfit
	case failed:
		v, why = r.evaluateFailed(i, past.Reason, past.Why, false)
		return v, byHistory, why + ", on " + past.At.UTC().Format(time.RFC3339)
	case r.Before.MD5 == c.MD5:
		v, why = evaluate(r.Check, r.baseline(i), *r.Before)
		if i == 0 {
			r.Baseline = r.Before
		}
		return v, byRunning, why
	}
	return "", "", ""
}

// baseline returns the health with the good revision; nil for that revision.
func (r *Record) baseline(i int) *Snapshot {
	if i == 0 {
		return nil
	}
	return r.Baseline
}

// evaluateRejected judges a candidate that nodes reject. It fails in another way than a bad revision that runs: it says
// nothing about that one.
func (r *Record) evaluateRejected(i int) Verdict {
	if i == len(r.Candidates)-1 {
		r.Rejects = true
	}
	if i == 0 || r.Rejects || r.Check == Applied {
		return Bad
	}
	return Unsure
}

// evaluateFailed judges a candidate that the canary rejected or undid.
func (r *Record) evaluateFailed(i int, reason fleet.Reason, why string, lost bool) (Verdict, string) {
	switch {
	case reason == fleet.Invalid:
		return r.evaluateRejected(i), "the node rejected it: " + why
	case reason == fleet.Unconfirmed && lost:
		return Bad, "the node went offline with it, and undid it"
	case reason == fleet.Unconfirmed:
		return Unsure, "the node undid it before it could be judged"
	case isItem(r.Check) && !namesItem(why, r.Check):
		return Unsure, "the node undid it for another reason: " + why
	}
	return Bad, "the node undid it: " + why
}

// namesItem reports whether a node's reason for an undo, which lists the items that are worse, names this one.
func namesItem(why, item string) bool {
	for from := 0; ; {
		i := strings.Index(why[from:], item)
		if i < 0 {
			return false
		}
		i += from
		from = i + len(item)
		if (i == 0 || why[i-1] == ' ') && (from == len(why) || strings.IndexByte(", :", why[from]) >= 0) {
			return true
		}
	}
}

// watch follows the test that is under way.
func (r *Record) watch(now time.Time, o Observation) (changed bool) {
	t, c := r.Test, r.Candidates[r.Test.Index]
	late := now.Sub(t.Since) >= r.Timeout
	runs := o.Report.MD5 == c.MD5
	switch {
	case !o.Online:
		return r.watchOffline(now, o, late)
	case t.Away:
		t.Lost = t.Lost && !o.Up.After(t.Since)
		t.Away, t.Since = false, now
		return true
	case o.Stuck != "":
		r.end(Failed, "the canary takes no config any more: "+o.Stuck)
		return true
	case o.Desired != c.MD5:
		if late {
			return r.finish(now, Unsure, "its config can't be computed again: "+
				cmp.Or(o.Fault, "the node's versions or base files have changed, or the layers could not be read"))
		}
		return false
	case o.Failed != "":
		v, why := r.evaluateFailed(t.Index, o.Failed, o.Why, t.Lost && !o.Up.After(t.Since))
		return r.finish(now, v, why)
	case runs && (late || o.Settled && !t.Settled.IsZero() && o.Heard.Sub(t.Settled) >= r.Settle):
		return r.finishBySnapshot(now, o)
	case late:
		return r.finish(now, Unsure, fmt.Sprintf("the node does not have it after %v", r.Timeout))
	}
	if (runs || o.Taken) && !t.Taken {
		t.Taken, changed = true, true
	}
	if runs && t.Lost {
		t.Lost, changed = false, true
	}
	if t.On != o.Process {
		t.On, changed = o.Process, true
		t.Losses++
	}
	if settled := runs && o.Settled; settled == t.Settled.IsZero() {
		if t.Settled = (time.Time{}); settled {
			t.Settled = now
		}
	}
	return changed
}

// watchOffline follows a test while the canary is offline: the config may have cut it off. That shows only if the
// process that had its stream saw the end of it: the controller may have been away itself.
func (r *Record) watchOffline(now time.Time, o Observation, late bool) (changed bool) {
	t := r.Test
	lost := t.On == o.Process
	switch {
	case t.Taken && late && t.Lost && !o.Up.After(t.Since):
		return r.finish(now, Bad, fmt.Sprintf("the node went offline with it, and was not back after %v", r.Timeout))
	case t.Taken && late:
		return r.finish(now, Unsure, fmt.Sprintf("the controller was away, and the node was not back after %v", r.Timeout))
	case t.Losses >= maxLosses:
		return r.finish(now, Unsure, fmt.Sprintf("the node has lost its connection %d times", t.Losses))
	case t.Taken && !t.Lost && lost:
		t.Lost, t.Settled = true, time.Time{}
		t.Losses++
		return true
	case t.Taken:
		return false
	case !t.Away:
		t.Away, t.Lost, t.Since = true, lost, now // it may have taken the config: only its return tells
		t.Losses++
		return true
	case now.Sub(t.Since) >= offlineLimit:
		r.end(Failed, fmt.Sprintf("the canary has been offline for %v", offlineLimit))
		return true
	}
	return false
}

// finishBySnapshot ends a test by what the canary reports.
func (r *Record) finishBySnapshot(now time.Time, o Observation) bool {
	i := r.Test.Index
	v, why := evaluate(r.Check, r.baseline(i), o.Report)
	if t := r.Test.Settled; v == Good && (!o.Settled || t.IsZero() || o.Heard.Sub(t) < r.Settle) {
		v, why = Unsure, fmt.Sprintf("the node has not been settled for %v within %v", r.Settle, r.Timeout)
	}
	if i == 0 {
		r.Baseline = &o.Report
	}
	return r.finish(now, v, why)
}

// finish ends the test.
func (r *Record) finish(now time.Time, v Verdict, why string) bool {
	t, by := r.Test, byPush
	if !t.Pushed {
		by = byRunning
	}
	r.Test = nil
	r.record(now, t.Index, v, by, why)
	return true
}

// record records a verdict, and what follows for the candidates.
func (r *Record) record(now time.Time, i int, v Verdict, by, why string) {
	c := r.Candidates[i]
	why = config.Truncate(why, maxReason)
	r.Steps = append(r.Steps, Step{At: now.UTC(), Revision: c.Revision, Verdict: v, By: by, Why: why})
	if r.Known == nil {
		r.Known = map[string]knownResult{}
	}
	if _, seen := r.Known[c.MD5]; !seen {
		r.Known[c.MD5] = knownResult{v, c.Revision}
	}
	last := len(r.Candidates) - 1
	switch {
	case r.Verified < 2 && (i == 0 && v != Good || i == last && v != Bad):
		word := map[bool]string{true: "good", false: "bad"}[i == 0]
		r.end(Failed, fmt.Sprintf("revision %d is not %s: %s: %s", r.endRevision(i), word, v, why))
	case r.Verified < 2:
		r.Verified++
	case v == Good:
		r.Lo = i
	case v == Bad:
		r.Hi = i
	default:
		if r.Unsure = append(r.Unsure, i); r.unsureTests() >= maxUnsure {
			r.end(Inconclusive, fmt.Sprintf("%d tests have shown nothing", maxUnsure))
		}
	}
}

// unsureTests returns how many tests on the canary have shown nothing.
func (r *Record) unsureTests() (n int) {
	for _, s := range r.Steps {
		if s.Verdict == Unsure && (s.By == byPush || s.By == byRunning) {
			n++
		}
	}
	return n
}

// endRevision returns the revision that the caller called good or bad: its config is that of a candidate.
func (r *Record) endRevision(i int) uint64 {
	if i == 0 {
		return r.Good
	}
	return r.Bad
}

// awaitUndo waits until the canary has what it should have: its desired config, or the one from before the search that
// it returns to by itself.
func (r *Record) awaitUndo(now time.Time, o Observation) bool {
	switch {
	case r.Pushes == 0:
		r.Has = "what it had: nothing was pushed"
	case !o.Online, o.Trial, o.Pending:
		return false
	case o.Report.MD5 == o.Desired:
		r.Has = "its desired config"
	case r.Before != nil && o.Report.MD5 == r.Before.MD5:
		r.Has = "the config from before"
	case o.Stuck != "":
		r.Has = "its own config: " + o.Stuck
	case o.Failed == fleet.Invalid || o.Failed == fleet.Unhealthy:
		r.Has = "the config that it confirmed last: it does not keep its desired one"
	default:
		return false
	}
	r.Phase, r.Ended = Ended, now.UTC()
	return true
}
