package netstate

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// walk runs the plan; a step whose text is in bad fails with its error. It returns what was done, and what is not as
// desired.
func walk(p Plan, bad map[string]error) (done string, failures []OpFailure) {
	var lines []string
	r := NewRun(p)
	for op, ok := r.Next(); ok; op, ok = r.Next() {
		lines = append(lines, op.String())
		r.Done(op, bad[op.String()])
	}
	failures = r.Failures()
	for i := range failures { // the tables below show only what does not follow from the rest
		f := &failures[i]
		if f.Op == "" || f.Cause != f.Err || f.Blocked != strings.HasPrefix(f.Err, "waits for ") {
			panic(fmt.Sprintf("parts of %+v", *f))
		}
		f.Op, f.Cause, f.Blocked = "", "", false
	}
	return strings.Join(lines, "\n"), failures
}

func TestAFailureHasOpCommandAndCause(t *testing.T) {
	r := NewRun(Diff(State{}, NewState(Rule{Priority: 20001, Table: 20001})))
	op, _ := r.Next()
	r.Done(op, fmt.Errorf("do: %w", &OpError{Op: "add rule", Command: "ip rule add", Err: errors.New("busy")}))
	f := r.Failures()[0]
	if f.Op != "add rule 20001" || f.Command != "ip rule add" || f.Cause != "busy" ||
		f.Err != "do: add rule: ip rule add: busy" {
		t.Errorf("%+v", f)
	}
}

func TestAFailedOpStopsOnlyWhatNeedsIt(t *testing.T) {
	no := errors.New("no")
	addPort1, addPort2 := "add port es1a1", "add port es1a2"
	for name, c := range map[string]struct {
		have, want State
		bad        map[string]error
		skipped    []string
		failures   []OpFailure
	}{
		"nothing fails": {have: State{}, want: goldenFrom()},
		"an adapter's link": {
			have: State{}, want: goldenFrom(), bad: map[string]error{"add link es1a1": no}, skipped: []string{addPort1},
			failures: []OpFailure{
				{ID: ID{KindLink, "es1a1"}, Err: "no"},
				{ID: ID{KindPort, "es1a1"}, Waiting: true, Err: "waits for link es1a1"},
			},
		},
		"a namespace that is not there": {
			have: State{}, want: goldenFrom(), bad: map[string]error{"add link es1a1": fmt.Errorf("netns a: %w", ErrWaiting)},
			skipped: []string{addPort1},
			failures: []OpFailure{
				{ID: ID{KindLink, "es1a1"}, Waiting: true, Err: "netns a: waiting for a dependency"},
				{ID: ID{KindPort, "es1a1"}, Waiting: true, Err: "waits for link es1a1"},
			},
		},
		"a namespace that is announced": {
			have: State{}, want: goldenFrom(),
			bad:     map[string]error{"add link es1a1": fmt.Errorf("netns a: %w", ErrAnnounced)},
			skipped: []string{addPort1},
			failures: []OpFailure{
				{ID: ID{KindLink, "es1a1"}, Waiting: true, Announced: true, Err: "netns a: waiting for a dependency"},
				{ID: ID{KindPort, "es1a1"}, Waiting: true, Err: "waits for link es1a1"},
			},
		},
		"the bridge": {
			have: State{}, want: goldenFrom(), bad: map[string]error{"add link es1": no},
			skipped: []string{"add address es1 10.1.0.1/24", "add port es1", addPort1, addPort2},
			failures: []OpFailure{
				{ID: ID{KindLink, "es1"}, Err: "no"},
				{ID: ID{KindAddress, "es1 10.1.0.1/24"}, Waiting: true, Err: "waits for link es1"},
				{ID: ID{KindPort, "es1"}, Waiting: true, Err: "waits for link es1"},
				{ID: ID{KindPort, "es1a1"}, Waiting: true, Err: "waits for port es1"},
				{ID: ID{KindPort, "es1a2"}, Waiting: true, Err: "waits for port es1"},
			},
		},
		"what nothing needs": {
			have: State{}, want: goldenFrom(), bad: map[string]error{"add rule 20001": no},
			failures: []OpFailure{{ID: ID{KindRule, "20001"}, Err: "no"}},
		},
		"a port that can't be taken out keeps its chains": {
			have: goldenTo(), want: State{}, bad: map[string]error{"remove port es1a1": no},
			skipped: []string{"remove chain ipv4/filter/ES1-1E, ipv4/filter/ES1-FWD"},
			failures: []OpFailure{
				{ID: ID{KindPort, "es1a1"}, Remove: true, Err: "no"},
				{ID: ID{KindChain, "ipv4/filter/ES1-1E"}, Waiting: true, Remove: true, Err: "waits for port es1a1"},
				{ID: ID{KindChain, "ipv4/filter/ES1-FWD"}, Waiting: true, Remove: true, Err: "waits for port es1a1"},
			},
		},
		"the bridge's own port keeps none": {
			have: goldenTo(), want: State{}, bad: map[string]error{"remove port es1": no},
			failures: []OpFailure{{ID: ID{KindPort, "es1"}, Remove: true, Err: "no"}},
		},
		"a link that can't go is not made anew and says why": {
			have: goldenFrom(), want: goldenTo(), bad: map[string]error{"remove link es1a1": no},
			skipped: []string{"add link es1a1", addPort1},
			failures: []OpFailure{
				{ID: ID{KindLink, "es1a1"}, Remove: true, Err: "no"},
				{ID: ID{KindPort, "es1a1"}, Waiting: true, Err: "waits for link es1a1"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := Diff(c.have, c.want)
			want := spell(plan)
			for _, s := range c.skipped {
				if !strings.Contains("\n"+want+"\n", "\n"+s+"\n") {
					t.Fatalf("%q is no step of\n%s", s, want)
				}
				want = strings.Trim(strings.Replace("\n"+want+"\n", "\n"+s+"\n", "\n", 1), "\n")
			}
			done, failures := walk(plan, c.bad)
			if d := cmp.Diff(want, done); d != "" {
				t.Errorf("steps (-want +got):\n%s", d)
			}
			if c.failures == nil {
				c.failures = []OpFailure{}
			}
			if d := cmp.Diff(c.failures, failures); d != "" {
				t.Errorf("failures (-want +got):\n%s", d)
			}
		})
	}
}

// Whatever fails, exactly the steps that need it are skipped, each object that is not as desired is named once, each
// one's cause is a failure too, and the next plan repairs them all.
func TestAnyFailuresAreReportedAndRepaired(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, want := damaged(t), network(t)
		failed, passed := map[ID]bool{}, map[ID]bool{}
		stuck := false
		r := NewRun(Diff(have, want))
		now := maps.Clone(have)
		left := r.plan
		for op, ok := r.Next(); ok; op, ok = r.Next() {
			for left[0].String() != op.String() { // skipped by Next
				for _, it := range left[0].Items {
					passed[it.ID()] = true
				}
				if !mustWait(left[0], failed, stuck) {
					t.Fatalf("%s was passed over", left[0])
				}
				markFailed(left[0], failed)
				left = left[1:]
			}
			left = left[1:]
			if mustWait(op, failed, stuck) {
				t.Fatalf("%s was done though something that it needs had failed", op)
			}
			if rapid.IntRange(0, 5).Draw(t, "fails") > 0 {
				do(now, op)
				r.Done(op, nil)
				continue
			}
			r.Done(op, errors.New("injected"))
			markFailed(op, failed)
			if p, ok := op.Items[0].Have.(Port); ok && op.Verb == Remove && p.Master != "" {
				stuck = true
			}
			stuck = stuck || op.Kind == KindChain && op.Verb != Remove
		}
		for _, op := range left {
			if !mustWait(op, failed, stuck) {
				t.Fatalf("%s was passed over at the end", op)
			}
			markFailed(op, failed)
		}
		checkFailures(t, r.Failures(), failed)
		for _, op := range Diff(now, want) {
			do(now, op)
		}
		if d := cmp.Diff(want.String(), now.String()); d != "" {
			t.Fatalf("a second plan (-want +got):\n%s", d)
		}
	})
}

func markFailed(op Op, failed map[ID]bool) {
	for _, it := range op.Items {
		failed[it.ID()] = true
	}
}

// mustWait states the rule independently of Run's implementation.
func mustWait(op Op, failed map[ID]bool, stuck bool) bool {
	if op.Kind == KindChain && stuck {
		return true
	}
	if op.Verb == Remove {
		return false
	}
	for _, it := range op.Items {
		if failed[it.ID()] {
			return true
		}
		for _, n := range it.Want.Needs() {
			if failed[n] {
				return true
			}
		}
	}
	return false
}

func checkFailures(t *rapid.T, fs []OpFailure, failed map[ID]bool) {
	seen := map[ID]bool{}
	for _, f := range fs {
		if seen[f.ID] || !failed[f.ID] {
			t.Fatalf("%s: named twice is %v, failed is %v", f.ID, seen[f.ID], failed[f.ID])
		}
		if why, waits := strings.CutPrefix(f.Err, "waits for "); waits {
			cause := false
			for id := range seen {
				cause = cause || id.String() == why
			}
			if !cause {
				t.Fatalf("%s waits for %s, which has not failed before it", f.ID, why)
			}
		}
		seen[f.ID] = true
	}
	if len(seen) != len(failed) {
		t.Fatalf("%d failures are named, want %d", len(seen), len(failed))
	}
}

func TestAnErrorOfAnOpNamesItsCommand(t *testing.T) {
	cause := errors.New("exit status 2")
	for want, e := range map[string]*OpError{
		"add chain a: iptables-restore: exit status 2": {Op: "add chain a", Command: "iptables-restore", Err: cause},
		"add link a: exit status 2":                    {Op: "add link a", Err: cause},
	} {
		if e.Error() != want || !errors.Is(e, cause) {
			t.Errorf("%q, want %q with its cause", e, want)
		}
	}
}
