package appnet_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/netinst"
)

var (
	modelSeed = flag.Uint64("appnet.seed", 0, "run the model with this seed only and print its log")
	modelRuns = flag.Int("appnet.runs", 2000, "how many interleavings the model tries; a fifth of them with -short")
)

// checkPending checks a status that says "not pending" against what the machine was notified of and against what the
// bridge managers have actually answered.
func (w *world) checkPending() {
	if w.shown.Pending {
		return
	}
	want, c := w.shown.TargetVersion, w.desired.seen()
	if c == nil {
		w.fail("an app that is not wanted is not pending")
		return
	}
	for _, p := range w.places() {
		u, ok := c.Adapters[p.Key.Index]
		s, answered := w.view[p]
		if !ok || u.NetworkInstance != p.Scope {
			if answered || w.adapters[p].have() {
				w.fail("not pending while something is left at %s", name(p))
			}
			continue
		}
		if !answered || s.TargetVersion != want || s.Activated != c.Activate || !w.nisSeen[p.Scope] {
			w.fail("not pending at v%d while %s says %+v, online %v", want, name(p), s, w.nisSeen[p.Scope])
		}
		if !slices.ContainsFunc(w.statuses[p].values, func(s *netinst.AppAdapterStatus) bool {
			return s != nil && s.TargetVersion == want && s.Activated == c.Activate
		}) {
			w.fail("not pending at v%d, which %s never answered", want, name(p))
		}
	}
}

// check holds after every step of any actor.
func (w *world) check() {
	for k := range 3 {
		on := 0
		for _, p := range w.places() {
			if p.Key.Index == k && w.nets[p.Scope].active[p.Key] && !w.excused[p] {
				on++
			}
		}
		if on > 1 {
			w.fail("adapter %d is active on %d networks", k, on)
		}
	}
}

// randomConfig changes, deletes or restores the app's config.
func (w *world) randomConfig() {
	if w.r.IntN(6) == 0 {
		if w.desired.have() {
			w.say("config: deleted")
			w.desired.put(nil)
		}
		return
	}
	if n := len(w.desired.values); n > 1 && !w.desired.have() && w.r.IntN(3) == 0 {
		w.say("config: comes back as it was: %s", configText(*w.desired.before(n - 1)))
		w.desired.put(w.desired.before(n - 1))
		return
	}
	c := config{UUID: w.app, DisplayName: fmt.Sprint("app", w.r.IntN(2)), Activate: w.r.IntN(4) > 0}
	c.Adapters = map[int]netinst.AdapterSpec{}
	for k := range 3 {
		if w.r.IntN(3) > 0 {
			c.Adapters[k] = netinst.AdapterSpec{
				NetworkInstance: w.nis[w.r.IntN(3)], Netns: "app", IfName: netinst.IfName(fmt.Sprintf("e%d-%d", k, w.r.IntN(2))),
				Hostname: "app",
			}
		}
	}
	w.say("config: %s activate=%v %s", c.DisplayName, c.Activate, configText(c))
	w.desired.put(&c)
}

func configText(c config) string {
	var out []string
	for k := range 3 {
		if u, ok := c.Adapters[k]; ok {
			out = append(out, fmt.Sprintf("%d#%d", u.NetworkInstance[15], k))
		}
	}
	return strings.Join(out, " ")
}

// deliver delivers one value of one topic to the app's actor, and reports whether there was one.
func (w *world) deliver() bool {
	defer w.forget()
	if w.m == nil {
		if w.crashed || w.desired.have() {
			w.start()
			return true
		}
		return false
	}
	switch n := w.r.IntN(13); {
	case n == 0:
		pending := w.desired.behind()
		if c := w.desired.next(w.r); c != nil {
			w.follow(c)
			w.tell(appnet.ConfigChanged{Config: *c})
		} else {
			w.tell(appnet.ConfigDeleted{})
		}
		return pending
	case n <= 3:
		ni := w.nis[n-1]
		t := &w.nets[ni].online
		pending := t.behind()
		if w.forgotten[ni] {
			t.replay()
		} else if s := t.next(w.r); s != nil {
			w.tell(appnet.NetworkOnline{NI: ni, Status: *s})
		} else {
			w.tell(appnet.NetworkOffline{NI: ni})
		}
		return pending
	default:
		return w.deliverStatus(w.places()[n-4])
	}
}

func (w *world) deliverStatus(p place) bool {
	t := w.statuses[p]
	if !w.healthy && len(t.values) > 1 && w.r.IntN(8) == 0 {
		// Reordered: an older value is delivered once more; the values after it are delivered again later.
		if i := w.r.IntN(len(t.values)); t.values[i] != nil && i+1 < t.read {
			t.read = i + 1
			w.say("topic: %s is told v%d again", name(p), t.values[i].TargetVersion)
			w.tell(appnet.AdapterStatusChanged{Scope: p.Scope, Status: *t.values[i]})
			return true
		}
	}
	pending := t.behind()
	if s := t.next(w.r); s != nil {
		w.tell(appnet.AdapterStatusChanged{Scope: p.Scope, Status: *s})
	} else {
		w.tell(appnet.AdapterStatusGone{Scope: p.Scope, Key: p.Key})
	}
	return pending
}

// fire fires one timer, possibly one that is obsolete.
func (w *world) fire() bool {
	if len(w.timers) == 0 {
		return false
	}
	i := w.r.IntN(len(w.timers))
	due := w.timers[i]
	w.timers = slices.Delete(w.timers, i, i+1)
	w.tell(due)
	return true
}

// disturb is what no longer happens once the world is quiet.
func (w *world) disturb() {
	n := w.nets[w.nis[w.r.IntN(3)]]
	switch w.r.IntN(10) {
	case 0, 1, 2:
		w.randomConfig()
	case 3, 4:
		n.want(!n.config.have(), false, 1500)
	case 5:
		if n.config.have() {
			n.want(true, w.r.IntN(3) == 0, 1400+w.r.IntN(3))
		}
	case 6:
		if n.mgr != nil {
			w.say("bm %d: crashes", n.ni[15])
			n.crash()
		}
	case 8, 9:
		n.drift()
	case 7:
		if w.m != nil {
			w.say("app: crashes")
			w.crash()
		}
	}
}

func (w *world) step() {
	switch n := w.r.IntN(20); {
	case n == 0:
		w.disturb()
	case n < 9:
		w.nets[w.nis[w.r.IntN(3)]].act()
	case n < 19:
		w.deliver()
	default:
		w.fire()
	}
	w.check()
}

// settle lets all actors act until nothing is left to do.
func (w *world) settle() bool {
	w.healthy = true
	for range 50000 {
		w.nets[w.nis[w.r.IntN(3)]].act()
		w.deliver()
		w.fire()
		if w.check(); w.broken != "" {
			return false
		}
		if w.atRest() {
			return true
		}
	}
	return false
}

// atRest reports whether no actor has anything left to read, to do or to wait for.
func (w *world) atRest() bool {
	if len(w.timers) > 0 || w.m != nil && w.desired.behind() || w.m == nil && (w.crashed || w.desired.have()) {
		return false
	}
	for _, n := range w.nets {
		st, c := n.online.now(), n.config.now()
		switch {
		case n.config.behind() && n.mgr != nil, n.crashed, n.touched && n.mgr != nil, w.m != nil && n.online.behind(),
			(c != nil) != (n.mgr != nil), (c != nil) != (st != nil):
			return false
		case c != nil && (st.State != netinst.Present || st.Generation != c.Generation || n.applier.req != nil ||
			!n.applier.ready):
			return false
		}
	}
	for _, p := range w.places() {
		if n := w.nets[p.Scope]; n.mgr != nil && w.adapters[p].behind() || w.statuses[p].have() && !w.adapters[p].have() ||
			w.m != nil && w.statuses[p].behind() {
			return false
		}
	}
	return true
}

// settled holds once everything is at rest.
func (w *world) settled(missing *uuid.UUID) {
	c := w.desired.now()
	if c == nil {
		if w.shown != nil || w.m != nil {
			w.fail("a deleted app is still there: %+v", w.shown)
		}
	} else if w.shown == nil || w.shown.TargetVersion != w.journal.TargetVersion {
		w.fail("the status is %+v, the journal v%d", w.shown, w.journal.TargetVersion)
	}
	hurt := false
	for _, p := range w.places() {
		desired := c != nil && c.Adapters[p.Key.Index].NetworkInstance == p.Scope
		gone := missing != nil && *missing == p.Scope
		hurt = hurt || desired && gone
		if desired != w.adapters[p].have() || !desired && w.statuses[p].have() {
			w.fail("%s: wanted %v, config %v, status %v", name(p), desired, w.adapters[p].now(), w.statuses[p].now())
		}
		if on := w.nets[p.Scope].active[p.Key]; on != (desired && !gone && c.Activate) {
			w.fail("%s: active %v on the host, wanted %v", name(p), on, desired)
		}
	}
	if c == nil || w.shown == nil {
		return
	}
	if w.shown.Pending != hurt {
		w.fail("pending %v at rest: %s", w.shown.Pending, w.shown.Error)
	}
	if hurt && !strings.Contains(w.shown.Error, "not online") {
		w.fail("pending for a missing network without its name: %q", w.shown.Error)
	}
	if !hurt && (w.shown.Error != "" || w.shown.Activated != c.Activate) {
		w.fail("at rest with activated %v, error %q", w.shown.Activated, w.shown.Error)
	}
}

// TestModel_PendingClearsVersionsRiseNoAdapterOnTwoNetworks runs the machine among real bridge managers, whose host
// fails, hangs and drifts, over random interleavings with crashes, late, skipped, repeated and reordered notifications,
// moves, deletions and returns.
func TestModel_PendingClearsVersionsRiseNoAdapterOnTwoNetworks(t *testing.T) {
	if *modelSeed != 0 {
		t.Log(strings.Join(runModel(t, *modelSeed).log, "\n"))
		return
	}
	runs := *modelRuns
	if testing.Short() {
		runs /= 5
	}
	const workers = 2
	var parts [workers]coverage
	var all sync.WaitGroup
	for i := range parts {
		all.Go(func() {
			for seed := 1 + i; seed <= runs && !t.Failed(); seed += workers {
				parts[i].count(runModel(t, uint64(seed)))
			}
		})
	}
	all.Wait()
	var seen coverage
	for _, part := range parts {
		for i, n := range part {
			seen[i] += n
		}
	}
	t.Logf("%+v", seen)
	if runs >= 400 && slices.Min(seen[:]) == 0 {
		t.Errorf("the model never came to some of %v: %v", coverageWords, seen)
	}
}

func runModel(t *testing.T, seed uint64) *world {
	w := newWorld(seed)
	for range 60 + w.r.IntN(300) {
		if w.step(); w.broken != "" {
			break
		}
	}
	// The end: all networks exist or one is missing; the app is desired or deleted.
	var missing *uuid.UUID
	if w.r.IntN(4) == 0 {
		missing = &w.nis[w.r.IntN(3)]
	}
	for _, ni := range w.nis {
		w.nets[ni].want(missing == nil || ni != *missing, false, 1500)
	}
	if w.r.IntN(3) == 0 {
		w.say("config: deleted at the end")
		w.desired.put(nil)
	}
	if !w.settle() {
		w.fail("no rest is found")
	} else {
		w.settled(missing)
	}
	if w.broken != "" {
		tail := w.log[max(0, len(w.log)-60):]
		t.Errorf("%s\nagain with: go test ./appnet -run TestModel -appnet.seed=%d\n%s", w.broken, seed,
			strings.Join(tail, "\n"))
	}
	return w
}

// coverage counts how often the interesting events happened, so that the test fails if the model no longer produces
// them.
type coverage [12]int

var coverageWords = [12]string{
	"app: forgets", "app: crashes after", "bm %: crashes", "app: resend", "told v", "still on", "app: done", "not online",
	"applier %: fails", "applier %: hangs", "applier %: dies", "host %: loses",
}

func (c *coverage) count(w *world) {
	for _, line := range w.log {
		for i, word := range coverageWords {
			head, tail, _ := strings.Cut(word, "%")
			if strings.Contains(line, head) && strings.Contains(line, tail) {
				c[i]++
			}
		}
	}
}
