package stateloop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edgespan/config"
)

// Of two reports about one parameter the newer counts, at one time the worse, then the message.
func TestWhichOfTwoReportsCounts(t *testing.T) {
	before, after := foundAt, foundAt.Add(time.Nanosecond)
	for _, c := range []struct {
		name   string
		target Target
		a, b   Reported // b counts
	}{
		{"the newer", ToBePresent, Reported{State: CreatingFailed, Since: before}, Reported{State: Present, Since: after}},
		{"one with a time", ToBePresent, Reported{State: CreatingFailed}, Reported{State: Present, Since: before}},
		{"the failure", ToBePresent, Reported{State: Present}, Reported{State: CreatingFailed}},
		{"the failure, not the wait", ToBePresent, Reported{State: WaitingForDependencies},
			Reported{State: CheckPresentFailed}},
		{"the wait", ToBePresent, Reported{State: Present}, Reported{State: WaitingForDependencies}},
		{"what is not as wanted, to be present", ToBePresent, Reported{State: Present}, Reported{State: Absent}},
		{"what is not as wanted, to be absent", ToBeAbsent, Reported{State: Absent}, Reported{State: Present}},
		{"the failure of this target", ToBePresent, Reported{State: RemovingFailed}, Reported{State: CreatingFailed}},
		{"the stale failure, not the wait", ToBePresent, Reported{State: WaitingForDependencies},
			Reported{State: RemovingFailed}},
		{"the failed check", ToBePresent, Reported{State: CreatingFailed}, Reported{State: CheckPresentFailed}},
		{"of what nobody wants, present", "", Reported{State: Absent}, Reported{State: Present}},
		{"of what nobody wants, the failure", "", Reported{State: Present}, Reported{State: RemovingFailed}},
		{"the later message", ToBePresent, Reported{State: CreatingFailed, Message: "Z"},
			Reported{State: CreatingFailed, Message: "a"}},
	} {
		want := Config{Generation: now, Since: desiredSince}
		if c.target != "" {
			want.Parameters = []DesiredParameter{{ID: "p", Target: c.target}}
		}
		c.a.ID, c.b.ID, c.a.Generation, c.b.Generation = "p", "p", now, now
		alone := Derive(want, EdgePeerConfigurationState{now, []Reported{c.b}})
		for _, both := range [][]Reported{{c.a, c.b}, {c.b, c.a}, {c.a, c.b, c.a}} {
			if got := Derive(want, EdgePeerConfigurationState{now, both}); fmt.Sprint(got) != fmt.Sprint(alone) {
				t.Errorf("%s: %+v, want %+v", c.name, got, alone)
			}
		}
	}
}

func TestWhichOfTwoWishesCounts(t *testing.T) {
	ws := []DesiredParameter{{ID: "p", Target: ToBeAbsent}, {ID: "p", Target: ToBePresent}}
	for range 2 {
		if d := Derive(Config{Parameters: ws}, EdgePeerConfigurationState{}); len(d.Parameters) != 1 ||
			d.Parameters[0].State != Creating {
			t.Errorf("%+v", d)
		}
		slices.Reverse(ws)
	}
}

func TestWhatIsWaitedForIsNamed(t *testing.T) {
	// b needs a; both are to go, and so is c, which needs nothing.
	want := Config{Parameters: []DesiredParameter{{ID: "a", Target: ToBeAbsent},
		{ID: "b", Target: ToBeAbsent, Dependencies: []string{"a"}}, {ID: "c", Target: ToBeAbsent}}}
	said := []Reported{{ID: "a", State: WaitingForDependencies}, {ID: "b", State: RemovingFailed},
		{ID: "c", State: WaitingForDependencies, Message: "the node's words"}}
	d := Derive(want, EdgePeerConfigurationState{Parameters: said})
	if got := d.Parameters[0].Reason + "; " + d.Parameters[2].Reason; got != "waits for b; the node's words" {
		t.Error(got)
	}
	// Those that stay, and those that are gone, keep nothing from going; what is to be present waits for none that goes.
	want = Config{Parameters: []DesiredParameter{
		{ID: "a", Target: ToBeAbsent}, {ID: "b", Dependencies: []string{"a", "e"}},
		{ID: "c", Target: ToBeAbsent, Dependencies: []string{"a"}},
		{ID: "d", Target: ToBeAbsent, Dependencies: []string{"a", "e"}}, {ID: "e"},
	}}
	said = []Reported{{ID: "a", State: WaitingForDependencies}, {ID: "b", State: CreatingFailed}, {ID: "c", State: Absent},
		{ID: "d", State: RemovingFailed}, {ID: "e", State: WaitingForDependencies}}
	d = Derive(want, EdgePeerConfigurationState{Parameters: said})
	if got := d.Parameters[0].Reason + "; " + d.Parameters[4].Reason; got != "waits for d; " {
		t.Error(got)
	}
	// What is there is not waited for.
	want = Config{Parameters: []DesiredParameter{{ID: "a"}, {ID: "b", Dependencies: []string{"a"}}}}
	d = Derive(want, EdgePeerConfigurationState{Parameters: []Reported{{ID: "a", State: Present},
		{ID: "b", State: WaitingForDependencies}}})
	if got := d.Parameters[1].Reason; got != "" {
		t.Error(got)
	}
}

var (
	drawnIDs        = rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	drawnStates     = rapid.SampledFrom(append(slices.Clone(seedsWords), Creating, Removing, Unclaimed, Ignored, "Purple", ""))
	drawnParameters = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) DesiredParameter {
		return DesiredParameter{
			ID: drawnIDs.Draw(t, "id"), Target: rapid.SampledFrom([]Target{ToBePresent, ToBeAbsent}).Draw(t, "target"),
			Dependencies: rapid.SliceOfN(drawnIDs, 0, 2).Draw(t, "dependencies"),
		}
	}), 0, 6)
	drawnGenerations = rapid.SampledFrom([]config.Generation{now, now, old, {}})
	drawnReports     = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Reported {
		return Reported{
			ID: drawnIDs.Draw(t, "id"), State: drawnStates.Draw(t, "state"), Generation: drawnGenerations.Draw(t, "generation"),
			Since:   rapid.SampledFrom([]time.Time{{}, desiredSince, foundAt}).Draw(t, "since"),
			Message: rapid.SampledFrom([]string{"", "m", "n"}).Draw(t, "message"),
		}
	}), 0, 8)
)

// Whatever is desired and reported: each desired id has one answer, each other one that was
// reported is ignored once, order does not count, and ready is what it says.
func TestPropertyDerive(t *testing.T) {
	reviews := map[State]Review{
		Present: ReviewNo, Absent: ReviewNo, Creating: ReviewNo, Removing: ReviewNo, WaitingForDependencies: ReviewNo,
		CreatingFailed: ReviewYes, RemovingFailed: ReviewYes, CheckPresentFailed: ReviewYes, CheckAbsentFailed: ReviewYes,
	}
	to := map[Target][]State{ToBePresent: {Present, Creating, CreatingFailed, CheckPresentFailed},
		ToBeAbsent: {Absent, Removing, RemovingFailed, CheckAbsentFailed}}
	rapid.Check(t, func(t *rapid.T) {
		want := Config{Generation: drawnGenerations.Draw(t, "wanted"), Since: desiredSince,
			Parameters: drawnParameters.Draw(t, "parameters")}
		got := EdgePeerConfigurationState{drawnGenerations.Draw(t, "reported"), drawnReports.Draw(t, "reports")}
		d := Derive(want, got)
		again := Config{want.Generation, want.Since, rapid.Permutation(want.Parameters).Draw(t, "order")}
		if other := Derive(again, EdgePeerConfigurationState{got.Generation,
			rapid.Permutation(got.Parameters).Draw(t, "order")}); fmt.Sprint(other) != fmt.Sprint(d) {
			t.Fatalf("another order: %+v and %+v", d, other)
		}
		desired, all := map[string]bool{}, want.Generation == got.Generation
		for _, w := range want.Parameters {
			desired[w.ID] = true
		}
		for i, p := range d.Parameters {
			all = all && (p.State == Present || p.State == Absent) && !p.Stale
			if !desired[p.ID] || i > 0 && d.Parameters[i-1].ID >= p.ID {
				t.Fatalf("%s after %+v", p.ID, d.Parameters[:i])
			}
			if review, known := reviews[p.State]; !known || p.Review != review {
				t.Fatalf("%s: review %s", p.State, p.Review)
			}
			if p.State != WaitingForDependencies && !slices.Contains(to[p.Target], p.State) {
				t.Fatalf("%s, which is to be %s", p.State, p.Target)
			}
			if p.Stale != strings.HasPrefix(p.Reason, StaleReport) {
				t.Fatalf("%+v", p)
			}
		}
		ignored := map[string]bool{}
		for _, r := range got.Parameters {
			ignored[r.ID] = !desired[r.ID]
		}
		for _, i := range d.Ignored {
			if !ignored[i.ID] || i.Review == "" || i.Reason == "" && i.Reported != "" {
				t.Fatalf("ignored: %+v", i)
			}
			delete(ignored, i.ID)
		}
		if d.Ready != all || len(d.Parameters) != len(desired) || slices.Contains(values(ignored), true) {
			t.Fatalf("ready %v, not told %v: %+v", d.Ready, ignored, d)
		}
	})
}

func values(m map[string]bool) (out []bool) {
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// What was derived, reported back as a node would, derives to the same: nothing builds up.
func TestPropertyDeriveIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Config{Generation: now, Since: desiredSince, Parameters: drawnParameters.Draw(t, "parameters")}
		d := Derive(want, EdgePeerConfigurationState{now, drawnReports.Draw(t, "reports")})
		said := EdgePeerConfigurationState{Generation: now}
		for _, p := range d.Parameters {
			said.Parameters = append(said.Parameters,
				Reported{ID: p.ID, State: p.State, Message: p.Reason, Generation: now, Since: p.Since})
		}
		again := Derive(want, said)
		for i, p := range again.Parameters {
			q := d.Parameters[i]
			if q.Stale = false; fmt.Sprint(p) != fmt.Sprint(q) {
				t.Fatalf("%+v, then %+v", q, p)
			}
		}
		if once := Derive(want, said); fmt.Sprint(once) != fmt.Sprint(again) {
			t.Fatalf("%+v, then %+v", again, once)
		}
	})
}
