package task

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edgespan/config/stateloop"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// desk is a machine whose steps are answered by hand.
type desk struct {
	testing.TB
	m    Machine
	now  time.Time
	open map[string]Do
}

func newDesk(t testing.TB) *desk { return &desk{TB: t, now: start, open: map[string]Do{}} }

// step gives an event and tells what is asked for, as "check a, make b".
func (d *desk) step(e Event) string {
	var out []string
	for _, do := range d.m.Step(e) {
		if _, twice := d.open[do.ID]; twice {
			d.Fatalf("two steps of %s at a time", do.ID)
		}
		d.open[do.ID] = do
		out = append(out, string(do.Step)+" "+do.ID)
	}
	return strings.Join(out, ", ")
}

func (d *desk) want(ts ...Task) string { return d.step(Desired{d.now, ts}) }

func (d *desk) answer(id string, f Found, reason string) string {
	do := d.open[id]
	delete(d.open, id)
	return d.step(Answered{d.now, id, do.Seq, f, reason})
}

// later lets time pass.
func (d *desk) later(by time.Duration) string {
	d.now = d.now.Add(by)
	return d.step(Tick{d.now})
}

// statuses are how the tasks are. One of which nothing is known yet has no state.
func statuses(m *Machine) (out []Status) {
	for _, i := range m.order {
		out = append(out, i.status)
	}
	return out
}

// is is how a task is, in words.
func (d *desk) is(id string) string {
	for _, s := range statuses(&d.m) {
		if s.ID != id {
			continue
		}
		out := fmt.Sprintf("v%d %s", s.Version, s.State)
		if s.Reason != "" {
			out += ": " + s.Reason
		}
		if s.Attempts > 0 {
			out += fmt.Sprintf(" x%d", s.Attempts)
		}
		if !s.NextTry.IsZero() {
			out += fmt.Sprintf(" again in %v", s.NextTry.Sub(d.now))
		}
		return out
	}
	return "none"
}

func present(id string, needs ...string) Task {
	return Task{ID: id, Target: stateloop.ToBePresent, Needs: needs, Version: 1, Every: 10 * time.Second,
		Settle: time.Second, Stable: time.Minute}
}

func absent(t Task) Task {
	t.Target = stateloop.ToBeAbsent
	t.Version++
	return t
}

// script is what is done, what is asked for then, and how "a" is then; "…" for whatever.
type line struct {
	do   func(d *desk) string
	asks string
	is   string
}

func say(f Found, reason string) func(d *desk) string {
	return func(d *desk) string { return d.answer("a", f, reason) }
}

func wait(by time.Duration) func(d *desk) string {
	return func(d *desk) string { return d.later(by) }
}

func want(ts ...Task) func(d *desk) string { return func(d *desk) string { return d.want(ts...) } }

func touch(d *desk) string { return d.step(Touched{d.now, "a"}) }

func TestATaskIsCheckedMadeAndAsserted(t *testing.T) {
	other := present("a")
	other.Version = 2
	watched := present("a")
	watched.Watched = true
	made := []line{
		{want(present("a")), "check a", "v0 "},
		{say(Absent, ""), "make a", "v1 Creating"},
		{say(Well, ""), "", "v1 Creating"},
		{wait(time.Second), "check a", "v1 Creating"},
		{say(Present, ""), "", "v1 Present"},
	}
	for name, lines := range map[string][]line{
		"made, asserted, and checked again": append(slices.Clone(made),
			line{wait(9 * time.Second), "", "v1 Present"}, line{wait(time.Second), "check a", "v1 Present"},
			line{say(Present, ""), "", "v1 Present"}),
		"there already: nothing is done": {
			{want(present("a")), "check a", "v0 "},
			{say(Present, ""), "", "v1 Present"},
			{want(present("a")), "", "v1 Present"},
		},
		"failures back off, and are counted": {
			{want(present("a")), "check a", "v0 "},
			{say(Absent, ""), "make a", "v1 Creating"},
			{say(Failed, "no"), "", "v1 CreatingFailed: no x1 again in 1s"},
			{touch, "", "v1 CreatingFailed: no x1 again in 1s"},
			{wait(time.Second), "check a", "v1 CreatingFailed: no x1 again in 0s"},
			{say(Absent, ""), "make a", "v1 CreatingFailed: no x1"},
			{say(Well, ""), "", "v1 CreatingFailed: no x1"},
			{wait(time.Second), "check a", "v1 CreatingFailed: no x1"},
			{say(Absent, "gone"), "", "v1 CreatingFailed: gone x2 again in 2s"},
			{wait(2 * time.Second), "check a", "…"},
			{say(Failed, "?"), "", "v1 CheckPresentFailed: ? x3 again in 4s"},
		},
		"lost after long: made again at once": append(slices.Clone(made),
			line{wait(10 * time.Second), "check a", "…"}, line{say(Present, ""), "", "…"},
			line{func(d *desk) string { d.now = d.now.Add(time.Hour); return touch(d) }, "check a", "v1 Present"},
			line{say(Absent, "ended"), "make a", "v1 Creating"}),
		"lost at once: a failure, and on probation after it": append(slices.Clone(made),
			line{touch, "check a", "v1 Present"},
			line{say(Absent, "ended with 3"), "", "v1 CreatingFailed: ended with 3 x1 again in 1s"},
			line{wait(time.Second), "check a", "…"}, line{say(Absent, ""), "make a", "…"}, line{say(Well, ""), "", "…"},
			line{wait(time.Second), "check a", "…"},
			line{say(Present, ""), "", "v1 CreatingFailed: ended with 3 x1"},
			line{wait(10 * time.Second), "check a", "…"},
			line{say(Absent, "ended with 4"), "", "v1 CreatingFailed: ended with 4 x2 again in 2s"}),
		"probation ends": append(slices.Clone(made),
			line{touch, "check a", "…"}, line{say(Absent, "ended"), "", "…"},
			line{wait(time.Second), "check a", "…"}, line{say(Present, ""), "", "v1 CreatingFailed: ended x1"},
			line{wait(time.Minute), "check a", "…"}, line{say(Present, ""), "", "v1 Present"}),
		"a newer config cancels between steps": {
			{want(present("a")), "check a", "v0 "},
			{want(other), "", "v0 "},
			{say(Absent, ""), "check a", "v0 "},
			{say(Absent, ""), "make a", "v2 Creating"},
			{want(absent(other)), "", "v2 Creating"},
			{say(Well, ""), "check a", "v2 Creating"},
			{say(Present, ""), "remove a", "v3 Removing"},
			{say(Well, ""), "check a", "v3 Removing"},
			{say(Absent, ""), "", "v3 Absent"},
			{wait(time.Hour), "", "v3 Absent"},
		},
		"a to b to a in one step": append(slices.Clone(made),
			line{want(other), "check a", "v1 Present"}, line{want(present("a")), "", "v1 Present"},
			line{say(Absent, ""), "check a", "v1 Present"}, line{say(Present, ""), "", "v1 Present"}),
		"what is on its way, and what broke": {
			{want(present("a")), "check a", "v0 "},
			{say(Busy, "runs"), "", "v1 Creating: runs"},
			{touch, "check a", "v1 Creating: runs"},
			{say(Broken, "ended with 1"), "", "v1 CreatingFailed: ended with 1"},
			{wait(10 * time.Second), "check a", "v1 CreatingFailed: ended with 1"},
		},
		"the world is not ready": {
			{want(present("a")), "check a", "v0 "},
			{say(Waiting, "no address"), "", "v1 WaitingForDependencies: no address"},
			{wait(10 * time.Second), "check a", "…"},
			{say(Absent, ""), "make a", "…"},
			{say(Waiting, "no link"), "", "v1 WaitingForDependencies: no link"},
		},
		"watched: never made, never removed": {
			{want(watched), "check a", "v0 "},
			{say(Absent, "3 of 3 lost"), "", "v1 CheckPresentFailed: 3 of 3 lost"},
			{wait(10 * time.Second), "check a", "…"},
			{say(Present, ""), "", "v1 Present"},
			{want(absent(watched)), "check a", "v1 Present"},
			{say(Present, ""), "", "v2 Absent"},
		},
		"forgotten": append(slices.Clone(made), line{touch, "check a", "…"}, line{want(), "", "none"},
			line{say(Absent, ""), "", "none"},
			line{want(present("a")), "check a", "v0 "}),
		"removal fails and is tried again": {
			{want(absent(present("a"))), "check a", "v0 "},
			{say(Failed, "?"), "", "v2 CheckAbsentFailed: ? x1 again in 1s"},
			{wait(time.Second), "check a", "…"},
			{say(Present, ""), "remove a", "…"},
			{say(Failed, "busy"), "", "v2 RemovingFailed: busy x2 again in 2s"},
			{wait(2 * time.Second), "check a", "…"},
			{say(Present, ""), "remove a", "…"},
			{say(Well, ""), "check a", "…"},
			{say(Present, ""), "", "v2 RemovingFailed: it is still there x3 again in 4s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			for n, l := range lines {
				if asks := l.do(d); asks != l.asks {
					t.Fatalf("line %d: asks for %q, want %q", n+1, asks, l.asks)
				}
				if now := d.is("a"); l.is != "…" && now != l.is {
					t.Fatalf("line %d: it is %q, want %q", n+1, now, l.is)
				}
			}
		})
	}
}

func TestWhatIsNeededComesFirstAndGoesLast(t *testing.T) {
	d := newDesk(t)
	if asks := d.want(present("a", "b"), present("b", "c"), present("c")); asks != "check c, check b, check a" {
		t.Fatalf("asks for %q", asks)
	}
	d.answer("a", Absent, "")
	if now := d.is("a"); now != "v1 WaitingForDependencies: waits for b, which is Creating" {
		t.Errorf("a is %q", now)
	}
	d.answer("b", Absent, "")
	if asks := d.answer("c", Absent, ""); asks != "make c" {
		t.Errorf("asks for %q", asks)
	}
	d.answer("c", Well, "")
	d.later(time.Second)
	if asks := d.answer("c", Present, ""); asks != "make b" {
		t.Errorf("with c there it asks for %q", asks)
	}
	d = newDesk(t)
	d.want(absent(present("a", "b")), absent(present("b")), present("x"))
	for _, id := range []string{"a", "b"} {
		d.answer(id, Present, "")
	}
	if now := d.is("b"); now != "v2 WaitingForDependencies: waits for the end of a" {
		t.Errorf("b is %q", now)
	}
	if asks := d.answer("x", Absent, ""); asks != "make x" { // a removal under way holds up nothing else
		t.Errorf("asks for %q", asks)
	}
	if asks := d.answer("a", Failed, "no"); asks != "remove b" { // nor does one that failed
		t.Errorf("after a failed removal it asks for %q", asks)
	}
}

func TestTheBackOffDoublesToAMinute(t *testing.T) {
	want := []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60}
	for n, w := range want {
		if got := Waits.After(n); got != w*time.Second {
			t.Errorf("after %d failures: %v, want %v", n, got, w*time.Second)
		}
	}
}

// host is a world in which tasks are, by the version that was made.
type host struct {
	has  map[string]uint64
	done map[string]int // changes, by id
}

// A model: random graphs, configs that change in between, steps that fail, hang for a while, and
// are answered in any order. Nothing is made or removed that is as it is wanted; what is needed comes
// first; and once the world is kind all is as it is wanted, and a second pass changes nothing.
func TestPropertyAnyGraphConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		w := &walk{r: rand.New(rand.NewPCG(seed, 11)), host: host{map[string]uint64{}, map[string]int{}}, now: start,
			fail: t.Fatalf}
		for range rapid.IntRange(1, 4).Draw(t, "configs") {
			w.reconfigure()
			w.run(rapid.IntRange(0, 60).Draw(t, "events"), 3)
		}
		w.run(0, 0)
		w.rest()
		changes := maps.Clone(w.host.done)
		w.version++ // the same again, under another number
		for i := range w.tasks {
			w.tasks[i].Version = w.tasks[i].Version*1000 + 7
			if v, has := w.host.has[w.tasks[i].ID]; has {
				w.host.has[w.tasks[i].ID] = v*1000 + 7
			}
		}
		w.step(Desired{w.now, w.tasks})
		w.rest()
		if !maps.Equal(changes, w.host.done) {
			t.Fatalf("a second pass on an unchanged host changes it: %v, before %v", w.host.done, changes)
		}
	})
}

type walk struct {
	r       *rand.Rand
	m       Machine
	host    host
	tasks   []Task
	open    []Do
	now     time.Time
	version uint64
	fail    func(string, ...any)
}

func (w *walk) reconfigure() {
	w.version++
	was := map[string]Task{}
	for _, t := range w.tasks {
		was[t.ID] = t
	}
	w.tasks = nil
	n := 1 + w.r.IntN(12)
	for i := range n {
		t := Task{ID: fmt.Sprintf("t%02d", i), Target: stateloop.ToBePresent, Version: w.version, Every: time.Hour}
		if old, ok := was[t.ID]; ok && w.r.IntN(2) == 0 {
			t.Version = old.Version
		}
		if w.r.IntN(4) == 0 {
			t.Target = stateloop.ToBeAbsent
		}
		for j := range i {
			if w.r.IntN(4) == 0 {
				t.Needs = append(t.Needs, fmt.Sprintf("t%02d", j))
			}
		}
		w.tasks = append(w.tasks, t)
	}
	w.r.Shuffle(n, func(i, j int) { w.tasks[i], w.tasks[j] = w.tasks[j], w.tasks[i] })
	w.step(Desired{w.now, w.tasks})
}

func (w *walk) task(id string) (Task, bool) {
	i := slices.IndexFunc(w.tasks, func(t Task) bool { return t.ID == id })
	if i < 0 {
		return Task{}, false
	}
	return w.tasks[i], true
}

func (w *walk) step(e Event) {
	for _, do := range w.m.Step(e) {
		if slices.ContainsFunc(w.open, func(o Do) bool { return o.ID == do.ID }) {
			w.fail("two steps of %s at a time", do.ID)
		}
		w.open = append(w.open, do)
		if len(w.open) > Parallel {
			w.fail("%d steps at a time", len(w.open))
		}
		switch do.Step {
		case Make:
			if w.host.has[do.ID] == do.Version {
				w.fail("%s is made, and is there", do.ID)
			}
			for _, id := range do.Needs {
				if n, ok := w.task(id); ok && n.Target == stateloop.ToBePresent && w.host.has[id] != n.Version {
					w.fail("%s is made before %s", do.ID, id)
				}
			}
		case Remove:
			if w.host.has[do.ID] == 0 {
				w.fail("%s is removed, and is not there", do.ID)
			}
		case Check:
		}
	}
}

// run answers what is open in any order; failures of a third where they are asked for.
func (w *walk) run(events, failures int) {
	for range events {
		if len(w.open) == 0 || w.r.IntN(5) == 0 {
			w.now = w.now.Add(time.Duration(w.r.IntN(3000)) * time.Millisecond)
			w.step(Tick{w.now})
			continue
		}
		w.answer(w.r.IntN(len(w.open)), failures > 0 && w.r.IntN(failures) == 0)
	}
}

func (w *walk) answer(n int, fails bool) {
	do := w.open[n]
	w.open = slices.Delete(w.open, n, n+1)
	found := Failed
	switch {
	case fails:
	case do.Step == Make:
		w.host.has[do.ID], found = do.Version, Well
		w.host.done[do.ID]++
	case do.Step == Remove:
		delete(w.host.has, do.ID)
		w.host.done[do.ID]++
		found = Well
	case do.Target == stateloop.ToBePresent && w.host.has[do.ID] == do.Version, do.Target == stateloop.ToBeAbsent &&
		w.host.has[do.ID] != 0:
		found = Present
	default:
		found = Absent
	}
	w.step(Answered{w.now, do.ID, do.Seq, found, ""})
}

// rest lets a kind world come to its end, and judges it.
func (w *walk) rest() {
	for range 2000 {
		for len(w.open) > 0 {
			w.answer(0, false)
		}
		at, ok := w.m.Next()
		if !ok || at.Sub(w.now) > 10*time.Minute {
			break
		}
		w.now = at
		w.step(Tick{w.now})
	}
	for _, s := range statuses(&w.m) {
		t, _ := w.task(s.ID)
		want, have := stateloop.Present, w.host.has[s.ID] == t.Version
		if t.Target == stateloop.ToBeAbsent {
			want, have = stateloop.Absent, w.host.has[s.ID] == 0
		}
		if s.State != want || !have || s.Version != t.Version || s.Attempts != 0 {
			w.fail("at rest %s is %+v, on the host %v, wanted %+v", s.ID, s, w.host.has[s.ID], t)
		}
	}
}

// A second pass over 1,000 tasks that are as they are wanted.
func BenchmarkSecondPass(b *testing.B) {
	var tasks []Task
	for i := range 1000 {
		t := present(fmt.Sprintf("executor/%d", i))
		if i > 0 {
			t.Needs = []string{fmt.Sprintf("executor/%d", i/2)}
		}
		tasks = append(tasks, t)
	}
	var m Machine
	now := start
	pass := func(open []Do) {
		for len(open) > 0 {
			do := open[0]
			if do.Step != Check {
				b.Fatalf("%s of %s", do.Step, do.ID)
			}
			open = append(open[1:], m.Step(Answered{now, do.ID, do.Seq, Present, ""})...)
		}
	}
	pass(m.Step(Desired{now, tasks}))
	for b.Loop() {
		now = now.Add(10 * time.Second)
		pass(m.Step(Tick{now}))
	}
}
