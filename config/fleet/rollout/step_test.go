package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/config/fleet/topology"
)

// tell are effects as one sentence.
func tell(effects []Effect) string {
	var out []string
	for _, e := range effects {
		switch e := e.(type) {
		case Push:
			out = append(out, fmt.Sprintf("push#%d %s", e.Batch, strings.Join(e.Nodes, " ")))
		case Revert:
			out = append(out, fmt.Sprintf("revert#%d %s", e.Batch, strings.Join(e.Nodes, " ")))
		case Delayed:
			out = append(out, fmt.Sprintf("delayed#%d %s", e.Batch, strings.Join(e.Nodes, " ")))
		case SetTimer:
			out = append(out, fmt.Sprintf("timer %v", e.After))
		case Halted:
			out = append(out, "halted: "+e.Why)
		case Done:
			said := "done"
			for _, u := range e.Failed {
				said += "; " + u.Node + " failed: " + u.Reason
			}
			for _, u := range e.Unreachable {
				said += "; " + u.Node + " not: " + u.Reason
			}
			out = append(out, said)
		}
	}
	return strings.Join(out, ", ")
}

type step struct {
	event Event
	want  string
}

// due is the deadline of the timer that was set last.
type due struct{}

func (due) event() {}

func run(t *testing.T, name string, r *Rollout, steps []step) {
	t.Helper()
	last := 0
	for i, s := range steps {
		e := s.event
		if _, ok := e.(due); ok {
			e = Deadline{last}
		}
		effects := r.Step(e)
		for _, e := range effects {
			if set, ok := e.(SetTimer); ok {
				if set.Timer <= last {
					t.Errorf("%s: step %d, %T: timer %d is set after %d: its deadline is taken for an older one's", name, i+1, s.event,
						set.Timer, last)
				}
				last = set.Timer
			}
		}
		if got := tell(effects); got != s.want {
			t.Errorf("%s: step %d, %T: %s, want %s", name, i+1, s.event, got, s.want)
			return
		}
	}
}

// The line n0-n1-n2-n3 between two points of presence goes as n0 n1, then n2 n3.
func TestTheRolloutOfALine(t *testing.T) {
	without := func(links string) *topology.Topology { return sketch(4, links, "0 3", "") }
	first, second := "push#1 n0 n1, timer 3m0s", "push#2 n2 n3, timer 3m0s"
	ok := func(n string) Event { return NodeConfirmed{n} }
	for _, c := range []struct {
		name  string
		s     Settings
		steps []step
	}{
		{"batch after batch, each when all of the one before have confirmed", Settings{}, []step{
			{Start{}, first}, {Start{}, ""}, {ok("n0"), ""}, {ok("n0"), ""}, {ok("n1"), second}, {ok("n3"), ""},
			{ok("n2"), "done"}, {ok("n2"), ""},
		}},
		{"a canary, and a rest between batches", Settings{Options: Options{First: 1}, Rest: time.Minute}, []step{
			{Start{}, "push#1 n0, timer 3m0s"},
			{ok("n0"), "timer 1m0s"},
			{Deadline{1}, ""},
			{due{}, "push#2 n2 n3, timer 3m0s"},
			{ok("n3"), ""},
			{ok("n2"), "timer 1m0s"},
			{due{}, "push#3 n1, timer 3m0s"},
			{ok("n1"), "done"},
		}},
		{"a canary of two is a batch that the plan makes no larger", Settings{Options: Options{First: 2, Limit: 2}}, []step{
			{Start{}, first}, {ok("n0"), ""}, {ok("n1"), second}, {ok("n2"), ""}, {ok("n3"), "done"},
		}},
		{"who has it already is not pushed", Settings{}, []step{
			{Start{}, first}, {ok("n3"), ""}, {ok("n0"), ""}, {ok("n1"), "push#2 n2, timer 3m0s"}, {ok("n2"), "done"},
		}},
		{"a failure within the budget is named at the end", Settings{Failures: 1}, []step{
			{Start{}, first}, {NodeFailed{"n0", "no room"}, ""}, {NodeFailed{"n0", "no room"}, ""}, {ok("n1"), second},
			{ok("n2"), ""}, {ok("n3"), "done; n0 failed: no room"},
		}},
		{"one failure too many halts, and resume goes on with a new budget", Settings{}, []step{
			{Start{}, first},
			{NodeFailed{"n0", "no room"}, "halted: 1 nodes failed, n0 the last of them: no room: 0 may"},
			{ok("n1"), ""},
			{due{}, ""},
			{Resume{}, second},
			{ok("n2"), ""},
			{ok("n3"), "done; n0 failed: no room"},
		}},
		{"a config that cuts a node off undoes itself, and that is a failure", Settings{}, []step{
			{Start{}, first},
			{ok("n0"), ""},
			{NodeReverted{"n1"}, "halted: 1 nodes failed, n1 the last of them: it took the change back by itself: 0 may"},
			{Abort{Revert: true}, "revert#2 n0 n1, timer 3m0s"},
			{NodeReverted{"n0"}, ""},
			{NodeReverted{"n1"}, "done"},
		}},
		{"nobody answers: the deadline fails the batch", Settings{Failures: 2}, []step{
			{Start{}, first},
			{NodeOffline{"n0"}, ""},
			{NodeOffline{"n1"}, ""},
			{due{}, second},
			{NodeConfirmed{"n2"}, ""},
			{NodeConfirmed{"n3"}, "done; n0 failed: it did not answer within 3m0s; n1 failed: it did not answer within 3m0s"},
		}},
		{"one that answers late has it after all", Settings{Failures: 1}, []step{
			{Start{}, first}, {ok("n0"), ""}, {due{}, second}, {ok("n1"), ""}, {NodeFailed{"n2", "x"}, ""},
			{ok("n3"), "done; n2 failed: x"},
		}},
		{"abort names who does not have it", Settings{Failures: 2}, []step{
			{TopologyChanged{without("0-1 1-2")}, ""}, {Start{}, "push#1 n0 n1 n2, timer 3m0s"},
			{Abort{}, "done; n0 not: it did not answer before the rollout ended; " +
				"n1 not: it did not answer before the rollout ended; n2 not: it did not answer before the rollout ended; n3 not: " +
				"the rollout was aborted before"},
		}},
		{"the timer of an old batch is void", Settings{}, []step{
			{Start{}, first}, {ok("n0"), ""}, {ok("n1"), second}, {Deadline{1}, ""}, {ok("n2"), ""}, {ok("n3"), "done"},
		}},
		{"pause lets the batch that is out go on, and no other", Settings{}, []step{
			{Start{}, first}, {Pause{}, ""}, {ok("n0"), ""}, {ok("n1"), ""}, {Resume{}, second}, {Resume{}, ""}, {Pause{}, ""},
			{Resume{}, ""},
		}},
		{"paused before it starts, and while it rests", Settings{Rest: time.Minute}, []step{
			{Pause{}, ""}, {Start{}, ""}, {Resume{}, first}, {ok("n0"), ""}, {ok("n1"), "timer 1m0s"}, {Pause{}, ""},
			{due{}, ""}, {Resume{}, second},
		}},
		{"abort before the start", Settings{}, []step{
			{Abort{Revert: true}, "done"}, {Start{}, ""},
		}},
	} {
		c.s.Confirm = 3 * time.Minute
		top := without(line4)
		run(t, c.name, New(top, all(top), c.s), c.steps)
	}
}

func TestTheRolloutOfNodesThatComeAndGo(t *testing.T) {
	line := func(offline string) *topology.Topology { return sketch(3, "0-1 1-2", "0", offline) }
	ok := func(n string) Event { return NodeConfirmed{n} }
	for _, c := range []struct {
		name    string
		top     *topology.Topology
		pending string
		steps   []step
	}{
		{"who is unreachable blocks nothing and is named", line("1"), "n0 n1 n2", []step{
			{Start{}, "push#1 n0, timer 3m0s"},
			{ok("n0"), "done; n1 not: it is offline; n2 not: its site has no path to a point of presence"},
		}},
		{"who is back goes with a later batch", line("1"), "n0 n1 n2", []step{
			{Start{}, "push#1 n0, timer 3m0s"}, {NodeOnline{"n1"}, ""}, {ok("n0"), "push#2 n1 n2, timer 3m0s"}, {ok("n1"), ""},
			{ok("n2"), "done"},
		}},
		{"who is gone waits, and so do those behind it", line(""), "n1 n2", []step{
			{NodeOffline{"n1"}, ""}, {Start{}, "done; n1 not: it is offline; n2 not: its site has no path to a point of presence"},
		}},
		{"a node that is in no topology is named", line(""), "n1 n9", []step{
			{Start{}, "push#1 n1, timer 3m0s"}, {ok("n1"), "done; n9 not: it is not in the topology"},
		}},
		{"a node that leaves the topology is not waited for", line(""), "n1 n2", []step{
			{Start{}, "push#1 n1 n2, timer 3m0s"}, {ok("n1"), ""},
			{TopologyChanged{sketch(2, "0-1", "0", "")}, "done; n2 not: it is not in the topology"},
		}},
		{"what a new topology says counts more than who was gone before", line(""), "n1 n2", []step{
			{NodeOffline{"n1"}, ""}, {TopologyChanged{line("")}, ""}, {Start{}, "push#1 n1 n2, timer 3m0s"},
		}},
		{"the whole is reverted in batches, the one that is out first", sketch(4, ring4, "0", ""), "n1 n3", []step{
			{Start{}, "push#1 n1, timer 3m0s"},
			{ok("n1"), "push#2 n3, timer 3m0s"},
			{Abort{Revert: true}, "revert#3 n3, timer 3m0s"},
			{ok("n3"), ""},
			{Abort{Revert: true}, ""},
			{NodeFailed{"n3", "stuck"}, "revert#4 n1, timer 3m0s"},
			{NodeReverted{"n1"}, "done; n3 failed: stuck"},
		}},
		{"what was never pushed is not reverted", sketch(4, ring4, "0", ""), "n1 n3", []step{
			{Start{}, "push#1 n1, timer 3m0s"}, {Abort{Revert: true}, "revert#2 n1, timer 3m0s"},
			{due{}, "done; n1 failed: it did not answer within 3m0s"},
		}},
		{"nobody to push", line(""), "", []step{{Start{}, "done"}}},
	} {
		run(t, c.name, New(c.top, strings.Fields(c.pending), Settings{Confirm: 3 * time.Minute, Failures: 1}), c.steps)
	}
}

// Once n1 is silent, n4 is behind n3, and goes with it over the limit.
func TestNoPathIsCountedOnOverOneThatFailedSilently(t *testing.T) {
	for _, c := range []struct {
		answer Event
		next   string
	}{
		{NodeConfirmed{"n1"}, "push#2 n3, timer 3m0s"},
		{NodeFailed{"n1", "no"}, "push#2 n3, timer 3m0s"},
		{due{}, "push#2 n3 n4, timer 3m0s"},
	} {
		s := Settings{Confirm: 3 * time.Minute, Failures: 1, Options: Options{Limit: 1}}
		run(t, c.next, New(sketch(5, ring4+" 2-4", "0", ""), []string{"n1", "n3", "n4"}, s), []step{
			{Start{}, "push#1 n1, timer 3m0s"}, {c.answer, c.next},
		})
	}
}

// A node is stuck only with what it was just given: neither before, nor on the way back.
func TestWhoIsNotAskedIsNotStuck(t *testing.T) {
	r := New(nil, []string{"a", "b"}, Settings{Options: Options{Limit: 1}, Confirm: time.Minute, Stages: []int{100}})
	run(t, "stuck", r, []step{
		{NodeStuck{"x", "unknown"}, ""},
		{Start{}, "push#1 a, timer 1m0s"},
		{NodeStuck{"x", "unknown"}, ""},
		{NodeStuck{"b", "not its turn"}, ""},
	})
	if state, why := r.Node("b"); state != Waiting || why != "" {
		t.Errorf("b is %v %q, and it was not asked yet", state, why)
	}
	r.Step(Abort{Revert: true})
	before, _ := r.Node("a")
	r.Step(NodeStuck{"a", "on its way back"})
	if state, _ := r.Node("a"); state != before {
		t.Errorf("a is %v on its way back, want %v", state, before)
	}
}

// A rollout that is kept waits for the answers of who is out, on the way back too, and for nothing where none is.
func TestNoTimerRunsWhereNobodyIsOut(t *testing.T) {
	r := New(nil, []string{"a", "b"}, Settings{Options: Options{Limit: 1}, Confirm: time.Minute, Stages: []int{100}})
	run(t, "paused", r, []step{{Start{}, "push#1 a, timer 1m0s"}})
	if set, runs := r.Timer(); !runs || set.After != time.Minute {
		t.Errorf("while a is out: %v %v", set, runs)
	}
	r.Step(Pause{})
	r.Step(NodeConfirmed{"a"})
	if set, runs := r.Timer(); runs {
		t.Errorf("held back, with nobody out, a timer of %v runs", set.After)
	}
	r.Step(Abort{Revert: true})
	if set, runs := r.Timer(); !runs || set.After != time.Minute || r.Ended() {
		t.Errorf("while a is on its way back: %v %v, ended %v", set, runs, r.Ended())
	}
	r.Step(NodeReverted{"a"})
	if _, runs := r.Timer(); runs || !r.Ended() {
		t.Errorf("after the end: a timer runs %v, ended %v", runs, r.Ended())
	}
}

func TestWhereANodeStands(t *testing.T) {
	top := sketch(4, ring4, "0", "")
	r := New(top, []string{"n1", "n3"}, Settings{})
	stands := func() string {
		out := ""
		for _, n := range []string{"n0", "n1", "n3"} {
			state, why := r.Node(n)
			out += fmt.Sprintf("%s/%s ", state, why)
		}
		return out
	}
	for i, s := range []struct {
		e    Event
		want string
	}{
		{NodeOnline{"n1"}, "/ waiting/ waiting/ "},
		{Start{}, "/ pushed/ waiting/ "},
		{NodeConfirmed{"n1"}, "/ confirmed/ pushed/ "},
		{NodeFailed{"n3", "no"}, "/ confirmed/ failed/no "},
		{Abort{Revert: true}, "/ reverting/ failed/no "},
		{NodeReverted{"n1"}, "/ reverted/ reverting/ "},
		{NodeFailed{"n3", "stuck"}, "/ reverted/ revert failed/stuck "},
	} {
		if r.Step(s.e); stands() != s.want {
			t.Errorf("step %d: %s, want %s", i+1, stands(), s.want)
		}
	}
}
