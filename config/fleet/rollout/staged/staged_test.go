package staged

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/fleet"
	"edgespan/config/fleet/rollout"
)

var (
	old     = fleet.Digest{Config: "old"}
	desired = fleet.Digest{Config: "wanted"}
	moment  = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
)

// inState is a rollout that has a node in a state.
func inState(g rollout.Group) *rollout.Rollout {
	g.Names = []string{"n"}
	return rollout.FromMemory(rollout.Memory{Nodes: []rollout.Group{g}}, nil, nil)
}

// What a standing says to the rollout; what it knows already is no news, or each word of a node would be written.
func TestWhatAStandingSaysToARollout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in     rollout.Group
		stands string
		about  fleet.Digest
		want   string
	}{
		"it confirmed": {rollout.Group{State: rollout.Pushed}, fleet.ProgressConfirmed, desired,
			"NodeConfirmed"},
		"it confirmed before its batch": {rollout.Group{State: rollout.Waiting}, fleet.ProgressConfirmed, desired,
			"NodeConfirmed"},
		"it confirmed, as is known":          {rollout.Group{State: rollout.Confirmed}, fleet.ProgressConfirmed, desired, ""},
		"it confirmed what it wanted before": {rollout.Group{State: rollout.Pushed}, fleet.ProgressConfirmed, old, ""},
		"it failed": {rollout.Group{State: rollout.Pushed}, fleet.ProgressFailed, desired,
			"NodeFailed"},
		"it failed while it waits again": {rollout.Group{State: rollout.Waiting, Delayed: true}, fleet.ProgressFailed,
			desired, "NodeFailed"},
		"it failed without having been pushed": {rollout.Group{State: rollout.Waiting}, fleet.ProgressFailed, desired, ""},
		"it took it":                           {rollout.Group{State: rollout.Pushed}, fleet.ProgressAcked, desired, "NodeAcked"},
		"it took it, as is known": {rollout.Group{State: rollout.Pushed, Took: true}, fleet.ProgressAcked, desired,
			""},
		"it took it before its batch": {rollout.Group{State: rollout.Waiting}, fleet.ProgressAcked, desired, ""},
		"somebody else must act first": {rollout.Group{State: rollout.Pushed}, fleet.ProgressStuck, desired,
			"NodeStuck"},
		"stuck before its batch": {rollout.Group{State: rollout.Waiting}, fleet.ProgressStuck, desired, ""},
		"it waits for its batch": {rollout.Group{State: rollout.Waiting}, fleet.ProgressStaged, desired, ""},
		"nothing is said":        {rollout.Group{State: rollout.Pushed}, "", desired, ""},
	} {
		n := &Node{Name: "n", Desired: desired, Online: true, Progress: fleet.RolloutProgress{Digest: c.about, State: c.stands}}
		got := ""
		if e := n.AnswerEvent(c.in.State, inState(c.in)); e != nil {
			got = strings.TrimPrefix(fmt.Sprintf("%T", e), "rollout.")
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A later revision supersedes; an aborted rollout holds back what nodes want by its revision.
func TestWhichRolloutFollowsALook(t *testing.T) {
	t.Parallel()
	waits := fleet.RolloutProgress{Digest: desired, State: fleet.ProgressStaged}
	nodes := []*Node{
		{Name: "b", Desired: desired, Since: 7, Online: true, Progress: waits},
		{Name: "a", Desired: desired, Since: 7, Online: true, Progress: waits},
		{Name: "let", Desired: desired, Since: 7, Online: true, Progress: waits, Admission: Admission{Open: desired}},
		{Name: "has", Desired: desired, Since: 7, Online: true,
			Progress: fleet.RolloutProgress{Digest: desired, State: fleet.ProgressConfirmed}},
		{Name: "old", Desired: desired, Since: 3, Online: true, Progress: waits},
	}
	for name, c := range map[string]struct {
		cause uint64
		last  *RolloutRecord
		want  Uncovered
	}{
		"there was none":         {5, nil, Uncovered{Nodes: []string{"a", "b", "old"}, Fresh: true}},
		"it is of this revision": {5, &RolloutRecord{Revision: 5}, Uncovered{Nodes: []string{"a", "b", "old"}}},
		"it is of the one before": {5, &RolloutRecord{Revision: 4},
			Uncovered{Nodes: []string{"a", "b", "old"}, Fresh: true}},
		"it was aborted": {5, &RolloutRecord{Revision: 5, End: EndAborted, Barrier: 6},
			Uncovered{Held: true}},
		"it was aborted, and another change came": {6, &RolloutRecord{Revision: 5, End: EndAborted, Barrier: 6},
			Uncovered{Nodes: []string{"a", "b"}, Fresh: true}},
		"what was aborted before is held back yet": {6, &RolloutRecord{Revision: 6, Barrier: 6},
			Uncovered{Nodes: []string{"a", "b"}}},
	} {
		got := FindUncovered(slices.Values(nodes), c.cause, c.last, nil, nil)
		if !slices.Equal(got.Nodes, c.want.Nodes) || got.Fresh != c.want.Fresh || got.Held != c.want.Held {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// The gates of the batch that is out are open, those of nodes that wait again closed; what a node wants since is of no
// rollout that was stored before.
func TestWhichGatesAreSet(t *testing.T) {
	t.Parallel()
	const at = 9
	s := &RolloutRecord{Revision: 5, Machine: rollout.Memory{Number: 2, Out: []string{"out", "open", "later", "gone"},
		Nodes: []rollout.Group{
			{State: rollout.Waiting, Delayed: true, Batch: 1, Names: []string{"again", "shut"}},
			{State: rollout.Waiting, Names: []string{"turn"}},
		}}}
	open := Admission{Open: desired}
	nodes := map[string]*Node{
		"out": {ID: "1", Desired: desired}, "open": {ID: "2", Desired: desired, Admission: open},
		"later": {ID: "3", Desired: desired, Since: at + 1}, "again": {ID: "4", Desired: desired, Admission: open},
		"shut": {ID: "5", Desired: desired}, "turn": {ID: "6", Desired: desired, Admission: open},
	}
	node := func(name string) *Node { return nodes[name] }
	opens, shuts := Admission{Open: desired, Rollout: 5, Batch: 2}, Admission{Rollout: 5, Batch: 1}
	for name, c := range map[string]struct {
		ended bool
		limit int
		want  map[string]Admission
	}{
		"it goes on":   {false, 9, map[string]Admission{"1": opens, "4": shuts}},
		"it has ended": {true, 9, map[string]Admission{"4": shuts}},
		"at most one":  {false, 1, map[string]Admission{"1": opens}},
	} {
		if got := s.AdmissionChanges(node, at, c.ended, c.limit); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestWhatACommandDoes(t *testing.T) {
	t.Parallel()
	machine := func(m rollout.Memory) *rollout.Rollout { return rollout.FromMemory(m, nil, nil) }
	running, paused, halted := machine(rollout.Memory{}), machine(rollout.Memory{Paused: true}),
		machine(rollout.Memory{Halted: true})
	for name, c := range map[string]struct {
		s    RolloutRecord
		m    *rollout.Rollout
		what string
		want string // the event or why it is refused; then who is noted, the end and the barrier
	}{
		"pause":                    {RolloutRecord{}, running, Pause, "rollout.Pause by ann"},
		"pause a paused one":       {RolloutRecord{By: "bob"}, paused, Pause, "it is paused already, by bob by bob"},
		"resume a paused one":      {RolloutRecord{By: "bob"}, paused, Resume, "rollout.Resume"},
		"resume a halted one":      {RolloutRecord{}, halted, Resume, "rollout.Resume"},
		"resume a running one":     {RolloutRecord{}, running, Resume, "it is running"},
		"abort":                    {RolloutRecord{Barrier: 3}, running, Abort, "rollout.Abort by ann aborted 8"},
		"abort what is held since": {RolloutRecord{Barrier: 9}, running, Abort, "rollout.Abort by ann aborted 9"},
		"what is unknown":          {RolloutRecord{}, running, "leap", `"leap" is no command of a rollout`},
		"one that is done": {RolloutRecord{End: EndDone, Ended: moment}, running, Abort,
			"it has ended: it is done since 2026-11-23T00:00:00Z done"},
		"one that was aborted": {RolloutRecord{End: EndAborted, Ended: moment, By: "bob"}, running, Pause,
			"it has ended: it is aborted since 2026-11-23T00:00:00Z, by bob by bob aborted"},
		"one that another follows": {RolloutRecord{Ended: moment}, nil, Pause,
			"it has ended: it is  since 2026-11-23T00:00:00Z"},
	} {
		e, got := c.s.HandleCommand(moment, "ann", c.what, c.m, 8)
		if e != nil {
			got += fmt.Sprintf("%T", e)
		}
		if c.s.By != "" {
			got += " by " + c.s.By
		}
		if c.s.End != "" {
			got += " " + c.s.End
		}
		if c.s.End == EndAborted && e != nil {
			got += fmt.Sprintf(" %d", c.s.Barrier)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Of a rollout that another supersedes nothing is lost: the next one carries its revisions, its machine and its
// barrier.
func TestARolloutThatIsSupersededIsCarriedOn(t *testing.T) {
	t.Parallel()
	by := Cause{Number: 9, Author: "ann", Message: "more"}
	first, ended := Supersede(moment, nil, by, nil, nil)
	if ended || !slices.Equal(first.Revisions, []uint64{9}) || first.Author != "ann" ||
		first.Decisions[0].What != "revision 9 begins" {
		t.Errorf("the first is %+v, ended %v", first, ended)
	}
	before := &RolloutRecord{Revision: 5, Revisions: []uint64{4, 5}, By: "bob", Barrier: 3}
	m := rollout.FromMemory(rollout.Memory{Number: 2, Paused: true}, nil, nil)
	next, ended := Supersede(moment, before, by, []uint64{7, 9}, m)
	if !ended || before.End != EndSuperseded || !slices.Equal(next.Revisions, []uint64{4, 5, 7, 9}) || next.Barrier != 3 ||
		next.By != "bob" || next.Machine.Number != 2 || !next.Machine.Paused {
		t.Errorf("of one that goes on the next is %+v, ended %v", next, ended)
	}
	done := &RolloutRecord{Revision: 5, Revisions: []uint64{4, 5}, By: "bob", Barrier: 3, End: EndAborted}
	next, ended = Supersede(moment, done, by, []uint64{9}, nil)
	if ended || done.End != EndAborted || !slices.Equal(next.Revisions, []uint64{9}) || next.Barrier != 3 ||
		next.By != "" {
		t.Errorf("of one that has ended the next is %+v, ended %v", next, ended)
	}
}

func TestWhatTheMachineDecidesIsTold(t *testing.T) {
	t.Parallel()
	many := make([]string, maxNamed+3)
	for i := range many {
		many[i] = "n"
	}
	for name, c := range map[string]struct {
		by     rollout.Event
		effect rollout.Effect
		want   string
	}{
		"the first batch": {rollout.Start{}, rollout.Push{Batch: 1, Nodes: []string{"a", "b"}},
			"batch 1 goes out to a, b: it is the first"},
		"the next batch": {rollout.NodeConfirmed{}, rollout.Push{Batch: 2, Nodes: many}, "batch 2 goes out to n" +
			strings.Repeat(", n", maxNamed-1) + " and 3 more: all of the batch before have answered"},
		"after a pause": {rollout.Resume{}, rollout.Push{Batch: 3, Nodes: []string{"a"}},
			"batch 3 goes out to a: it was resumed"},
		"after a deadline": {rollout.Deadline{}, rollout.Push{Batch: 3, Nodes: []string{"a"}},
			"batch 3 goes out to a: the time of the batch before, or of the rest after it, is over"},
		"for a change": {rollout.Changed{}, rollout.Push{Batch: 3, Nodes: []string{"a"}},
			"batch 3 goes out to a: nodes want something else than before"},
		"one went offline": {rollout.NodeOffline{}, rollout.Delayed{Nodes: []string{"a"}},
			"a waits for a later batch: it went offline before it took the change"},
		"it halts":   {rollout.NodeFailed{}, rollout.Halted{Why: "a failed"}, "halted: a failed"},
		"it is done": {rollout.NodeConfirmed{}, rollout.Done{}, "done: every node has it"},
		"some are left": {rollout.NodeFailed{}, rollout.Done{Failed: []rollout.Unreachable{{Node: "a", Reason: "x"}}},
			"failed: 1 nodes do not have it"},
		"some never came": {rollout.NodeConfirmed{},
			rollout.Done{Unreachable: []rollout.Unreachable{{Node: "a", Reason: "x"}}},
			"done: 1 nodes do not have it"},
	} {
		var s RolloutRecord
		s.RecordEffect(moment, c.by, c.effect)
		if got := s.Decisions[0].What + ": " + s.Decisions[0].Why; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
