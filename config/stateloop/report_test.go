package stateloop

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func peer(online bool) Peer { return Peer{Name: "p1", Online: online, LastReport: foundAt} }

// saidOf are reports about a, b, c … of the wanted generation.
func saidOf(states ...State) EdgePeerConfigurationState {
	out := EdgePeerConfigurationState{Generation: now}
	for i, s := range states {
		out.Parameters = append(out.Parameters, Reported{ID: string(rune('a' + i)), State: s, Generation: now})
	}
	return out
}

func TestSummarize(t *testing.T) {
	want := Config{Generation: now, Since: desiredSince, Parameters: []DesiredParameter{{ID: "a"}, {ID: "b"}, {ID: "c"}}}
	good := saidOf(Present, Present, Present)
	answering := func(g string, s EdgePeerConfigurationState) EdgePeerConfigurationState {
		if s.Generation = old; g == "none" {
			s.Generation.Authority, s.Generation.Counter = "", 0
		}
		return s
	}
	bad := peer(true)
	bad.Health = []HealthItem{{Name: "port/eth0", Good: true}, {Name: "port/eth1", Detail: "no link"}}
	silent := peer(true)
	silent.LastReport = time.Time{}
	for _, c := range []struct {
		name   string
		peer   Peer
		want   Config
		got    EdgePeerConfigurationState
		why    string
		counts string
		health Health
	}{
		{"as wanted", peer(true), want, good, "", "Present 3, review 0", Green},
		{"offline", peer(false), want, good, "it is offline", "Present 3, review 0", Unknown},
		{"another generation", peer(true), want, answering("old", good), "it runs store:6, desired is store:7",
			"Present 3, review 0", Green},
		{"no generation", peer(true), want, answering("none", good), "it runs none, desired is store:7",
			"Present 3, review 0",
			Green},
		{"nothing wanted", peer(true), Config{}, EdgePeerConfigurationState{}, "it has no desired config yet", "review 0",
			Green},
		{"an empty config", peer(true), Config{Generation: now}, saidOf(), "", "review 0", Green},
		{"no report", silent, want, EdgePeerConfigurationState{}, "it runs none, desired is store:7", "Creating 3, review 0",
			Unknown},
		{
			"a failure is told first", peer(true), want, saidOf(Absent, CreatingFailed, WaitingForDependencies),
			"b is CreatingFailed; 3 of 3 parameters are not in their final state",
			"Creating 1, CreatingFailed 1, WaitingForDependencies 1, review 1", Red,
		},
		{"failed, and then offline", peer(false), want, saidOf(Present, Present, CreatingFailed), "it is offline",
			"CreatingFailed 1, Present 2, review 1", Red},
		{"the first that waits", peer(true), want, saidOf(Present, Absent),
			"b is Creating; 2 of 3 parameters are not in their final state", "Creating 2, Present 1, review 0", Yellow},
		{"ignored ones count", peer(true), want, saidOf(Present, Present, Present, RemovingFailed, Present), "",
			"Present 3, review 1", Red},
		{"an ignored one may be for review", peer(true), want, saidOf(Present, Present, Present, Present), "",
			"Present 3, review 0", Yellow},
		{"an ignored one that is none's matter", peer(true), want, saidOf(Present, Present, Present, Absent), "",
			"Present 3, review 0", Green},
		{"never better than the general health", bad, want, good, "", "Present 3, review 0", Yellow},
		{"nor worse by it", bad, want, saidOf(Present, Present, CreatingFailed),
			"c is CreatingFailed; 1 of 3 parameters are not in their final state", "CreatingFailed 1, Present 2, review 1", Red},
	} {
		r := Summarize(c.peer, c.want, c.got)
		counts := ""
		for _, s := range slices.Sorted(maps.Keys(r.Counts)) {
			counts += fmt.Sprintf("%s %d, ", s, r.Counts[s])
		}
		counts += fmt.Sprintf("review %d", r.Reviews)
		if r.Why != c.why || r.Ready != (c.why == "") || counts != c.counts || r.Health != c.health {
			t.Errorf("%s: ready %v, %s, %s, %q; want %s, %s, %q", c.name, r.Ready, r.Health, counts, r.Why, c.health, c.counts,
				c.why)
		}
	}
	p := peer(true)
	p.Clusters = []string{"one", "two"}
	r := Summarize(p, want, answering("old", good))
	if got := fmt.Sprintln(r.Name, r.Online, r.Clusters, r.Desired,
		r.Applied); got != "p1 true [one two] store:7 store:6\n" {
		t.Error(got)
	}
}

// What waits for another parameter is told after what it waits for.
func TestTheCauseIsToldFirst(t *testing.T) {
	want := Config{Generation: now, Parameters: []DesiredParameter{
		{ID: "a", Target: ToBePresent, Dependencies: []string{"z"}}, {ID: "z", Target: ToBePresent},
	}}
	got := EdgePeerConfigurationState{Generation: want.Generation, Parameters: []Reported{
		{ID: "a", State: WaitingForDependencies, Generation: want.Generation},
		{ID: "z", State: WaitingForDependencies, Message: "no route", Generation: want.Generation},
	}}
	r := Summarize(Peer{Name: "p", Online: true}, want, got)
	if r.Why != "z is WaitingForDependencies: no route; 2 of 2 parameters are not in their final state" ||
		r.Parameters[0].Reason != "waits for z" {
		t.Errorf("%q, %+v", r.Why, r.Parameters)
	}
}

func TestTheAgeOfAReport(t *testing.T) {
	r := Summarize(peer(true), Config{}, EdgePeerConfigurationState{})
	for at, want := range map[time.Time]time.Duration{foundAt.Add(time.Minute): time.Minute,
		foundAt.Add(-time.Minute): 0} {
		if age, has := r.Age(at); age != want || !has {
			t.Errorf("%s: %s, %v", at, age, has)
		}
	}
	if _, has := (PeerStatusReport{}).Age(foundAt); has {
		t.Error("of no report")
	}
}

// Each lamp is what the contract says, whatever is drawn.
func TestPropertyHealth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := peer(rapid.Bool().Draw(t, "online"))
		if rapid.Bool().Draw(t, "silent") {
			p.LastReport = time.Time{}
		}
		p.Health = []HealthItem{{Name: "x", Good: rapid.Bool().Draw(t, "good")}}
		r := Summarize(p, Config{Generation: now, Parameters: drawnParameters.Draw(t, "parameters")},
			EdgePeerConfigurationState{now, drawnReports.Draw(t, "reports")})
		var reviews []Review
		moving := false
		for _, x := range r.Parameters {
			reviews = append(reviews, x.Review)
			moving = moving || slices.Contains([]State{Creating, Removing, WaitingForDependencies}, x.State)
		}
		for _, x := range r.Ignored {
			reviews = append(reviews, x.Review)
		}
		want := Green
		switch {
		case slices.Contains(reviews, ReviewYes):
			want = Red
		case !p.Online || p.LastReport.IsZero():
			want = Unknown
		case moving || slices.Contains(reviews, ReviewMaybe) || !p.Health[0].Good:
			want = Yellow
		}
		if r.Health != want || r.Ready && (!p.Online || moving) {
			t.Fatalf("%s, ready %v, want %s: %+v", r.Health, r.Ready, want, r)
		}
	})
}

func TestNewlyIgnored(t *testing.T) {
	said := func(rs ...Reported) PeerConfigurationState {
		return Derive(Config{}, EdgePeerConfigurationState{Parameters: rs})
	}
	names := func(parameters []IgnoredParameter) (out []string) {
		for _, i := range parameters {
			out = append(out, i.ID)
		}
		return out
	}
	first := said(Reported{ID: "a", State: Present}, Reported{ID: "b", State: RemovingFailed, Message: "try 1"})
	for _, c := range []struct {
		name          string
		before, after PeerConfigurationState
		want          string
	}{
		{"at first", PeerConfigurationState{}, first, "[a b]"},
		{"as before", first, first, "[]"},
		{"another message", first,
			said(Reported{ID: "a", State: Present}, Reported{ID: "b", State: RemovingFailed, Message: "try 2"}), "[]"},
		{"one went, one came", first, said(Reported{ID: "a", State: Present}, Reported{ID: "c", State: Present}), "[c]"},
		{"another state", first, said(Reported{ID: "a", State: Absent}), "[a]"},
		{"it came back", said(), said(Reported{ID: "a", State: Present}), "[a]"},
	} {
		if got := fmt.Sprint(names(NewlyIgnored(c.before, c.after))); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestSummarizeCluster(t *testing.T) {
	want := Config{Generation: now, Parameters: []DesiredParameter{{ID: "a"}, {ID: "b"}, {ID: "c"}}}
	member := func(name string, online bool, got EdgePeerConfigurationState, ids ...string) ClusterMember {
		p := peer(online)
		p.Name = name
		return ClusterMember{Summarize(p, want, got), ids}
	}
	good := saidOf(Present, Present, Present)
	late := saidOf(Present, Present, Present)
	late.Generation, late.Parameters[1].Generation = old, old
	for _, c := range []struct {
		name    string
		members []ClusterMember
		health  Health
		why     string
		counts  string
	}{
		{"all are ready", []ClusterMember{member("n2", true, good, "a", "b"), member("n1", true, good, "a")}, Green, "",
			"map[Present:3]"},
		{"what is not the cluster's does not count",
			[]ClusterMember{member("n1", true, saidOf(Present, Present, CreatingFailed), "b", "a", "a")}, Green, "",
			"map[Present:2]"},
		{"one is offline", []ClusterMember{member("n2", false, good, "a"), member("n1", true, good, "a")}, Unknown,
			"n2: it is offline; 1 of 2 members are not ready", "map[Present:2]"},
		{
			"the first is named",
			[]ClusterMember{member("n2", false, good), member("n1", true, saidOf(Absent, Present), "a", "b")},
			Yellow,
			"n1: a is Creating; 1 of 2 parameters are not in their final state; 2 of 2 members are not ready",
			"map[Creating:1 Present:1]",
		},
		{"what is does, also of one that is offline",
			[]ClusterMember{member("n1", true, good, "a"), member("n2", false, saidOf(Present, Present, CreatingFailed), "c")},
			Red,
			"n2: it is offline; 1 of 2 members are not ready", "map[CreatingFailed:1 Present:1]"},
		{"one was not told yet", []ClusterMember{member("n1", true, good, "a", "x")}, Yellow,
			"n1: nothing is known of x; 1 of 1 members are not ready", "map[Present:1]"},
		{"a stale report is not final", []ClusterMember{member("n1", true, late, "b")}, Green,
			"n1: b is Present: stale report: generation store:6, desired is store:7; 1 of 1 parameters are not in their final " +
				"state; 1 of 1 members are not ready", "map[Present:1]"},
		{"of none", nil, Unknown, "it has no members", "map[]"},
	} {
		s := SummarizeCluster("c", c.members)
		if s.Name != "c" || s.Health != c.health || s.Why != c.why || s.Ready != (c.why == "") ||
			fmt.Sprint(s.Counts) != c.counts {
			t.Errorf("%s: %s, %v, %v, %q", c.name, s.Health, s.Ready, s.Counts, s.Why)
		}
		if !slices.IsSortedFunc(s.Members,
			func(a, b MemberStatus) int { return strings.Compare(a.Report.Name, b.Report.Name) }) {
			t.Errorf("%s: %+v", c.name, s.Members)
		}
	}
}
