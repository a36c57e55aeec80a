package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/fleetapi"
)

func TestFaultsAreRead(t *testing.T) {
	got, err := ParseFaults("reject=1%, silent=0.5%,crash=100%")
	if err == nil || !strings.Contains(err.Error(), "sum 101.5%") {
		t.Errorf("%v, %v: more than all nodes went through", got, err)
	}
	got, err = ParseFaults("reject=1%, silent=0.5%")
	if want := (FaultRates{Reject: 0.01, Silent: 0.005}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := ParseFaults(""); err != nil || len(got) != 0 {
		t.Errorf("nothing: %v, %v", got, err)
	}
	_, err = ParseFaults("reject=1,sulk=1%,crash=-1%,crash=1%,crash=2%,silent=NaN%,disconnect")
	for _, want := range []string{
		`reject: invalid value "1": must be 0% to 100%`,
		`unknown fault "sulk": must be one of reject, unhealthy, silent, crash, disconnect, hang, rollback, linkloss`,
		`crash: invalid value "-1%"`, "crash: given twice", `silent: invalid value "NaN%"`, `disconnect: invalid value ""`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

func TestAPlanIsTheSameForTheSameSeed(t *testing.T) {
	faults := FaultRates{Reject: 0.01, Unhealthy: 0.01, Silent: 0.005, Crash: 0.01, Disconnect: 0.02}
	a := faults.Plan(1000, 7)
	if !slices.Equal(a, faults.Plan(1000, 7)) {
		t.Error("another plan for the same seed")
	}
	if slices.Equal(a, faults.Plan(1000, 8)) {
		t.Error("the same plan for another seed")
	}
	count := map[InjectedFault]int{}
	for _, f := range a {
		count[f]++
	}
	if want := (map[InjectedFault]int{"": 945, Reject: 10, Unhealthy: 10, Silent: 5, Crash: 10,
		Disconnect: 20}); !maps.Equal(count, want) {
		t.Errorf("%v, want %v", count, want)
	}
	few := faults.Plan(3, 1)
	if slices.Contains(few, "") || len(few) != 3 {
		t.Errorf("%v: a share above nothing is a node at least, as far as there are nodes", few)
	}
	if got := (FaultRates{Crash: 1}).Plan(5, 1); slices.ContainsFunc(got,
		func(f InjectedFault) bool { return f != Crash }) {
		t.Errorf("100%% are %v", got)
	}
}

func seen(name, state string) fleetapi.Node {
	r := fleetapi.Running{MD5: "m", Generation: "a:1"}
	return fleetapi.Node{Name: name, State: state, Why: "because", Online: true, Desired: r, Running: r}
}

func TestNodesAreCounted(t *testing.T) {
	names := []string{"ok", "reject", "unhealthy", "crash", "gone", "tame", "old", "off", "none", "hang", "heard"}
	plan := []InjectedFault{"", Reject, Unhealthy, Crash, "", Reject, "", "", "", Hang, Hang}
	old, off, none := seen("old", "InSync"), seen("off", "InSync"), seen("none", "InSync")
	old.Running.Generation, off.Online = "a:0", false
	none.Desired, none.Running = fleetapi.Running{}, fleetapi.Running{}
	got := Count(names, plan, []fleetapi.Node{
		seen("ok", "InSync"), seen("reject", "RolledBack"), seen("unhealthy", "RolledBack"), seen("crash", "InSync"),
		seen("tame", "InSync"), old, off, none,
		seen("hang", "Pushing"), seen("heard", "InSync"),
		seen("stranger", "Pushing"),
	})
	want := Progress{Nodes: 11, Converged: 5, FailedAsAsked: map[InjectedFault]int{Reject: 1, Unhealthy: 1, Hang: 1},
		Waiting: []Waiting{
			{"another config", "runs a:0, desired a:1", 2, []string{"old", "none"}},
			{"not failed", "it was asked to reject and took the config", 2, []string{"tame", "heard"}},
			{"Offline", "because", 1, []string{"off"}},
			{"UnknownNode", "unknown to the controller", 1, []string{"gone"}},
		}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.Done() || got.String() != "converged 5 of 11, of these failed as asked: 1 reject, 1 unhealthy, 1 hang" {
		t.Errorf("done %t: %s", got.Done(), got)
	}
	// A node that was not asked to fail, and does, is waited for.
	got = Count([]string{"a", "b", "c"}, []InjectedFault{"", Crash, Hang},
		[]fleetapi.Node{seen("a", "RolledBack"), seen("b", "RolledBack"), seen("c", "RolledBack")})
	if got.Converged != 0 || got.Waiting[0].Nodes != 3 {
		t.Errorf("%+v", got)
	}
}

func TestSomeOfManyWaitingNodesAreNamed(t *testing.T) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint(i))
	}
	got := Count(names, make([]InjectedFault, 100), nil)
	if w := got.Waiting[0]; w.Nodes != 100 || len(w.Names) != someNames {
		t.Errorf("%+v", w)
	}
	if done := Count(nil, nil, nil); !done.Done() || done.String() != "converged 0 of 0" {
		t.Errorf("%v", done)
	}
	if text, err := json.Marshal(Count(nil, nil, nil)); err != nil ||
		string(text) != `{"nodes":0,"converged":0,"failedAsAsked":{},"waiting":[]}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestTimesAreQuantiles(t *testing.T) {
	var took []time.Duration
	for i := range 200 {
		took = append(took, time.Duration(200-i)*time.Millisecond)
	}
	if got, want := NewTimes(took), (Times{200, 100, 198, 200}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := NewTimes(took[:1]), (Times{1, 200, 200, 200}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if NewTimes(nil) != (Times{}) {
		t.Error("of nothing")
	}
	r := newRound(time.Unix(100, 0))
	of := func(r *round) map[int]time.Time { return r.acked }
	r.mark(of, 1, time.Unix(102, 0))
	r.mark(of, 1, time.Unix(103, 0))
	if got := r.times().Acked; got.Nodes != 1 || got.Max != 2000 {
		t.Errorf("%+v: the first time counts", got)
	}
}
