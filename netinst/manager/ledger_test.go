package manager

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

func addRule(n int) netstate.Op {
	return netstate.Op{Verb: netstate.Add, Kind: netstate.KindRule,
		Items: []netstate.Item{{Want: netstate.Rule{Priority: n, Table: n}}}}
}

func ruleFailed(n int, why string) netstate.OpFailure {
	return netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindRule, Name: fmt.Sprint(n)}, Err: why,
		Op: addRule(n).String(), Cause: why}
}

func ops(fs []FailedOp) string {
	var out []string
	for _, f := range fs {
		out = append(out, fmt.Sprintf("%s: %s (%d since %ds)", f.Op, f.Error, f.Attempts, f.Since.Unix()))
	}
	return strings.Join(out, "; ")
}

func TestALedgerCountsFailuresAndReportsEachChangeOnce(t *testing.T) {
	var l Ledger
	want := netstate.NewState(netstate.Rule{Priority: 1, Table: 1}, netstate.Rule{Priority: 2, Table: 2})
	blocked := netstate.OpFailure{Err: "waits for rule 1", Op: "add port es1", Cause: "waits for rule 1", Blocked: true,
		Waiting: true}
	for i, c := range []struct {
		fs                    []netstate.OpFailure
		failing, began, ended string
	}{
		{[]netstate.OpFailure{ruleFailed(1, "no")}, "add rule 1: no (1 since 0s)", "add rule 1: no (1 since 0s)", ""},
		{[]netstate.OpFailure{ruleFailed(1, "no")}, "add rule 1: no (2 since 0s)", "", ""},
		{
			[]netstate.OpFailure{ruleFailed(1, "never"), ruleFailed(2, "no"), blocked},
			"add rule 1: never (3 since 0s); add rule 2: no (1 since 2s); add port es1: waits for rule 1 (1 since 2s)",
			"add rule 1: never (3 since 0s); add rule 2: no (1 since 2s)", "",
		},
		{[]netstate.OpFailure{ruleFailed(2, "no")}, "add rule 2: no (2 since 2s)", "", "add rule 1: never (3 since 0s)"},
		{nil, "", "", "add rule 2: no (2 since 2s)"},
		{nil, "", "", ""},
	} {
		a := l.Record(want, ApplyOutcome{Failures: c.fs, At: time.Unix(int64(i), 0), Retry: time.Second})
		if got := ops(a.Failing); got != c.failing {
			t.Errorf("%d: failing %q, want %q", i, got, c.failing)
		}
		if got := ops(a.Began); got != c.began {
			t.Errorf("%d: began %q, want %q", i, got, c.began)
		}
		if got := ops(a.Ended); got != c.ended {
			t.Errorf("%d: ended %q, want %q", i, got, c.ended)
		}
		if due := time.Unix(int64(i+1), 0); len(c.fs) > 0 && !a.Retry.Equal(due) || len(c.fs) == 0 && !a.Retry.IsZero() {
			t.Errorf("%d: retry at %v", i, a.Retry)
		}
	}
}

func TestALedgerDistinguishesDriftFromANewDesiredState(t *testing.T) {
	var l Ledger
	one := netstate.NewState(netstate.Rule{Priority: 1, Table: 1})
	both := netstate.NewState(netstate.Rule{Priority: 1, Table: 1}, netstate.Rule{Priority: 2, Table: 2})
	undone := []netstate.OpFailure{{ID: netstate.ID{Kind: netstate.KindRule, Name: "1"}, Err: "absent"}}
	for _, c := range []struct {
		name string
		want netstate.State
		done []netstate.Op
		fs   []netstate.OpFailure
		err  string
		rep  []string
	}{
		{"what a daemon finds undone at its start", one, []netstate.Op{addRule(1)}, nil, "", nil},
		{"what others took away", one, []netstate.Op{addRule(1)}, nil, "", []string{"add rule 1"}},
		{"a new desired object beside a repair", both, []netstate.Op{addRule(1), addRule(2)}, nil, "", []string{"add rule 1"}},
		{"what is no longer desired", one, netstate.Diff(both, one), nil, "", nil},
		{"what was never desired", one, netstate.Diff(both, one), nil, "", []string{"remove rule 2"}},
		{"what fails", one, nil, []netstate.OpFailure{ruleFailed(1, "no")}, "", nil},
		{"a host that could not be looked at", one, nil, nil, "dump", nil},
		{"what had failed before is no repair", one, []netstate.Op{addRule(1)}, nil, "", nil},
		{"what others change again before it is looked at", one, []netstate.Op{addRule(1)}, undone, "",
			[]string{"add rule 1"}},
		{"and again", one, []netstate.Op{addRule(1)}, undone, "", []string{"add rule 1"}},
		{"what never stood", both, []netstate.Op{addRule(1), addRule(2)},
			[]netstate.OpFailure{{ID: netstate.ID{Kind: netstate.KindRule, Name: "2"}, Err: "absent"}}, "",
			[]string{"add rule 1"}},
		{"what still does not stand", both, []netstate.Op{addRule(2)}, nil, "", nil},
	} {
		a := l.Record(c.want, ApplyOutcome{Done: c.done, Failures: c.fs, Err: c.err})
		if !slices.Equal(a.Repaired, c.rep) || a.Changes != len(c.done) {
			t.Errorf("%s: repaired %q of %d, want %q", c.name, a.Repaired, a.Changes, c.rep)
		}
	}
}

// A route that the kernel removes with its address, which changes, is no change of another program.
func TestARouteThatGoesWithItsAddressIsNoRepair(t *testing.T) {
	state := func(label string) netstate.State {
		a := netstate.Address{Link: "es1", Prefix: "10.1.0.1/24", Label: label}
		return netstate.NewState(a, netstate.Route{Table: 20001, Dst: "10.1.0.0/24", Type: netstate.Unicast, Dev: "es1",
			Src: "10.1.0.1", After: a.ID()})
	}
	var l Ledger
	for _, x := range []struct{ have, want netstate.State }{
		{netstate.State{}, state("")}, {state(""), state("es1:g")}, {state("es1:g"), state("")},
	} {
		plan := netstate.Diff(x.have, x.want)
		a := l.Record(x.want, ApplyOutcome{Done: plan})
		if len(plan) != 2 || len(a.Repaired) > 0 {
			t.Errorf("plan %v, repaired %v", plan, a.Repaired)
		}
	}
	plan := netstate.Diff(netstate.NewState(netstate.Address{Link: "es1", Prefix: "10.1.0.1/24"}), state(""))
	if a := l.Record(state(""), ApplyOutcome{Done: plan}); len(a.Repaired) != 1 {
		t.Errorf("a route that others removed: %v, repaired %v", plan, a.Repaired)
	}
}

// A manager records each apply, names the adapter that a failed op concerns, and reports when it retries.
func TestAManagerBooksItsApplies(t *testing.T) {
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	for _, s := range begun() {
		m.Step(s.event)
	}
	m.Step(AdapterChanged{testAdapter(appW, 1, true)})
	e := applied(2, fail(netstate.KindLink, "es1a1", "busy"))
	e.At = time.Unix(100, 0)
	var got *ApplyReport
	for _, eff := range m.Step(e) {
		if b, ok := eff.(ReportApply); ok {
			got = &b.Report
		}
	}
	if got == nil || len(got.Failing) != 1 ||
		got.Failing[0].Adapter != (netinst.AdapterKey{AppUUID: appW, Index: 0}).String() {
		t.Fatalf("booked %+v", got)
	}
	if !got.Retry.Equal(time.Unix(100, 0).Add(retries.First)) {
		t.Errorf("the retry is at %v", got.Retry)
	}
	if effs := m.Step(applied(1)); len(effs) != 0 {
		t.Errorf("an apply of the past is booked: %v", effs)
	}
}

// What is reported of a failure: its cause, or else its full text; and the adapter, unless the op concerns several.
func TestALedgersReportOfAFailure(t *testing.T) {
	id := func(name string) netstate.ID { return netstate.ID{Kind: netstate.KindChain, Name: name} }
	owner := func(id netstate.ID) string { return id.Name[:1] }
	for _, c := range []struct {
		fs   []netstate.OpFailure
		want string
	}{
		{[]netstate.OpFailure{{ID: id("a1"), Op: "x", Err: "e: no", Cause: "no"}}, "x no a"},
		{[]netstate.OpFailure{{ID: id("a1"), Op: "x", Err: "e: no"}}, "x e: no a"},
		{[]netstate.OpFailure{{ID: id("a1"), Err: "differs"}}, "check chain a1 differs a"},
		{[]netstate.OpFailure{{ID: id("a1"), Op: "x", Err: "no"}, {ID: id("a2"), Op: "x", Err: "no"}}, "x no a"},
		{[]netstate.OpFailure{{ID: id("a1"), Op: "x", Err: "no"}, {ID: id("b1"), Op: "x", Err: "no"}}, "x no "},
		{[]netstate.OpFailure{{ID: id("a1"), Op: "x", Err: "no"}, {ID: id("b1"), Op: "y", Err: "no"},
			{ID: id("b2"), Op: "y", Err: "no"}}, "x no a; y no b"},
	} {
		var l Ledger
		var got []string
		for _, f := range l.Record(netstate.State{}, ApplyOutcome{Failures: c.fs, Adapter: owner}).Failing {
			got = append(got, f.Op+" "+f.Error+" "+f.Adapter)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%q, want %q", text, c.want)
		}
	}
}

// The reported retry is that of the failure, whatever other timers begin at the same time.
func TestTheRetryOfAFirstApply(t *testing.T) {
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	for _, e := range []Event{ApplierReady{}, PortsChanged{Ports: testPort()}, ConfigChanged{Config: testNetwork(1)}, AdaptersKnown{},
		Synchronized{}} {
		m.Step(e)
	}
	e := applied(1, fail(netstate.KindLink, "es1", "busy"))
	e.At = at(100)
	timers := 0
	for _, eff := range m.Step(e) {
		switch eff := eff.(type) {
		case Timer:
			timers++
		case ReportApply:
			if got := eff.Report.Retry; !got.Equal(at(100).Add(retries.First)) {
				t.Errorf("the retry is at %v", got)
			}
		}
	}
	if timers < 2 {
		t.Errorf("%d timers begin", timers)
	}
}

// A config that is sent again while the retry runs is answered by the retry, and costs no apply of its own.
func TestAConfigIsSentAgainWhileTheRetryRuns(t *testing.T) {
	m := judged(t)
	m.Step(AdapterChanged{testAdapter(appW, 2, true)})
	m.Step(Applied{Seq: m.flight.seq, Failures: []netstate.OpFailure{fail(netstate.KindLink, "es1a1", "busy")}})
	m.Step(TimerDue{Token: m.retryTok})
	if m.flight == nil || m.retryTok != 0 || !m.failing {
		t.Fatalf("no retry runs: %v %v", m.retryTok, m.failing)
	}
	m.Step(AdapterChanged{testAdapter(appW, 2, true)})
	if got := text(m.Step(Applied{Seq: m.flight.seq})); strings.Contains(got, "apply") {
		t.Errorf("got %q", got)
	}
}
