package bisect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/fleet"
	"edgespan/config/fleet/nodeproto"
)

// What is judged without a test costs nothing, so it does not count against a search.
func TestABlockOfRejectedRevisionsEndsNoSearch(t *testing.T) {
	t.Parallel()
	configs := texts(40)
	n := newCanary(configs[39])
	n.bad = func(md5 string) bool { return slices.Index(configs, md5) >= 3 }
	r := search(configs...)
	for i := 12; i < 28; i++ {
		r.Candidates[i].Invalid = "x: unknown field"
	}
	r = run(t, r, n, nil)
	if c, ok := r.First(); !ok || c.Revision != 13 {
		t.Errorf("%s %s, %d pushes", r.Result, r.Why, r.Pushes)
	}
}

// A snapshot lists the first bad items only. What it does not list is not taken for good.
func TestBadItemsThatASnapshotDoesNotListAreNotGood(t *testing.T) {
	t.Parallel()
	report := func(bad ...string) *nodeproto.Report {
		r := &nodeproto.Report{}
		for _, name := range bad {
			r.Health = append(r.Health, nodeproto.HealthReport{Name: name})
		}
		return r
	}
	var names []string
	for i := range 150 {
		names = append(names, fmt.Sprintf("item-%03d", i))
	}
	good := SnapshotOf(report(names...), Healthy)
	if v, why := evaluate(Healthy, &good, SnapshotOf(report(names[1:]...), Healthy)); v == Bad {
		t.Errorf("one fewer: %s %s", v, why)
	}
	if v, why := evaluate(Healthy, &good, SnapshotOf(report(append(names, "z")...), Healthy)); v == Good {
		t.Errorf("one more: %s %s", v, why)
	}
}

func TestAnItemIsNotTakenForOneWithALongerName(t *testing.T) {
	t.Parallel()
	r := search("a", "b")
	r.Check = "ni/1"
	if v, why := r.evaluateFailed(1, fleet.Unhealthy, "good before and bad now: ni/10, port/wan", false); v != Unsure {
		t.Errorf("%s %s", v, why)
	}
	if v, why := r.evaluateFailed(1, fleet.Unhealthy, "good before and bad now: ni/10, ni/1", false); v != Bad {
		t.Errorf("%s %s", v, why)
	}
}

// A node that has settled just before the time limit has not shown that it stays healthy.
func TestANodeThatHasJustSettledIsNotGood(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	r := search("a", "b", "c")
	r.Before, r.Test, r.Settle = &Snapshot{MD5: "x"}, &Test{Index: 0, Since: now, Pushed: true, Taken: true}, 30*time.Second
	o := Observation{Online: true, Desired: "a", Trial: true, Taken: true, Report: Snapshot{MD5: "a"}, Pending: true, Settled: true}
	for s := 110; s <= 121 && len(r.Steps) == 0; s++ {
		o.Heard = now.Add(time.Duration(s) * time.Second)
		r.Step(o.Heard, o)
	}
	if len(r.Steps) != 1 || r.Steps[0].Verdict != Unsure {
		t.Errorf("%+v", r.Steps)
	}
}

func TestASearchSurvivesAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	for _, at := range []int{1, 2, 5, 9, 20, 30} {
		configs := texts(8)
		n := newCanary(configs[7])
		n.bad = func(md5 string) bool { return slices.Index(configs, md5) >= 3 }
		n.unsettle = func(md5 string) bool { return md5 == configs[4] }
		steps, began := 0, n.now
		jumped := false
		r := run(t, search(configs...), n, func(r *Record, n *canary) {
			if steps++; steps == at {
				n.now = n.now.Add(-24 * time.Hour)
				if !n.until.IsZero() {
					n.until = n.until.Add(-24 * time.Hour)
				}
				jumped = true
			}
		})
		took := n.now.Sub(began)
		if jumped {
			took += 24 * time.Hour
		}
		if c, ok := r.First(); !ok || c.Revision != 13 || took > 30*time.Minute {
			t.Errorf("at %d: %s %s, after %v", at, r.Result, r.Why, took)
		}
	}
}

// awayRun searches while the controller is away once, from the given second with a test on: a new process
// then goes on. One that drains ends the canary's stream first, and sees its end.
func awayRun(t *testing.T, second int, away time.Duration, drains bool) *Record {
	t.Helper()
	configs := texts(8)
	n := newCanary(configs[7])
	n.bad = func(md5 string) bool { return slices.Index(configs, md5) >= 5 }
	r := search(configs...)
	up, back := n.now, time.Time{}
	for began := n.now; r.Phase != Ended; {
		pin, _ := r.Pin()
		n.pass(pin.MD5, !n.now.Before(back))
		if n.now.Before(back) {
			continue
		}
		o := n.observe(pin.MD5)
		if up.Before(back) {
			if up = n.now; !drains { // the node has not connected again yet
				o = Observation{}
			}
		}
		o.Process, o.Up = up.String(), up
		r.Step(n.now, o)
		if r.Test != nil {
			if second--; second == 0 {
				if back = n.now.Add(away); drains {
					r.Step(n.now, Observation{Process: up.String(), Up: up})
				}
			}
		}
		if n.now.Sub(began) > 2*time.Hour {
			t.Fatalf("the search does not end: %+v", r)
		}
	}
	return r
}

// A controller that was away itself does not take that for a node which its config has cut off.
func TestAControllerThatWasAwayDoesNotBlameTheConfig(t *testing.T) {
	t.Parallel()
	for second := range 120 {
		for _, away := range []time.Duration{30 * time.Second, 5 * time.Minute} {
			r := awayRun(t, second/2+1, away, second%2 == 0)
			c, found := r.First()
			if found && c.Revision != 15 || away < timeout && !found {
				t.Errorf("%v away from second %d: %s %s %v", away, second, r.Result, r.Why, c)
			}
			for _, s := range r.Steps {
				if s.Verdict == Bad && s.Revision < 15 {
					t.Errorf("%v away from second %d: %+v", away, second, s)
				}
			}
		}
	}
}

// A canary that keeps losing its connection can neither make a test last forever nor have it stored without end.
func TestALostConnectionIsCountedInATest(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{false, true} {
		now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
		r := search("a", "b", "c")
		r.Before, r.Test = &Snapshot{MD5: "x"}, &Test{Since: now}
		writes := 0
		for i := 0; len(r.Steps) == 0 && i < 1000; i++ {
			now = now.Add(time.Second)
			o := Observation{Online: i%2 == 0, Desired: "a", Trial: true, Taken: taken, Settled: i%4 == 0, Heard: now}
			if taken && o.Online {
				o.Report.MD5 = "a"
			}
			if r.Step(now, o) {
				writes++
			}
		}
		if len(r.Steps) != 1 || r.Steps[0].Verdict != Unsure || writes > 3*maxLosses {
			t.Errorf("%d writes: %+v", writes, r.Steps)
		}
	}
}

// A new record of the largest size still fits into the store when everything is judged.
func TestALargeRecordFitsIntoTheStoreToTheEnd(t *testing.T) {
	t.Parallel()
	const storeMax = 3 << 19 // kv.MaxSize
	r := search(texts(MaxCandidates)...)
	size := func() int {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return len(text)
	}
	for i := 0; size() < MaxRecord-20000; i++ {
		for k := range 100 {
			c := &r.Candidates[(100*i+k)%MaxCandidates]
			c.Message, c.Invalid = c.Message+strings.Repeat("m", 30), c.Invalid+strings.Repeat("\x01", 20)
		}
	}
	r.Before, r.Baseline, r.Verified = &Snapshot{}, &Snapshot{}, 2
	for range maxBad {
		r.Before.Bad = append(r.Before.Bad, strings.Repeat("n", 256))
	}
	r.Baseline.Bad = r.Before.Bad
	for i, c := range r.Candidates {
		by, why := bySimulation, "nodes reject it: "+c.Invalid
		if i < 40 {
			by, why = byPush, strings.Repeat("\x01", 5000)
		}
		r.record(r.Began, i, Unsure, by, why)
	}
	if got := size(); got > storeMax-1000 {
		t.Errorf("the record has %d bytes, at most %d fit", got, storeMax)
	}
}

func TestADamagedRecordIsAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"phase":"testing","lo":0,"hi":0,"test":{"index":0}}`, `{"phase":"testing","candidates":[{},{}],"lo":0,"hi":2}`,
		`{"phase":"testing","candidates":[{},{}],"lo":0,"hi":1,"test":{"index":-1}}`, `{"result":"found"}`,
		`{"candidates":[{},{}],"lo":1,"hi":0}`, `{"candidates":[{},{}],"lo":0,"hi":1,"unsure":[9]}`,
	} {
		var r Record
		if err := json.Unmarshal([]byte(text), &r); err == nil {
			t.Errorf("%s is read as %+v", text, r)
		}
	}
}

// A canary whose desired config failed while it was tested keeps the one that it confirmed last: the search ends.
func TestASearchEndsThoughTheDesiredConfigFails(t *testing.T) {
	t.Parallel()
	r := search("a", "b")
	r.Before, r.Pushes = &Snapshot{MD5: "was"}, 1
	r.Abort("alice")
	o := Observation{Online: true, Desired: "head", Report: Snapshot{MD5: "confirmed during the search"}}
	if r.Step(r.Began, o) {
		t.Error("it ends while the desired config may come")
	}
	if o.Failed = fleet.Unhealthy; !r.Step(r.Began, o) || r.Phase != Ended || !strings.Contains(r.Has, "confirmed last") {
		t.Errorf("%+v", r)
	}
}
