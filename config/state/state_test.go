package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edgespan/config"
	"edgespan/netinst"
)

var (
	wantedSince = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	foundAt     = wantedSince.Add(7 * time.Second)
	now         = config.Generation{Authority: "store", Counter: 7}
	old         = config.Generation{Authority: "store", Counter: 6}
	seedsWords  = []State{Present, Absent, CreatingFailed, RemovingFailed, CheckPresentFailed, CheckAbsentFailed, WaitingForDependencies}
)

// one is what follows for one parameter, in words: its state, review and whose time it has,
// or "drop" and review. A target or a report that is "" is not there.
func one(target Target, reported State, answers config.Generation) string {
	want := Config{Generation: now, Since: wantedSince}
	if target != "" {
		want.Parameters = []Wanted{{ID: "p", Target: target}}
	}
	var reports []Reported
	if reported != "" {
		reports = []Reported{{ID: "p", State: reported, Generation: answers, Since: foundAt}}
	}
	return tell(Derive(want, reports))
}

func tell(d Derived) string {
	var out []string
	for _, p := range d.Parameters {
		review, since := No, "odd"
		if p.Review {
			review = Yes
		}
		switch p.Since {
		case wantedSince:
			since = "config"
		case foundAt:
			since = "report"
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", p.State, review, since, p.Detail)))
	}
	for _, p := range d.Dropped {
		out = append(out, fmt.Sprintf("drop %s", p.Review))
	}
	return strings.Join(out, "; ")
}

// The 23 cells: three targets by seven reports or none, but for nothing on both sides. The
// number is the row of the seed's tables, from above; 0 where it has none.
func TestEveryCellOfTheTables(t *testing.T) {
	const present, absent, none = ToBePresent, ToBeAbsent, Target("")
	cells := []struct {
		row      int
		target   Target
		reported State
		want     string
	}{
		{1, present, Present, "Present no report"},
		{2, absent, Absent, "Absent no report"},
		{3, present, Absent, "Creating no report"},
		{4, absent, Present, "Removing no report"},
		{5, present, CreatingFailed, "CreatingFailed yes report"},
		{6, absent, RemovingFailed, "RemovingFailed yes report"},
		{7, present, CheckPresentFailed, "CheckPresentFailed yes report"},
		{8, absent, CheckAbsentFailed, "CheckAbsentFailed yes report"},
		{9, present, WaitingForDependencies, "WaitingForDependencies no report"},
		{10, absent, WaitingForDependencies, "WaitingForDependencies no report"},
		{11, present, "", "Creating no config"},
		{12, absent, "", "Removing no config"},
		{13, none, Absent, "drop no"},
		{14, none, Present, "drop maybe"},
		{15, none, RemovingFailed, "drop yes"},
		{16, none, CreatingFailed, "drop yes"},
		{17, none, CheckPresentFailed, "drop yes"},
		{17, none, CheckAbsentFailed, "drop yes"},
		{0, present, RemovingFailed, "Creating no config before, in generation store:7: RemovingFailed"},
		{0, present, CheckAbsentFailed, "Creating no config before, in generation store:7: CheckAbsentFailed"},
		{0, absent, CreatingFailed, "Removing no config before, in generation store:7: CreatingFailed"},
		{0, absent, CheckPresentFailed, "Removing no config before, in generation store:7: CheckPresentFailed"},
		{0, none, WaitingForDependencies, "drop no"},
	}
	seen := map[string]bool{}
	for _, c := range cells {
		seen[fmt.Sprint(c.target, c.reported)] = true
		if got := one(c.target, c.reported, now); got != c.want {
			t.Errorf("row %d, target %q, reported %q: %s, want %s", c.row, c.target, c.reported, got, c.want)
		}
	}
	if want := 3*(len(seedsWords)+1) - 1; len(seen) != want {
		t.Errorf("%d cells, want %d", len(seen), want)
	}
}

// Each sub-test is a row of docs/seeds.md.
func TestSeed_PeerConfigurationState(t *testing.T) {
	is := func(t *testing.T, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	t.Run("OSL-1", func(t *testing.T) {
		is(t, one(ToBePresent, Present, now), "Present no report")
		is(t, one(ToBeAbsent, Absent, now), "Absent no report")
	})
	t.Run("OSL-2", func(t *testing.T) {
		is(t, one(ToBePresent, Absent, now), "Creating no report")
		is(t, one(ToBeAbsent, Present, now), "Removing no report")
	})
	t.Run("OSL-3", func(t *testing.T) {
		is(t, one(ToBePresent, CreatingFailed, now), "CreatingFailed yes report")
		is(t, one(ToBeAbsent, RemovingFailed, now), "RemovingFailed yes report")
	})
	t.Run("OSL-4", func(t *testing.T) {
		is(t, one(ToBePresent, CheckPresentFailed, now), "CheckPresentFailed yes report")
		is(t, one(ToBeAbsent, CheckAbsentFailed, now), "CheckAbsentFailed yes report")
	})
	t.Run("OSL-5", func(t *testing.T) {
		is(t, one(ToBePresent, WaitingForDependencies, now), "WaitingForDependencies no report")
		is(t, one(ToBeAbsent, WaitingForDependencies, now), "WaitingForDependencies no report")
	})
	t.Run("OSL-6", func(t *testing.T) {
		is(t, one(ToBePresent, "", now), "Creating no config")
		is(t, one(ToBeAbsent, "", now), "Removing no config")
	})
	t.Run("OSL-7", func(t *testing.T) {
		d := Derive(Config{Generation: now}, []Reported{{ID: "p", Kind: "k", State: CreatingFailed, Detail: "why", Generation: now}})
		is(t, fmt.Sprint(len(d.Parameters), d.Ready, d.Dropped), "0 true [{{p k CreatingFailed why store:7 0001-01-01 00:00:00 +0000 UTC} yes}]")
	})
	t.Run("OSL-8", func(t *testing.T) {
		for state, review := range map[State]Review{Absent: No, Present: Maybe, CreatingFailed: Yes, RemovingFailed: Yes, CheckPresentFailed: Yes, CheckAbsentFailed: Yes} {
			is(t, one("", state, now), "drop "+string(review))
		}
	})
	t.Run("OSL-9", func(t *testing.T) {
		classes := map[Class][]State{
			Final: {Present, Absent}, Transitional: {Creating, Removing, WaitingForDependencies},
			Failed: {CreatingFailed, RemovingFailed, CheckPresentFailed, CheckAbsentFailed, "Purple"},
		}
		for class, states := range classes {
			for _, s := range states {
				is(t, string(s.Class()), string(class))
			}
		}
	})
	t.Run("OSL-10", func(t *testing.T) {
		want := Config{Parameters: []Wanted{{ID: "a"}, {ID: "b", Target: ToBeAbsent}}}
		is(t, fmt.Sprint(Derive(want, []Reported{{ID: "a", State: Present}, {ID: "b", State: Absent}}).Ready), "true")
		is(t, fmt.Sprint(Derive(want, []Reported{{ID: "a", State: Present}, {ID: "b", State: Present}}).Ready), "false")
		is(t, fmt.Sprint(Derive(want, []Reported{{ID: "a", State: Present}}).Ready), "false")
		is(t, fmt.Sprint(Derive(Config{}, nil).Ready), "true") // the seed's rule: of none, all are final
	})
	t.Run("OSL-11", func(t *testing.T) {
		is(t, one(ToBePresent, CreatingFailed, old), "Creating no config before, in generation store:6: CreatingFailed")
		is(t, one(ToBePresent, CreatingFailed, now), "CreatingFailed yes report")
	})
	t.Run("OSL-12", func(t *testing.T) {
		r := Summarize(Peer{true, now}, Config{Generation: now, Parameters: []Wanted{{ID: "p"}}}, []Reported{{ID: "p", State: CreatingFailed, Detail: "no port", Generation: now}})
		is(t, fmt.Sprint(r.Ready, r.Review, " ", r.Why), "false 1 1 of 1 parameters are not in their final state: p is CreatingFailed: no port")
	})
	t.Run("OSL-13", func(t *testing.T) {
		want := Config{Generation: now, Parameters: []Wanted{{ID: "port", Dependencies: []string{"bridge", "bridge", "wire", "link"}}, {ID: "bridge"}, {ID: "link"}}}
		d := Derive(want, []Reported{{ID: "port", State: WaitingForDependencies, Generation: now}, {ID: "link", State: Present, Generation: now}})
		is(t, d.Parameters[2].Detail, "waits for bridge, wire, which is not declared")
	})
}

func TestAReportOfAnotherGenerationIsStale(t *testing.T) {
	for _, s := range append(slices.Clone(seedsWords), Creating, Removing, "Purple") {
		for target, way := range map[Target]string{ToBePresent: "Creating", ToBeAbsent: "Removing"} {
			want := fmt.Sprintf("%s no config before, in generation store:6: %s", way, s)
			if got := one(target, s, old); got != want {
				t.Errorf("target %s, reported %s: %s, want %s", target, s, got, want)
			}
		}
		if got := one("", s, old); got != "drop no" { // the node has not heard yet that it is to go
			t.Errorf("obsolete, reported %s: %s", s, got)
		}
	}
	if got := one(ToBePresent, Present, config.Generation{Authority: "journal", Counter: now.Counter}); !strings.HasPrefix(got, "Creating no config") {
		t.Errorf("another authority's number: %s", got)
	}
	d := Derive(Config{Generation: now, Parameters: []Wanted{{ID: "p"}}}, []Reported{{ID: "p", State: CreatingFailed, Detail: "no port"}})
	if got, want := d.Parameters[0].Detail, "before: CreatingFailed: no port"; got != want {
		t.Errorf("a report of no generation: %s, want %s", got, want)
	}
}

// Words that nodes have beside the seed's.
func TestWordsBesideTheSeeds(t *testing.T) {
	for _, c := range []struct {
		target   Target
		reported State
		want     string
	}{
		{ToBePresent, Creating, "Creating no report"},
		{ToBePresent, Removing, "Creating no report"},
		{ToBeAbsent, Creating, "Removing no report"},
		{ToBeAbsent, Removing, "Removing no report"},
		{"", Creating, "drop no"},
		{"", Removing, "drop no"},
		{ToBePresent, Unclaimed, "Creating no report"},
		{"", Unclaimed, "drop maybe"},
		{ToBePresent, "Purple", `CheckPresentFailed yes report the node says "Purple", which is no known state`},
		{ToBeAbsent, "Purple", `CheckAbsentFailed yes report the node says "Purple", which is no known state`},
		{"", "Purple", "drop yes"},
		{"purple", Present, "Present no report"}, // any target but absent
	} {
		if got := one(c.target, c.reported, now); got != c.want {
			t.Errorf("target %q, reported %q: %s, want %s", c.target, c.reported, got, c.want)
		}
	}
	// What our own nodes say is known.
	for _, s := range []netinst.NIState{
		netinst.Creating, netinst.Present, netinst.Removing, netinst.CreatingFailed, netinst.RemovingFailed,
		netinst.CheckPresentFailed, netinst.WaitingForDependencies, netinst.Unclaimed,
	} {
		if got := one(ToBePresent, State(s), now); strings.Contains(got, "no known state") {
			t.Errorf("%s: %s", s, got)
		}
	}
}

func TestTheLastOfTwoCounts(t *testing.T) {
	want := Config{Parameters: []Wanted{{ID: "p", Target: ToBeAbsent}, {ID: "p", Target: ToBePresent}}}
	d := Derive(want, []Reported{
		{ID: "p", State: CreatingFailed}, {ID: "q", State: CreatingFailed}, {ID: "p", State: Present}, {ID: "q", State: Absent},
	})
	if len(d.Parameters) != 1 || d.Parameters[0].State != Present || len(d.Dropped) != 1 || d.Dropped[0].Review != No {
		t.Errorf("%+v", d)
	}
}

// Whatever is wanted and reported: each wish has one answer, each report of nothing wanted is
// dropped once, order does not count, and ready is what it says.
func TestPropertyDerive(t *testing.T) {
	ids := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	states := rapid.SampledFrom(append(slices.Clone(seedsWords), Creating, Removing, Unclaimed, "Purple", ""))
	generations := rapid.SampledFrom([]config.Generation{now, now, old, {}})
	wishes := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Wanted {
		return Wanted{
			ID: ids.Draw(t, "id"), Target: rapid.SampledFrom([]Target{ToBePresent, ToBeAbsent}).Draw(t, "target"),
			Dependencies: rapid.SliceOfN(ids, 0, 2).Draw(t, "dependencies"),
		}
	}), 0, 5, func(w Wanted) string { return w.ID })
	reports := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Reported {
		return Reported{ID: ids.Draw(t, "id"), State: states.Draw(t, "state"), Generation: generations.Draw(t, "generation"), Since: foundAt}
	}), 0, 5, func(r Reported) string { return r.ID })
	final := map[string]bool{"Present": true, "Absent": true}
	rapid.Check(t, func(t *rapid.T) {
		want := Config{Generation: generations.Draw(t, "wanted"), Since: wantedSince, Parameters: wishes.Draw(t, "wishes")}
		said := reports.Draw(t, "reports")
		d := Derive(want, said)
		again := Config{want.Generation, want.Since, rapid.Permutation(want.Parameters).Draw(t, "order")}
		if other := Derive(again, rapid.Permutation(said).Draw(t, "order")); fmt.Sprint(other) != fmt.Sprint(d) {
			t.Fatalf("another order: %+v and %+v", d, other)
		}
		if len(d.Parameters) != len(want.Parameters) {
			t.Fatalf("%d answers to %d wishes", len(d.Parameters), len(want.Parameters))
		}
		all, dropped := true, len(said)
		for i, p := range d.Parameters {
			all = all && final[string(p.State)]
			if slices.ContainsFunc(said, func(r Reported) bool { return r.ID == p.ID }) {
				dropped--
			}
			if i > 0 && d.Parameters[i-1].ID >= p.ID {
				t.Fatalf("%s after %s", p.ID, d.Parameters[i-1].ID)
			}
			if known := len(p.State) > 0 && p.State.Class() == Failed; known != p.Review {
				t.Fatalf("%s: review %v", p.State, p.Review)
			}
			to := map[Target][]State{ToBePresent: {Present, Creating, CreatingFailed, CheckPresentFailed}, ToBeAbsent: {Absent, Removing, RemovingFailed, CheckAbsentFailed}}
			if p.State != WaitingForDependencies && !slices.Contains(to[p.Target], p.State) {
				t.Fatalf("%s, which is to be %s", p.State, p.Target)
			}
		}
		if d.Ready != all || len(d.Dropped) != dropped {
			t.Fatalf("ready %v, %d dropped of %d: %+v", d.Ready, len(d.Dropped), dropped, d)
		}
	})
}

func TestSummarize(t *testing.T) {
	want := Config{Generation: now, Since: wantedSince, Parameters: []Wanted{{ID: "a"}, {ID: "b"}, {ID: "c"}}}
	report := func(states ...State) (out []Reported) {
		for i, s := range states {
			out = append(out, Reported{ID: string(rune('a' + i)), State: s, Generation: now})
		}
		return out
	}
	good := report(Present, Present, Present)
	for _, c := range []struct {
		name    string
		peer    Peer
		want    Config
		reports []Reported
		why     string
		counts  string // final, transitional, failed, review
	}{
		{"as wanted", Peer{true, now}, want, good, "", "3 0 0 0"},
		{"offline", Peer{false, now}, want, good, "it is offline", "3 0 0 0"},
		{"another generation", Peer{true, old}, want, good, "it runs store:6, wanted is store:7", "3 0 0 0"},
		{"no generation", Peer{Online: true}, want, good, "it runs none, wanted is store:7", "3 0 0 0"},
		{"nothing wanted", Peer{Online: true}, Config{}, nil, "nothing is wanted of it yet", "0 0 0 0"},
		{"an empty config", Peer{true, now}, Config{Generation: now}, nil, "", "0 0 0 0"},
		{"a failure is told first", Peer{true, now}, want, report(Absent, CreatingFailed, WaitingForDependencies), "3 of 3 parameters are not in their final state: b is CreatingFailed", "0 2 1 1"},
		{"the first that waits", Peer{true, now}, want, report(Present, Absent), "2 of 3 parameters are not in their final state: b is Creating", "1 2 0 0"},
		{"obsolete ones are looked at", Peer{true, now}, want, report(Present, Present, Present, RemovingFailed, Present), "", "3 0 0 1"},
	} {
		r := Summarize(c.peer, c.want, c.reports)
		counts := fmt.Sprint(r.Final, " ", r.Transitional, " ", r.Failed, " ", r.Review)
		if r.Why != c.why || r.Ready != (c.why == "") || counts != c.counts {
			t.Errorf("%s: ready %v, %s, %q; want %s, %q", c.name, r.Ready, counts, r.Why, c.counts, c.why)
		}
	}
}

const declaring = `{
	"sysParams": {"managedConfig": true}, "acme": {"x": 1},
	"networkInstances": {
		"10000000-0000-4000-8000-00000000000A": {"type": "local", "port": "", "ipv4": {"subnet": "10.1.0.0/24"}, "activate": false},
		"10000000-0000-4000-8000-00000000000b": {"type": "local", "port": "", "ipv4": {"subnet": "10.2.0.0/24"}},
		"10000000-0000-4000-8000-00000000000c": {"$absent": true}
	},
	"appNetworks": {
		"a0000000-0000-4000-8000-000000000001": {"adapters": {
			"0": {"networkInstance": "10000000-0000-4000-8000-00000000000a", "attach": {"kind": "veth", "netns": "x"}},
			"12": {"networkInstance": "10000000-0000-4000-8000-00000000000b", "attach": {"kind": "veth", "netns": "x", "ifName": "e1"}}}},
		"a0000000-0000-4000-8000-000000000002": {"activate": false, "adapters": {
			"0": {"networkInstance": "10000000-0000-4000-8000-00000000000c", "attach": {"kind": "veth", "netns": "y"}}}}
	}
}`

func TestDeclared(t *testing.T) {
	effective, faults := config.ParseObject([]byte(declaring))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	ws, err := Declared(effective)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range ws {
		got = append(got, fmt.Sprint(w.ID, " ", w.Kind, " ", w.Target, " ", w.Dependencies))
	}
	want := []string{
		"adapter/a0000000-0000-4000-8000-000000000001/0 app-adapter present [ni/10000000-0000-4000-8000-00000000000a]",
		"adapter/a0000000-0000-4000-8000-000000000001/12 app-adapter present [ni/10000000-0000-4000-8000-00000000000b]",
		"adapter/a0000000-0000-4000-8000-000000000002/0 app-adapter absent [ni/10000000-0000-4000-8000-00000000000c]",
		"ni/10000000-0000-4000-8000-00000000000a network-instance present []",
		"ni/10000000-0000-4000-8000-00000000000b network-instance present []",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if ws, err := Declared(config.Object{"sysParams": config.Object{}}); err != nil || ws != nil {
		t.Errorf("of no network: %v %v", ws, err)
	}
	if _, err := Declared(config.Object{"networkInstances": config.Object{"n": config.Object{}}}); err == nil || !strings.Contains(err.Error(), "networkInstances.n") {
		t.Errorf("a faulty config: %v", err)
	}
}

// TestWhatAConfigNoLongerDeclaresIsToBeAbsent follows a network whose config was deleted.
func TestWhatAConfigNoLongerDeclaresIsToBeAbsent(t *testing.T) {
	old, now := config.Generation{Authority: "s", Counter: 1}, config.Generation{Authority: "s", Counter: 2}
	declared := []Wanted{{ID: "ni/a", Kind: KindNetwork, Target: ToBePresent}}
	a := Reported{ID: "ni/a", Kind: KindNetwork, State: Present, Generation: now}
	for _, c := range []struct {
		name  string
		b     []Reported
		want  State // "" for none
		ready bool
	}{
		{"not heard of it yet", []Reported{{ID: "ni/b", Kind: KindNetwork, State: Present, Generation: old}}, Removing, false},
		{"still there", []Reported{{ID: "ni/b", Kind: KindNetwork, State: Present, Generation: now}}, Removing, false},
		{"at it", []Reported{{ID: "ni/b", Kind: KindNetwork, State: Removing, Generation: now}}, Removing, false},
		{"failed", []Reported{{ID: "ni/b", Kind: KindNetwork, State: RemovingFailed, Generation: now}}, RemovingFailed, false},
		{"of no config", []Reported{{ID: "ni/b", Kind: KindNetwork, State: Unclaimed, Generation: now}}, Removing, false},
		{"gone, as it says", []Reported{{ID: "ni/b", Kind: KindNetwork, State: Absent, Generation: now}}, Absent, true},
		{"gone", nil, "", true},
		{"an adapter", []Reported{{ID: "adapter/x/0", Kind: KindAdapter, State: Present, Generation: now}}, Removing, false},
		{"nothing that a config declares", []Reported{{ID: "x", Kind: "x", State: Present, Generation: now}}, "", true},
	} {
		reports := append([]Reported{a}, c.b...)
		d := Derive(Config{Generation: now, Parameters: append(slices.Clone(declared), Removed(declared, reports)...)}, reports)
		var got State
		for _, p := range d.Parameters {
			if p.ID != "ni/a" {
				if got = p.State; p.Target != ToBeAbsent {
					t.Errorf("%s: the target is %s", c.name, p.Target)
				}
			}
		}
		if got != c.want || d.Ready != c.ready {
			t.Errorf("%s: %q, ready %v", c.name, got, d.Ready)
		}
	}
}
