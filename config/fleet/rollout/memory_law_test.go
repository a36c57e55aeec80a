package rollout

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edgespan/config/fleet/topology"
)

// kept is a rollout that was stored and read again.
func kept(t *rapid.T, r *Rollout, groups map[string]string) *Rollout {
	text, err := json.Marshal(r.Memory())
	if err != nil {
		t.Fatal(err)
	}
	var m Memory
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return FromMemory(m, r.topology, groups)
}

func anySettings(t *rapid.T) Settings {
	s := Settings{
		Options: Options{Limit: rapid.IntRange(0, 3).Draw(t, "limit"), First: rapid.IntRange(0, 2).Draw(t, "first"),
			AssumeAlive: rapid.Bool().Draw(t, "assume")},
		Confirm: time.Minute, Rest: time.Duration(rapid.IntRange(0, 1).Draw(t, "rest")) * time.Second,
		Failures:        rapid.IntRange(0, 2).Draw(t, "failures"),
		FailuresPercent: rapid.SampledFrom([]int{0, 30}).Draw(t, "failures in percent"),
		OfflinePercent:  rapid.SampledFrom([]int{0, 40}).Draw(t, "offline in percent"),
	}
	if rapid.Bool().Draw(t, "staged") {
		s.Stages = []int{rapid.IntRange(1, 40).Draw(t, "stage"), rapid.IntRange(40, 100).Draw(t, "stage")}
	}
	return s
}

// anyOf is an event of a rollout in a fleet of which a topology has some.
func anyOf(t *rapid.T, r *Rollout, names []string, top *topology.Topology) Event {
	name := rapid.SampledFrom(names).Draw(t, "node")
	switch rapid.IntRange(0, 19).Draw(t, "event") {
	case 18:
		return NodeAcked{name}
	case 0, 19:
		return NodeOffline{name}
	case 1:
		return NodeOnline{name}
	case 2:
		return NodeFailed{name, "x"}
	case 3:
		return NodeReverted{name}
	case 4, 5:
		return Deadline{r.timer}
	case 6:
		return Pause{}
	case 7, 8:
		return Resume{}
	case 9:
		return Abort{Revert: rapid.Bool().Draw(t, "revert")}
	case 10:
		return TopologyChanged{top}
	case 11:
		return Changed{Nodes: someOf(t, names)}
	case 12:
		return Changed{Nodes: someOf(t, names), Fresh: true}
	case 13:
		return NodeStuck{name, "held"}
	case 14:
		return NodeForgotten{name}
	}
	if out := r.Unanswered(); len(out) > 0 {
		name = out[0]
	}
	return NodeConfirmed{name}
}

// A rollout that is stored and read again after each step goes on as one that never stopped.
func TestPropertyARolloutGoesOnFromItsMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := anyTopology(t)
		names := append(all(top), "x1", "x2", "x3")
		groups := map[string]string{"x1": "b", "x2": "b"}
		s, pending := anySettings(t), someOf(t, names)
		r, again := New(top, pending, s), New(top, pending, s)
		for _, e := range []Event{Grouped{groups}, Start{}} {
			r.Step(e)
			again.Step(e)
		}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			e := anyOf(t, r, names, top)
			again = kept(t, again, groups)
			timer, runs := r.Timer()
			if other, too := again.Timer(); timer != other || runs != too {
				t.Fatalf("timer %v %t, from the memory %v %t", timer, runs, other, too)
			}
			if one, two := r.Step(e), again.Step(e); !reflect.DeepEqual(one, two) {
				t.Fatalf("%T %+v: %s, from the memory %s", e, e, tell(one), tell(two))
			}
			if one, two := r.Memory(), again.Memory(); !reflect.DeepEqual(one, two) {
				t.Fatalf("%T %+v: remembers %+v, from the memory %+v", e, e, one, two)
			}
		}
	})
}

// Whatever happens, changes on top of changes among it, each batch of nodes that the topology
// has a path to keeps the law: no site outside of it loses its last path.
func TestPropertyNoBatchOfARolloutCutsAnybodyOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := anyTopology(t)
		names := all(top)
		s := anySettings(t)
		r := New(top, someOf(t, names), s)
		site := map[string]string{}
		for _, n := range top.Nodes {
			site[n.Name] = n.Site
		}
		validate := func(e Event, effects []Effect, was []string) {
			for _, effect := range effects {
				p, ok := effect.(Push)
				if !ok {
					continue
				}
				w := waysOf(r.currentTopology(), s.AssumeAlive)
				reached := w.without()
				batch := map[string]bool{}
				for _, n := range p.Nodes {
					if reached[site[n]] {
						batch[site[n]] = true
					}
				}
				if wrong := w.breaches(batch, reached); wrong != nil && !slices.Equal(p.Nodes, was) {
					t.Fatalf("%T %+v: %v: %s", e, e, p.Nodes, strings.Join(wrong, ", "))
				}
				for _, n := range was {
					if slices.Contains(r.Unanswered(), n) && !slices.Contains(p.Nodes, n) && len(r.Unanswered()) > len(was) {
						t.Fatalf("%T: %v goes out while %v is", e, p.Nodes, was)
					}
				}
			}
		}
		validate(Start{}, r.Step(Start{}), nil)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			e := anyOf(t, r, names, top)
			if _, back := e.(Abort); back {
				continue // what is reverted is judged by TestPropertyARolloutHoldsItsBatchesAndEnds
			}
			was := r.Unanswered()
			effects := r.Step(e)
			if changed, ok := e.(Changed); ok && len(was) > 0 && len(r.Unanswered()) == len(was) {
				for _, effect := range effects {
					if p, push := effect.(Push); push {
						for _, n := range p.Nodes {
							if !slices.Contains(was, n) || !slices.Contains(changed.Nodes, n) {
								t.Fatalf("%s is pushed while %v are out", n, was)
							}
						}
					}
				}
				continue // of the batch that is out
			}
			validate(e, effects, was)
		}
	})
}

// With a budget of none, a change that no node can take reaches one batch and no more, with
// or without a topology, and the batch is the canary.
func TestPropertyABadConfigStopsWithinItsFirstBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := anyTopology(t)
		names := append(all(top), "x1", "x2", "x3")
		s := anySettings(t)
		s.Failures = 0
		if rapid.Bool().Draw(t, "none") {
			top, s.Stages = nil, []int{10, 50}
		}
		r := New(top, names, s)
		bad := map[string]bool{}
		batches := 0
		for pending := r.Step(Start{}); len(pending) > 0; {
			effects := pending
			pending = nil
			for _, effect := range effects {
				p, ok := effect.(Push)
				if !ok {
					continue
				}
				batches++
				for _, n := range p.Nodes {
					bad[n] = true
					pending = append(pending, r.Step(NodeFailed{n, "bad"})...)
				}
			}
		}
		if batches > 1 || len(bad) > 0 && !r.IsHalted() {
			t.Fatalf("%d batches, %v", batches, bad)
		}
		if s.First > 0 && len(bad) > s.First {
			t.Fatalf("%v are tried first, %d may", bad, s.First)
		}
	})
}

// ofGroups makes a fleet without a topology: so many nodes of each kind, a0 a1 … b0 b1 ….
func ofGroups(sizes map[string]int) (names []string, groups map[string]string) {
	groups = map[string]string{}
	for kind, n := range sizes {
		for i := range n {
			name := fmt.Sprintf("%s%02d", kind, i)
			names, groups[name] = append(names, name), kind
		}
	}
	slices.Sort(names)
	return names, groups
}

func TestAFleetWithoutATopologyGoesByGroupsAndPercentages(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Settings
		want string // how many of a and b in each batch
	}{
		{"a canary, then 10 %, 50 % and the rest of each kind", Settings{Options: Options{First: 1}, Stages: []int{10, 50}},
			"1a0b 1a1b 8a4b 10a5b"},
		{"no canary", Settings{Stages: []int{10, 50}}, "2a1b 8a4b 10a5b"},
		{"no stage but the last", Settings{Options: Options{First: 2}, Stages: []int{100}}, "1a1b 19a9b"},
		{"batches have a limit, and kinds take turns", Settings{Options: Options{First: 1, Limit: 6}, Stages: []int{50}},
			"1a0b 3a3b 4a2b 2a0b 3a3b 4a2b 3a0b"},
	} {
		names, groups := ofGroups(map[string]int{"a": 20, "b": 10})
		c.s.Confirm = time.Minute
		r := New(nil, names, c.s)
		r.Step(Grouped{groups})
		var got []string
		for effects := r.Step(Start{}); ; {
			p, ok := effects[0].(Push)
			if !ok {
				break
			}
			count := map[string]int{}
			for _, n := range p.Nodes {
				count[groups[n]]++
				effects = r.Step(NodeConfirmed{n})
			}
			got = append(got, fmt.Sprintf("%da%db", count["a"], count["b"]))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

// What of a fleet no topology places follows when all others had their turn.
func TestWhoIsInNoTopologyFollows(t *testing.T) {
	s := Settings{Options: Options{First: 1}, Confirm: 3 * time.Minute, Stages: []int{50}}
	ok := func(n string) Event { return NodeConfirmed{n} }
	run(t, "beside a topology", New(sketch(3, "0-1", "0", ""), strings.Fields("n0 n1 n2 x1 x2"), s), []step{
		{NodeOffline{"x2"}, ""},
		{Start{}, "push#1 n1, timer 3m0s"}, // it is behind n0, and goes before it as the canary
		{ok("n1"), "push#2 n0, timer 3m0s"},
		{ok("n0"), "push#3 n2, timer 3m0s"}, // it has no path that the topology knows, and is there
		{TopologyChanged{sketch(2, "0-1", "0", "")}, ""},
		{ok("n2"), "push#4 x1 x2, timer 3m0s"}, // what the topology's news say counts: x2 is back
		{NodeForgotten{"x1"}, ""},
		{ok("x2"), "done"},
	})
	run(t, "who is offline blocks nothing", New(nil, []string{"x1", "x2"}, s), []step{
		{NodeOffline{"x2"}, ""},
		{Start{}, "push#1 x1, timer 3m0s"},
		{ok("x1"), "done; x2 not: it is offline"},
		{NodeOnline{"x2"}, ""},
		{Changed{Nodes: []string{"x2"}}, "push#2 x2, timer 3m0s"},
	})
}

func TestChangesOnTopOfChanges(t *testing.T) {
	s := Settings{Options: Options{First: 1}, Confirm: 3 * time.Minute, Stages: []int{50}}
	ok := func(n string) Event { return NodeConfirmed{n} }
	names := strings.Fields("a b c d")
	fresh := func(names ...string) Event { return Changed{Nodes: names, Fresh: true} }
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"the batch that is out gets it at once, and the rest begins anew", []step{
			{Start{}, "push#1 a, timer 3m0s"},
			{ok("a"), "push#2 b, timer 3m0s"},
			{fresh("a", "b", "c"), "push#1 b, timer 3m0s"},
			{ok("b"), "push#2 a, timer 3m0s"},
			{ok("a"), "push#3 c d, timer 3m0s"},
			{ok("c"), ""},
			{ok("d"), "done"},
		}},
		{"a halt ends with another change, a pause doesn't", []step{
			{Start{}, "push#1 a, timer 3m0s"},
			{NodeFailed{"a", "no"}, "halted: 1 nodes failed, a the last of them: no: 0 may"},
			{Pause{}, ""},
			{fresh("a"), ""},
			{Resume{}, "push#1 a, timer 3m0s"},
			{NodeFailed{"a", "no"}, "halted: 1 nodes failed, a the last of them: no: 0 may"},
			{fresh("a", "b", "c", "d"), "push#1 a, timer 3m0s"},
		}},
		{"who comes late goes with a later batch", []step{
			{Start{}, "push#1 a, timer 3m0s"},
			{Changed{Nodes: []string{"e"}}, ""},
			{ok("a"), "push#2 b c, timer 3m0s"},
			{ok("b"), ""},
			{ok("c"), "push#3 d e, timer 3m0s"},
			{ok("d"), ""},
			{NodeStuck{"e", "held locally"}, "done; e not: held locally"},
			{Changed{Nodes: []string{"f"}}, "push#4 f, timer 3m0s"},
		}},
	} {
		run(t, c.name, New(nil, names, s), c.steps)
	}
}

// Who has answered is not of the batch that goes on with another change.
func TestTheBatchOfAnotherChangeIsWhoIsOut(t *testing.T) {
	r := New(nil, strings.Fields("a b c d"),
		Settings{Options: Options{First: 1}, Confirm: time.Minute, Stages: []int{100}})
	for _, e := range []Event{Start{}, NodeConfirmed{"a"}, NodeConfirmed{"b"},
		Changed{Nodes: strings.Fields("a b c d"), Fresh: true}} {
		r.Step(e)
	}
	if m := r.Memory(); !reflect.DeepEqual(m.Batch, []string{"c", "d"}) || !reflect.DeepEqual(m.Out, m.Batch) {
		t.Errorf("the batch is %v, out are %v", m.Batch, m.Out)
	}
	if got, want := r.Step(Abort{Revert: true}), (Revert{2, []string{"c", "d"}}); len(got) == 0 ||
		!reflect.DeepEqual(got[0], want) {
		t.Errorf("%v, want %v: nobody else has it", got, want)
	}
}

func TestProgressByBatch(t *testing.T) {
	r := New(nil, strings.Fields("a b c d e"),
		Settings{Options: Options{First: 1}, Confirm: time.Minute, Failures: 1, Stages: []int{80}})
	for _, e := range []Event{Start{}, NodeConfirmed{"a"}, NodeConfirmed{"b"}, NodeFailed{"c", "no"}} {
		r.Step(e)
	}
	want := []Progress{{Batch: 1, Nodes: 1, Confirmed: 1}, {Batch: 2, Nodes: 3, Confirmed: 1, Failed: 1, Out: 1}}
	if got := r.Memory().Progress(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	r.Step(Abort{Revert: true}) // the batch that was out goes first; a waits, and is of no batch meanwhile
	want = []Progress{{Batch: 3, Nodes: 3, Out: 3}}
	if got := r.Memory().Progress(); !reflect.DeepEqual(got, want) {
		t.Errorf("on the way back: %+v, want %+v", got, want)
	}
}
