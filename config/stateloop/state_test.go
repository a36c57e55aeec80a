package stateloop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/netinst"
)

var (
	desiredSince = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	foundAt      = desiredSince.Add(7 * time.Second)
	now          = config.Generation{Authority: "store", Counter: 7}
	old          = config.Generation{Authority: "store", Counter: 6}
	seedsWords   = []State{Present, Absent, CreatingFailed, RemovingFailed, CheckPresentFailed, CheckAbsentFailed,
		WaitingForDependencies}
)

// one is what follows for one parameter, in words: its state, review, whose time it has and the
// reason. A target or a report that is "" is not there.
func one(target Target, reported State, answers config.Generation, message string) string {
	want := Config{Generation: now, Since: desiredSince}
	if target != "" {
		want.Parameters = []DesiredParameter{{ID: "p", Target: target}}
	}
	got := EdgePeerConfigurationState{Generation: answers}
	if reported != "" {
		got.Parameters = []Reported{{ID: "p", State: reported, Generation: answers, Since: foundAt, Message: message}}
	}
	return tell(Derive(want, got))
}

func tell(d PeerConfigurationState) string {
	var out []string
	for _, p := range d.Parameters {
		since := "odd"
		switch p.Since {
		case desiredSince:
			since = "config"
		case foundAt:
			since = "report"
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", p.State, p.Review, since, p.Reason)))
	}
	for _, p := range d.Ignored {
		out = append(out, strings.TrimSpace(fmt.Sprintf("Ignored %s %s", p.Review, p.Reason)))
	}
	return strings.Join(out, "; ")
}

// seedsRows are the seed's three tables, row by row from above, as the seed writes them.
var seedsRows = []struct {
	target   Target
	reported []State // more than one where the row names more; nil for "not appear"
	state    State
	review   Review
}{
	{ToBePresent, []State{Present}, Present, ReviewNo},
	{ToBeAbsent, []State{Absent}, Absent, ReviewNo},
	{ToBePresent, []State{Absent}, Creating, ReviewNo},
	{ToBeAbsent, []State{Present}, Removing, ReviewNo},
	{ToBePresent, []State{CreatingFailed}, CreatingFailed, ReviewYes},
	{ToBeAbsent, []State{RemovingFailed}, RemovingFailed, ReviewYes},
	{ToBePresent, []State{CheckPresentFailed}, CheckPresentFailed, ReviewYes},
	{ToBeAbsent, []State{CheckAbsentFailed}, CheckAbsentFailed, ReviewYes},
	{ToBePresent, []State{WaitingForDependencies}, WaitingForDependencies, ReviewNo},
	{ToBeAbsent, []State{WaitingForDependencies}, WaitingForDependencies, ReviewNo},
	{ToBePresent, nil, Creating, ReviewNo},
	{ToBeAbsent, nil, Removing, ReviewNo},
	{"", []State{Absent}, Ignored, ReviewNo},
	{"", []State{Present}, Ignored, ReviewMaybe},
	{"", []State{RemovingFailed}, Ignored, ReviewYes},
	{"", []State{CreatingFailed}, Ignored, ReviewYes},
	{"", []State{CheckPresentFailed, CheckAbsentFailed}, Ignored, ReviewYes},
}

func TestSeed_TheRowsOfTheTables(t *testing.T) {
	for i, row := range seedsRows {
		t.Run(fmt.Sprintf("row-%d", i+1), func(t *testing.T) {
			words := row.reported
			if words == nil {
				words = []State{""}
			}
			for _, w := range words {
				want, got := string(row.state)+" "+string(row.review), one(row.target, w, now, "")
				if !strings.HasPrefix(got+" ", want+" ") {
					t.Errorf("target %q, reported %q: %s, want %s", row.target, w, got, want)
				}
			}
		})
	}
}

// The four cells whose error is of the other target, and the one of what nobody wants.
func TestTheCellsThatTheSeedLeavesOpen(t *testing.T) {
	for _, c := range []struct {
		target   Target
		reported State
		want     string
	}{
		{ToBePresent, RemovingFailed, "Creating no config stale report: RemovingFailed: it is busy"},
		{ToBePresent, CheckAbsentFailed, "Creating no config stale report: CheckAbsentFailed: it is busy"},
		{ToBeAbsent, CreatingFailed, "Removing no config stale report: CreatingFailed: it is busy"},
		{ToBeAbsent, CheckPresentFailed, "Removing no config stale report: CheckPresentFailed: it is busy"},
		{"", WaitingForDependencies, "Ignored no it is busy"},
	} {
		if got := one(c.target, c.reported, now, "it is busy"); got != c.want {
			t.Errorf("target %q, reported %q: %s, want %s", c.target, c.reported, got, c.want)
		}
	}
}

// TestEveryCellOfTheTables derives each of the 46 cells (two targets or none, seven reports or
// none, of the wanted generation or another one, but for nothing on both sides) and compares
// with state-table.json, which is compared with the seed's rows.
func TestEveryCellOfTheTables(t *testing.T) {
	if table.Version != TableVersion {
		t.Errorf("version %d, want %d", table.Version, TableVersion)
	}
	if want := 2 * (3*(len(seedsWords)+1) - 1); len(table.Rows) != want || len(cells) != want {
		t.Errorf("%d rows, %d cells, want %d", len(table.Rows), len(cells), want)
	}
	for _, r := range table.Rows {
		t.Run(fmt.Sprintf("%s-%s-%s", r.Desired, r.Reported, r.Generation), func(t *testing.T) { holdsRow(t, r) })
	}
}

func holdsRow(t *testing.T, r Row) {
	target, reported, answers := Target(emptyIfNone(r.Desired)), State(emptyIfNone(r.Reported)), now
	if reported != "" && !slices.Contains(seedsWords, reported) || r.Generation != same && r.Generation != other {
		t.Fatalf("%+v", r)
	}
	if r.Generation == other {
		answers = old
	}
	got := one(target, reported, answers, "the message")
	if want := string(r.State) + " " + string(r.Review); !strings.HasPrefix(got, want+" ") {
		t.Errorf("%s, want %s", got, want)
	}
	if ok := strings.Contains(got, " "+StaleReport); ok != r.Stale {
		t.Errorf("%s: stale %v, want %v", got, ok, r.Stale)
	}
	if reported != "" && !strings.HasSuffix(got, "the message") {
		t.Errorf("%s: the message is gone", got)
	}
	row := slices.IndexFunc(seedsRows, func(s struct {
		target   Target
		reported []State
		state    State
		review   Review
	},
	) bool {
		return s.target == target && (slices.Contains(s.reported, reported) || s.reported == nil && reported == "")
	})
	note := fmt.Sprintf("seed row %d", row+1)
	if row < 0 || r.Generation == other {
		note = "decided: "
	}
	if !strings.HasPrefix(r.Note, note) {
		t.Errorf("the note is %q, want %q", r.Note, note)
	}
	if r.Generation == other { // the cells hold
		if c, s := cells[cellKey{target, reported, true}], cells[cellKey{target, reported, false}]; c.state != s.state ||
			c.review != s.review || !c.stale {
			t.Errorf("%+v, and of the wanted generation %+v", c, s)
		}
	}
}

// Each sub-test is a row of docs/seeds.md.
func TestSeed_PeerConfigurationState(t *testing.T) {
	check := func(t *testing.T, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	t.Run("OSL-1", func(t *testing.T) {
		check(t, one(ToBePresent, Present, now, ""), "Present no report")
		check(t, one(ToBeAbsent, Absent, now, ""), "Absent no report")
	})
	t.Run("OSL-2", func(t *testing.T) {
		check(t, one(ToBePresent, Absent, now, ""), "Creating no report")
		check(t, one(ToBeAbsent, Present, now, ""), "Removing no report")
	})
	t.Run("OSL-3", func(t *testing.T) {
		check(t, one(ToBePresent, CreatingFailed, now, "why"), "CreatingFailed yes report why")
		check(t, one(ToBeAbsent, RemovingFailed, now, "why"), "RemovingFailed yes report why")
	})
	t.Run("OSL-4", func(t *testing.T) {
		check(t, one(ToBePresent, CheckPresentFailed, now, ""), "CheckPresentFailed yes report")
		check(t, one(ToBeAbsent, CheckAbsentFailed, now, ""), "CheckAbsentFailed yes report")
	})
	t.Run("OSL-5", func(t *testing.T) {
		check(t, one(ToBePresent, WaitingForDependencies, now, ""), "WaitingForDependencies no report")
		check(t, one(ToBeAbsent, WaitingForDependencies, now, ""), "WaitingForDependencies no report")
	})
	t.Run("OSL-6", func(t *testing.T) {
		check(t, one(ToBePresent, "", now, ""), "Creating no config")
		check(t, one(ToBeAbsent, "", now, ""), "Removing no config")
	})
	t.Run("OSL-7", func(t *testing.T) {
		d := Derive(Config{Generation: now}, EdgePeerConfigurationState{now,
			[]Reported{{ID: "p", Kind: "k", State: CreatingFailed, Message: "why", Generation: now}}})
		check(t, fmt.Sprint(len(d.Parameters), d.Ready, d.Ignored),
			"0 true [{p k CreatingFailed yes why 0001-01-01 00:00:00 +0000 UTC}]")
	})
	t.Run("OSL-8", func(t *testing.T) {
		for state, review := range map[State]Review{Absent: ReviewNo, Present: ReviewMaybe, CreatingFailed: ReviewYes, RemovingFailed: ReviewYes,
			CheckPresentFailed: ReviewYes, CheckAbsentFailed: ReviewYes} {
			check(t, one("", state, now, ""), "Ignored "+string(review)+" "+string(state))
		}
	})
	t.Run("OSL-9", func(t *testing.T) {
		classes := map[Class][]State{
			Final: {Present, Absent}, Transitional: {Creating, Removing, WaitingForDependencies},
			Failed: {CreatingFailed, RemovingFailed, CheckPresentFailed, CheckAbsentFailed, "Purple"},
		}
		for class, states := range classes {
			for _, s := range states {
				check(t, string(s.Class()), string(class))
			}
		}
	})
	t.Run("OSL-10", func(t *testing.T) {
		want := Config{Parameters: []DesiredParameter{{ID: "a"}, {ID: "b", Target: ToBeAbsent}}}
		said := func(rs ...Reported) EdgePeerConfigurationState { return EdgePeerConfigurationState{Parameters: rs} }
		check(t, fmt.Sprint(Derive(want, said(Reported{ID: "a", State: Present}, Reported{ID: "b", State: Absent})).Ready),
			"true")
		check(t, fmt.Sprint(Derive(want, said(Reported{ID: "a", State: Present}, Reported{ID: "b", State: Present})).Ready),
			"false")
		check(t, fmt.Sprint(Derive(want, said(Reported{ID: "a", State: Present})).Ready), "false")
		check(t, fmt.Sprint(Derive(Config{}, said()).Ready), "true") // the seed's rule: of none, all are final
	})
	t.Run("OSL-11", func(t *testing.T) {
		check(t, one(ToBePresent, CreatingFailed, old, "no port"),
			"CreatingFailed yes report stale report: generation store:6, desired is store:7: no port")
		check(t, one(ToBePresent, CreatingFailed, now, "no port"), "CreatingFailed yes report no port")
	})
	t.Run("OSL-12", func(t *testing.T) {
		r := Summarize(Peer{Online: true}, Config{Generation: now, Parameters: []DesiredParameter{{ID: "p"}}},
			EdgePeerConfigurationState{now, []Reported{{ID: "p", State: CreatingFailed, Message: "no port", Generation: now}}})
		check(t, fmt.Sprintf("%v %s %d %s", r.Ready, r.Health, r.Reviews, r.Why),
			"false red 1 p is CreatingFailed: no port; 1 of 1 parameters are not in their final state")
	})
	t.Run("OSL-13", func(t *testing.T) {
		want := Config{Generation: now,
			Parameters: []DesiredParameter{{ID: "port", Dependencies: []string{"bridge", "bridge", "wire", "link"}},
				{ID: "bridge"},
				{ID: "link"}}}
		d := Derive(want, EdgePeerConfigurationState{now,
			[]Reported{{ID: "port", State: WaitingForDependencies, Generation: now},
				{ID: "link", State: Present, Generation: now}}})
		check(t, d.Parameters[2].Reason, "waits for bridge, wire, which is not declared")
	})
}

func TestAReportOfAnotherGenerationIsStale(t *testing.T) {
	for _, c := range []struct {
		target   Target
		reported State
		message  string
		want     string
	}{
		{ToBePresent, Present, "", "Present no report stale report: generation store:6, desired is store:7"},
		{ToBePresent, Absent, "", "Creating no config stale report: generation store:6, desired is store:7: Absent"},
		{ToBePresent, RemovingFailed, "busy",
			"Creating no config stale report: generation store:6, desired is store:7: RemovingFailed: busy"},
		{ToBePresent, "", "", "Creating no config stale report: generation store:6, desired is store:7"},
		{ToBePresent, "Purple", "",
			`CheckPresentFailed yes report stale report: generation store:6, desired is store:7: the node says "Purple", ` +
				`which is not a known state`},
		{"", Present, "", "Ignored maybe stale report: generation store:6, desired is store:7: Present"},
	} {
		if got := one(c.target, c.reported, old, c.message); got != c.want {
			t.Errorf("target %q, reported %q: %s, want %s", c.target, c.reported, got, c.want)
		}
	}
	if got := one(ToBePresent, Present, config.Generation{Authority: "journal", Counter: now.Counter},
		""); got != "Present no report stale report: generation journal:7, desired is store:7" {
		t.Errorf("another authority's number: %s", got)
	}
	want := Config{Generation: now, Parameters: []DesiredParameter{{ID: "p"}}}
	said := []Reported{{ID: "p", State: Present}}
	if d := Derive(want, EdgePeerConfigurationState{now, said}); d.Ready ||
		d.Parameters[0].Reason != "stale report: generation none, desired is store:7" {
		t.Errorf("one parameter that answers nothing: %+v", d)
	}
	said[0].Generation = now
	if d := Derive(want, EdgePeerConfigurationState{now, said}); !d.Ready {
		t.Errorf("%+v", d)
	}
	if d := Derive(want, EdgePeerConfigurationState{old, said}); d.Ready {
		t.Errorf("the whole is of another generation: %+v", d)
	}
	if d := Derive(Config{Generation: now}, EdgePeerConfigurationState{Generation: old}); d.Ready {
		t.Errorf("no parameters, of another generation: %+v", d)
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
		{"", Creating, "Ignored no Creating"},
		{"", Removing, "Ignored no Removing"},
		{ToBePresent, Unclaimed, "Creating no report"},
		{"", Unclaimed, "Ignored maybe Unclaimed"},
		{ToBePresent, "Purple", `CheckPresentFailed yes report the node says "Purple", which is not a known state`},
		{ToBeAbsent, "Purple", `CheckAbsentFailed yes report the node says "Purple", which is not a known state`},
		{"", "Purple", `Ignored yes the node says "Purple", which is not a known state`},
		{"purple", Present, "Present no report"}, // any target but absent
	} {
		if got := one(c.target, c.reported, now, ""); got != c.want {
			t.Errorf("target %q, reported %q: %s, want %s", c.target, c.reported, got, c.want)
		}
	}
	// What our own nodes say is known.
	for _, s := range []netinst.NIState{
		netinst.Creating, netinst.Present, netinst.Removing, netinst.CreatingFailed, netinst.RemovingFailed,
		netinst.CheckPresentFailed, netinst.WaitingForDependencies, netinst.Unclaimed,
	} {
		if got := one(ToBePresent, State(s), now, ""); strings.Contains(got, "no known state") {
			t.Errorf("%s: %s", s, got)
		}
	}
}
