package manager

import (
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// clocked is a manager with a clock that the test advances. Each apply takes 10 ms and ends as result returns.
type clocked struct {
	m        *Manager
	now      time.Time
	due      []dueStep
	result   func() Applied
	applies  []time.Time
	full     int
	shown    netinst.NetworkInstanceStatus
	reported []ApplyReport
}

type dueStep struct {
	at time.Time
	do func()
}

// newClocked returns a network with one adapter, both long applied.
func newClocked() *clocked {
	c := &clocked{m: New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil), now: at(1000)}
	c.result = func() Applied { return Applied{} }
	for _, e := range []Event{
		ApplierReady{}, PortsChanged{Ports: testPort()}, ConfigChanged{Config: testNetwork(1)}, AdapterChanged{testAdapter(appW, 1, true)},
		AdaptersKnown{}, Synchronized{},
	} {
		c.step(e)
	}
	c.run(5 * time.Minute)
	c.applies, c.full, c.reported = nil, 0, nil
	return c
}

func (c *clocked) after(d time.Duration, do func()) {
	c.due = append(c.due, dueStep{c.now.Add(d), do})
	slices.SortStableFunc(c.due, func(a, b dueStep) int { return a.at.Compare(b.at) })
}

func (c *clocked) step(e Event) {
	for _, eff := range c.m.Step(e) {
		switch e := eff.(type) {
		case Timer:
			if !e.Shared { // the check each minute is tested elsewhere
				c.after(e.After, func() { c.step(TimerDue{e.Token, c.now}) })
			}
		case Apply:
			c.applies = append(c.applies, c.now)
			if e.Full {
				c.full++
			}
			began := c.now
			c.after(10*time.Millisecond, func() {
				r := c.result()
				r.Seq, r.At, r.Began, r.ObservedAt = e.Seq, c.now, began, began
				if len(r.Done) > 0 && len(r.Failures) == 0 { // it is read back
					r.ObservedAt = c.now.Add(-time.Millisecond)
				}
				c.step(r)
			})
		case PublishNetwork:
			c.shown = e.Status
		case ReportApply:
			c.reported = append(c.reported, e.Report)
		}
	}
}

// run lets time pass.
func (c *clocked) run(d time.Duration) {
	end := c.now.Add(d)
	for len(c.due) > 0 && !c.due[0].at.After(end) {
		next := c.due[0]
		c.due, c.now = c.due[1:], next.at
		next.do()
	}
	c.now = end
}

// touch reports a change of an object on the host now.
func (c *clocked) touch(what string) { c.step(HostTouched{What: what, At: c.now}) }

// storm touches an object every 100 ms.
func (c *clocked) storm(what string, d time.Duration) {
	for end := c.now.Add(d); c.now.Before(end); c.run(100 * time.Millisecond) {
		c.touch(what)
	}
}

func repairs() Applied {
	link := netstate.Link{Name: "es1"}
	return Applied{Done: []netstate.Op{{Verb: netstate.Change, Kind: netstate.KindLink,
		Items: []netstate.Item{{Have: link, Want: link}}}}}
}

func TestTouchesAreLookedAtAtOnceAndThenMoreAndMoreSeldom(t *testing.T) {
	for _, what := range []string{TouchNetwork, TouchPorts, TouchRules, TouchLost, "es1a1"} {
		c := newClocked()
		c.touch(what)
		if len(c.applies) != 1 {
			t.Errorf("%q: the first touch is looked at %d times at once", what, len(c.applies))
		}
		c.storm(what, 10*time.Minute)
		if n := len(c.applies); n < 50 || n > 1+touchBurst+60 {
			t.Errorf("%q: ten minutes of touches are looked at %d times", what, n)
		}
		c.run(touchRest) // the last touch of the storm is observed, too
		c.applies = nil
		c.run(5 * time.Minute)
		if len(c.applies) > 0 {
			t.Errorf("%q: looked at in calm: %v", what, c.applies)
		}
		c.touch(what)
		if len(c.applies) != 1 {
			t.Errorf("%q: after a calm it is looked at %d times at once", what, len(c.applies))
		}
	}
}

func TestWhatAnAppDoesToItsLinkHoldsNoRepairUp(t *testing.T) {
	for _, what := range []string{TouchNetwork, TouchRules, TouchPorts, TouchAsked, TouchLost} {
		c := newClocked()
		c.storm("es1a1", time.Minute)
		c.applies, c.full = nil, 0
		c.touch(what)
		c.run(time.Millisecond)
		if len(c.applies) != 1 || what == TouchRules && c.full != 1 {
			t.Errorf("%q beside a storm: %d looks at once, %d of them full", what, len(c.applies), c.full)
		}
	}
	// Many apps together don't get more than a single one does in its first seconds.
	c := newClocked()
	for range 600 {
		for a := range 50 {
			c.touch("es1a" + string(rune('A'+a)))
		}
		c.run(100 * time.Millisecond)
	}
	if n := len(c.applies); n > 62 {
		t.Errorf("fifty apps have the network looked at %d times in a minute", n)
	}
	c.run(time.Minute)
	if n := len(c.m.damping.buckets); n > 50 {
		t.Errorf("%d buckets for fifty links", n)
	}
}

// The kernel also notifies of what an apply does itself: that is no reason to observe again.
func TestAnApplyIsNotItsOwnReason(t *testing.T) {
	c := newClocked()
	c.result = repairs
	c.touch(TouchNetwork)
	c.run(5 * time.Millisecond) // under way
	c.touch(TouchNetwork)
	c.touch("es1a1")
	c.run(time.Minute)
	if len(c.applies) != 1 {
		t.Errorf("%d applies", len(c.applies))
	}
	// What happens after an apply's last observation may come from others: it is observed, and not counted.
	c = newClocked()
	c.result = repairs
	c.touch(TouchNetwork)
	c.run(9500 * time.Microsecond)
	c.touch("es1a1")
	c.run(time.Millisecond)
	c.result = func() Applied { return Applied{} }
	if c.run(2 * time.Second); len(c.applies) != 2 {
		t.Errorf("touched after the last look: %d applies", len(c.applies))
	}
}

func TestAFailingOpWaitsForItsRetryWhateverItTouches(t *testing.T) {
	c := newClocked()
	failing := fail(netstate.KindLink, "es1a1", "mtu greater than device maximum")
	c.result = func() Applied { return Applied{Failures: []netstate.OpFailure{failing}} }
	c.step(AdapterChanged{testAdapter(appW, 2, true)})
	for end := c.now.Add(10 * time.Minute); c.now.Before(end); {
		before := len(c.applies)
		c.run(5 * time.Millisecond)
		c.touch("es1a1") // notified during the apply, and after it
		c.touch(TouchNetwork)
		c.run(30 * time.Millisecond)
		if len(c.applies) > before { // late notifications of the kernel
			c.touch(TouchNetwork)
			c.step(HostTouched{Namespaces: true, At: c.now})
		}
		for len(c.applies) == before && c.now.Before(end) {
			c.run(10 * time.Millisecond)
			c.touch("es1a1")
			c.step(AdapterChanged{testAdapter(appW, 2, true)}) // sent again, as no answer came
		}
	}
	// 0.1, 0.2, … 51.2 s, then each minute.
	if n := len(c.applies); n > 1+10+9 || n < 15 {
		t.Errorf("tried %d times in ten minutes: %v", n, c.applies)
	}
	c.applies = nil
	c.run(time.Second)
	c.touch(TouchNetwork)
	if len(c.applies) != 1 {
		t.Errorf("what others do to the network waits for the retry")
	}
	c.run(2 * time.Second)
	c.applies = nil
	c.touch(TouchRules)
	if c.run(2 * time.Second); len(c.applies) == 0 {
		t.Error("chains flushed beside a failing op wait for its retry")
	}
	c.applies = nil
	c.step(AdapterChanged{testAdapter(appW, 3, true)})
	if len(c.applies) != 1 {
		t.Error("another config waits for the retry")
	}
}

// Hundreds of networks may wait for namespaces or links that never appear: each try reads the host. What an event
// announces is tried at once when it comes, and else as rarely as what fails.
func TestWhatIsAnnouncedIsRetriedRarely(t *testing.T) {
	link := netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindLink, Name: "es1a1"}, Waiting: true, Announced: true,
		Err: "no namespace"}
	blocked := netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindPort, Name: "es1a1"}, Waiting: true, Blocked: true,
		Err: "waits for link es1a1"}
	address := netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindAddress, Name: "es1 10.1.0.1/24"}, Waiting: true,
		Err: "es2 still has 10.1.0.1/24"}
	for name, x := range map[string]struct {
		fails       []netstate.OpFailure
		least, most int // tries in ten minutes
	}{
		"announced":                  {[]netstate.OpFailure{link, blocked}, 10, 30},
		"not announced":              {[]netstate.OpFailure{address}, 590, 650},
		"announced beside another":   {[]netstate.OpFailure{link, blocked, address}, 590, 650},
		"announced beside a failure": {[]netstate.OpFailure{link, fail(netstate.KindRule, "20001", "no memory")}, 10, 30},
	} {
		c := newClocked()
		c.result = func() Applied { return Applied{Failures: x.fails} }
		c.step(AdapterChanged{testAdapter(appW, 2, true)})
		c.run(10 * time.Minute)
		if n := len(c.applies); n < x.least || n > x.most {
			t.Errorf("%s: tried %d times in ten minutes, want %d to %d", name, n, x.least, x.most)
		}
		for i := range 60 { // on a host where namespaces come and go all the time
			c.applies = nil
			c.step(HostTouched{Namespaces: true, At: c.now})
			if c.run(time.Second + echoTime); len(c.applies) == 0 && name == "announced" {
				t.Fatalf("%s: the namespace event %d is tried later than a second", name, i)
			}
		}
		c.result = func() Applied { return Applied{Failures: []netstate.OpFailure{fail(netstate.KindLink, "es1a1", "no")}} }
		c.applies = nil
		c.step(AdapterChanged{testAdapter(appW, 3, true)})
		if c.run(3 * time.Second); name == "announced" && len(c.applies) < 2 {
			t.Errorf("%s: what fails after it waits as long", name)
		}
	}
}

func TestChainsFlushedWhileSomethingFailsAreBackSoon(t *testing.T) {
	c := newClocked()
	c.result = func() Applied {
		return Applied{Failures: []netstate.OpFailure{fail(netstate.KindLink, "es1a1", "no memory")}}
	}
	c.step(AdapterChanged{testAdapter(appW, 2, true)})
	c.run(2 * time.Minute)
	for len(c.applies) > 0 && c.now.Sub(c.applies[len(c.applies)-1]) > 5*time.Millisecond { // into the middle of a retry
		c.run(time.Millisecond)
	}
	c.full = 0
	c.touch(TouchRules)
	if c.run(2 * time.Second); c.full == 0 {
		t.Error("chains that are flushed while an op fails wait for its retry")
	}
}

func TestAContestWithOthersIsReported(t *testing.T) {
	c := newClocked()
	c.result = repairs
	c.storm(TouchNetwork, 30*time.Second)
	if !strings.HasPrefix(c.shown.Warning, "changed by others 1") ||
		!strings.HasSuffix(c.shown.Warning, " times in the last minute, last change link es1") {
		t.Errorf("warning %q", c.shown.Warning)
	}
	var began, silent int
	for _, a := range c.reported {
		if a.Contest != "" && !a.Contested {
			began++
		}
		if a.Contested {
			silent++
		}
	}
	if began != 1 || silent < 5 {
		t.Errorf("told %d times that it began, %d accounts of a contest that was told", began, silent)
	}
	c.run(3 * time.Minute)
	if c.shown.Warning != "" {
		t.Errorf("three minutes later: %q", c.shown.Warning)
	}
	c.reported = nil
	c.storm(TouchNetwork, 5*time.Second)
	if !slices.ContainsFunc(c.reported, func(a ApplyReport) bool { return a.Contest != "" && !a.Contested }) {
		t.Error("the next contest is not told")
	}
}

// When a touch is due, according to its bucket, the bucket of all adapters' links and the last apply.
func TestWhenATouchIsDue(t *testing.T) {
	last := at(1000)
	for name, c := range map[string]struct {
		d    damping
		what string
		at   time.Duration // after the last observation
		want time.Duration
	}{
		"the first": {damping{}, TouchNetwork, 0, 0},
		"the second": {damping{buckets: map[string]bucket{TouchNetwork: {last: last, n: 1}}},
			TouchNetwork, 0, touchGap},
		"the last of a burst": {damping{buckets: map[string]bucket{TouchNetwork: {last: last,
			n: touchBurst - 1}}}, TouchNetwork, 0, touchGap},
		"the one after a burst": {damping{buckets: map[string]bucket{TouchNetwork: {last: last, n: touchBurst}}},
			TouchNetwork, 0, touchRest},
		"one that waited by itself": {damping{buckets: map[string]bucket{TouchNetwork: {last: last, n: touchBurst}}},
			TouchNetwork, touchCalm, touchCalm},
		"the host's routing, which rests in any case": {
			damping{buckets: map[string]bucket{touchRouting: {last: last, n: touchBurst - 1}}},
			touchRouting, 0, 0},
		"beneath, after a burst": {damping{buckets: map[string]bucket{touchRouting: {last: last, n: touchBurst}}},
			touchRouting, 0, touchGap},
		"another adapter's link":          {damping{links: last}, "es1a2", 0, touchGap},
		"the bridge, after an app's link": {damping{links: last}, TouchNetwork, 0, 0},
		"an app's link, the first":        {damping{}, "es1a2", 0, 0},
		"an echo":                         {damping{began: last.Add(-time.Second), ended: last}, TouchNetwork, 0, echoTime},
	} {
		if got := c.d.due(c.what, last.Add(c.at)).Sub(last); got != c.want {
			t.Errorf("%s: after %v, want %v", name, got, c.want)
		}
	}
}

// A minute of calm fills a bucket, and a full bucket is not kept: names of links come and go.
func TestBucketsAreBounded(t *testing.T) {
	var d damping
	for i := range touchBurst {
		d.spend("x", at(int64(1000+i)))
	}
	if n := d.buckets["x"].n; n != touchBurst {
		t.Errorf("%d are spent of a burst", n)
	}
	last := at(1000 + touchBurst - 1)
	if d.spend("x", last.Add(touchCalm-1)); d.buckets["x"].n != touchBurst+1 {
		t.Errorf("just before a minute of calm %d are spent", d.buckets["x"].n)
	}
	last = last.Add(touchCalm - 1)
	if d.spend("x", last.Add(touchCalm)); d.buckets["x"].n != 1 {
		t.Errorf("after a minute of calm %d are spent", d.buckets["x"].n)
	}
	for i := range 2 * touchBurst {
		d.spend(strings.Repeat("z", i+1), at(4000))
	}
	for i := range 1000 {
		d.spend(strings.Repeat("y", i+1), at(int64(5000+10*i)))
	}
	if len(d.buckets) > 2*touchBurst {
		t.Errorf("%d buckets are kept", len(d.buckets))
	}
}

// An observation knows what it covers; only a full one covers chains.
func TestWhatALookHasSeen(t *testing.T) {
	for _, c := range []struct {
		full  bool
		what  string
		at    int64
		known bool
	}{
		{false, TouchNetwork, 9, true}, {false, TouchNetwork, 10, false}, {false, TouchRules, 9, false},
		{false, TouchLost, 9, false},
		{true, TouchRules, 9, true}, {true, TouchLost, 9, true}, {true, TouchRules, 10, false},
	} {
		d := damping{observedAt: at(10), full: c.full}
		if got := d.covers(c.what, at(c.at)); got != c.known {
			t.Errorf("%+v: known %v", c, got)
		}
	}
}

// Touches of host state matter only to a switch with tunnels, and only a retry that is due delays an observation.
func TestWhichTouchesAreOfInterest(t *testing.T) {
	for _, c := range []struct {
		typ     netinst.Type
		tunnels []netinst.Tunnel
		want    int
	}{{netinst.Switch, []netinst.Tunnel{{}}, 1}, {netinst.Switch, nil, 0}, {netinst.Local, []netinst.Tunnel{{}}, 0},
		{netinst.Local, nil, 0}} {
		m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
		m.config.Type, m.config.Tunnels, m.flight = c.typ, c.tunnels, &flight{}
		if m.touched(HostTouched{HostRouting: true, At: at(1)}); len(m.damping.pending) != c.want {
			t.Errorf("%v with %d tunnels: %d touches wait", c.typ, len(c.tunnels), len(m.damping.pending))
		}
	}
	for _, c := range []struct {
		failing bool
		retry   uint64
		looks   int
	}{{true, 5, 0}, {true, 0, 1}, {false, 5, 1}, {false, 0, 1}} {
		m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
		m.failing, m.retryTok, m.damping.failed = c.failing, c.retry, map[string]bool{"es1a1": true}
		m.damping.pending = map[string]time.Time{"es1a1": at(1)}
		if m.checkTouched(at(2)); len(m.damping.buckets) != c.looks || len(m.damping.pending) != 0 {
			t.Errorf("failing %v, retry %d: looked at %d", c.failing, c.retry, len(m.damping.buckets))
		}
	}
}

// What the end of an apply means for the touches to come.
func TestTouchesThatAnApplyExplains(t *testing.T) {
	done := repairs().Done
	bad := []netstate.OpFailure{fail(netstate.KindLink, "l", "no"), fail(netstate.KindPort, "p", "no"),
		fail(netstate.KindRoute, "r", "no")}
	for name, c := range map[string]struct {
		full      bool
		e         Applied
		sawChains bool
		ended     bool
		failed    string
		spent     int
	}{
		"nothing":            {full: true, sawChains: true, spent: 1},
		"not a full look":    {},
		"it did something":   {full: true, e: Applied{Done: done}, ended: true, spent: 2},
		"it failed":          {full: true, e: Applied{Failures: bad}, sawChains: true, ended: true, failed: "l p"},
		"it did, and failed": {full: true, e: Applied{Done: done, Failures: bad}, ended: true, failed: "l p"},
	} {
		m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
		m.damping.buckets = map[string]bucket{"x": {n: 1, echo: true}}
		want := netstate.NewState(netstate.Link{Name: "es1"})
		m.ledger.settled = want
		c.e.At, c.e.Began = at(10), at(9)
		m.applyEnded(&flight{full: c.full, desired: netinst.Desired{State: want}}, c.e)
		d := m.damping
		var failed []string
		for what := range d.failed {
			failed = append(failed, what)
		}
		slices.Sort(failed)
		if d.full != c.sawChains || d.ended.IsZero() == c.ended || strings.Join(failed, " ") != c.failed {
			t.Errorf("%s: saw chains %v, ended %v, failed %v", name, d.full, d.ended, failed)
		}
		if c.spent != 0 && (d.buckets["x"].n != c.spent || d.buckets["x"].echo) {
			t.Errorf("%s: the bucket is %+v", name, d.buckets["x"])
		}
	}
}

func TestWhenAContestIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		repairs  int // of the last minutes
		flight   *flight
		shown    bool
		reported bool // still reported
		publish  bool
	}{
		"it is over":                   {0, nil, true, false, true},
		"it goes on":                   {contestAfter, nil, true, true, false},
		"one repair less is none":      {contestAfter - 1, nil, true, false, true},
		"an apply is under way":        {0, &flight{}, true, false, false},
		"nothing was ever said of it":  {0, nil, false, false, false},
		"nor is while one is underway": {0, &flight{}, false, false, false},
	} {
		m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
		d := &m.damping
		d.what, d.reported, d.repairs = "change link es1", true, []time.Time{at(40), at(40), at(40)} // a minute ago
		now := at(100)
		if c.repairs == contestAfter {
			d.repairs = nil
			for range c.repairs {
				d.repairs = append(d.repairs, now)
			}
		}
		m.show(netinst.Present, "")
		if c.repairs == contestAfter-1 {
			d.repairs = append(slices.Repeat([]time.Time{now}, c.repairs), at(40))
		}
		m.shown, m.flight, m.token = c.shown, c.flight, 5
		published := false
		for _, e := range m.endContest(now) {
			if _, ok := e.(PublishNetwork); ok {
				published = true
			}
		}
		if d.reported != c.reported || published != c.publish {
			t.Errorf("%s: told %v, published %v", name, d.reported, published)
		}
		if again := d.contestTok != 0; again != (c.repairs == contestAfter) || again && d.contestTok <= 5 {
			t.Errorf("%s: the timer is %d", name, d.contestTok)
		}
	}
}
