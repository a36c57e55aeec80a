package rollout

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// crowd is a rollout to nodes a0 … that no topology has: a canary, and batches of so many.
func crowd(size, limit int, s Settings) *Rollout {
	s.Options, s.Confirm, s.Stages = Options{First: 1, Limit: limit}, 3*time.Minute, []int{100}
	var names []string
	for i := range size {
		names = append(names, fmt.Sprintf("a%02d", i))
	}
	return New(nil, names, s)
}

// told are the effects of an event without pushes, timers and the end.
func told(effects []Effect) string {
	var out []string
	for _, e := range effects {
		switch e.(type) {
		case Delayed, Halted:
			out = append(out, tell([]Effect{e}))
		}
	}
	return strings.Join(out, ", ")
}

// answer has all that are out confirm, but for some.
func answer(r *Rollout, but ...string) (said string) {
	for _, name := range r.Unanswered() {
		if !strings.Contains(strings.Join(but, " "), name) {
			said += told(r.Step(NodeConfirmed{name}))
		}
	}
	return said
}

// The percentage is of the nodes that were tried so far: it forgives no canary and no small batch.
func TestHowManyMayFail(t *testing.T) {
	for _, c := range []struct {
		name              string
		failures, hundred int
		batch             int // in which nodes fail
		fail              int // of them
		halts             bool
	}{
		{"a canary that fails is all that was tried", 0, 50, 1, 1, true},
		{"one of a canary and 20 is within 5 %", 0, 5, 2, 1, false},
		{"two of them are more", 0, 5, 2, 2, true},
		{"two of 41 are within 5 %", 0, 5, 3, 2, false},
		{"the larger of both counts: the number", 2, 5, 2, 2, false},
		{"and no more than it", 2, 5, 2, 3, true},
		{"without either none may", 0, 0, 3, 1, true},
	} {
		r := crowd(60, 20, Settings{Failures: c.failures, FailuresPercent: c.hundred})
		r.Step(Start{})
		for r.number < c.batch {
			answer(r)
		}
		said := ""
		for _, name := range r.Unanswered()[:c.fail] {
			said += told(r.Step(NodeFailed{name, "no room"}))
		}
		if halts := strings.Contains(said, "halted"); halts != c.halts || r.IsHalted() != c.halts {
			t.Errorf("%s: %q, halted %v", c.name, said, r.IsHalted())
		}
	}
}

// Who is offline at the deadline of its batch waits for a later one only where the change is hardly
// the reason.
func TestWhoIsDelayedAndWhoHasFailed(t *testing.T) {
	const silent, delayed = "it did not answer within 3m0s", "it went offline before it took the change"
	const cutOff = "it took the change, went offline and did not return within 3m0s"
	two := Settings{OfflinePercent: 10} // of the 20 of a batch
	for _, c := range []struct {
		name   string
		s      Settings
		batch  int
		before string // events of a01 in it: gone, back, took
		others int    // that go offline beside it
		state  State
		why    string
	}{
		{"it went offline and never took it", two, 2, "gone", 0, Waiting, delayed},
		{"the same of as many as may", two, 2, "gone", 1, Waiting, delayed},
		{"of one more it is the change that cuts them off", two, 2, "gone", 2, Failed, silent},
		{"a few of all that were tried are too many of one batch", two, 3, "gone", 2, Failed, silent},
		{"one always may", Settings{OfflinePercent: 1}, 2, "gone", 0, Waiting, delayed},
		{"the change cut it off: it had taken it, and never came back", two, 2, "took gone", 0, Failed, cutOff},
		{"it came back and does not answer", two, 2, "gone back", 0, Failed, silent},
		{"it took it, and is there and silent", two, 2, "took", 0, Failed, silent},
		{"a canary is there to find out", two, 1, "gone", 0, Failed, silent},
		{"the setting is off", Settings{}, 2, "gone", 0, Failed, silent},
	} {
		c.s.Failures = 100
		r := crowd(41, 20, c.s)
		r.Step(Start{})
		for r.number < c.batch {
			answer(r)
		}
		out := r.Unanswered()
		it := out[0]
		for _, event := range strings.Fields(c.before) {
			r.Step(map[string]Event{"gone": NodeOffline{it}, "back": NodeOnline{it}, "took": NodeAcked{it}}[event])
		}
		for _, name := range out[1 : 1+c.others] {
			r.Step(NodeOffline{name})
		}
		answer(r, out[:1+c.others]...)
		timer, _ := r.Timer()
		said := told(r.Step(Deadline{timer.Timer}))
		if state, why := r.Node(it); state != c.state || why != c.why {
			t.Errorf("%s: it is %s: %s, want %s: %s", c.name, state, why, c.state, c.why)
		}
		want := ""
		if c.state == Waiting {
			want = fmt.Sprintf("delayed#%d %s", c.batch, strings.Join(out[:1+c.others], " "))
		}
		if said != want || r.Delayed(it) != (c.state == Waiting) || r.Delayed("a99") {
			t.Errorf("%s: %q, want %q", c.name, said, want)
		}
	}
}

// late is a rollout with batches of five of which one node, of the second one, is delayed.
func late(t *testing.T, s Settings) (r *Rollout, it string) {
	t.Helper()
	s.OfflinePercent = 20
	r = crowd(16, 5, s)
	r.Step(Start{})
	answer(r)
	it = r.Unanswered()[0]
	r.Step(NodeOffline{it})
	answer(r, it)
	timer, _ := r.Timer()
	if said := told(r.Step(Deadline{timer.Timer})); said != "delayed#2 "+it || r.number != 3 {
		t.Fatalf("%q, batch %d", said, r.number)
	}
	return r, it
}

func TestWhatBecomesOfWhoWasDelayed(t *testing.T) {
	for _, c := range []struct {
		name  string
		after func(r *Rollout, it string) string
		want  string
		state State
	}{
		{"back, it goes with the next batch", func(r *Rollout, it string) string {
			r.Step(NodeOnline{it})
			return answer(r) + fmt.Sprint(len(r.Unanswered()), r.Unanswered()[0] == it)
		}, "5 true", Pushed},
		{"away, it is named at the end, and nothing halts", func(r *Rollout, it string) string {
			answer(r)
			return answer(r) + fmt.Sprint(r.Ended(), r.IsHalted())
		}, "true false", Waiting},
		{"it undid the change that it had taken after all: that is a failure", func(r *Rollout, it string) string {
			said := told(r.Step(NodeFailed{it, "nobody confirmed it"}))
			r.Step(NodeOnline{it})
			r.Step(Resume{})
			return said + answer(r) + answer(r) // and it has no other turn
		}, "halted: 1 nodes failed, IT the last of them: nobody confirmed it: 0 may", Failed},
		{"it had taken the change, as is heard late", func(r *Rollout, it string) string {
			return told(r.Step(NodeAcked{it}))
		}, "halted: 1 nodes failed, IT the last of them: it went offline after it had taken the change: 0 may", Failed},
		{"it has the change after all", func(r *Rollout, it string) string {
			return told(r.Step(NodeConfirmed{it}))
		}, "", Confirmed},
		{"it goes offline once more in its next batch", func(r *Rollout, it string) string {
			r.Step(NodeOnline{it})
			answer(r)
			r.Step(NodeOffline{it})
			answer(r, it)
			timer, _ := r.Timer()
			return told(r.Step(Deadline{timer.Timer}))
		}, "halted: 1 nodes failed, IT the last of them: it did not answer within 3m0s: 0 may", Failed},
		{"a second one of the next batch is too many of all", func(r *Rollout, it string) string {
			r.o.OfflinePercent = 9 // 1 of 5, and 1 of 11 and 16
			second := r.Unanswered()[1]
			r.Step(NodeOffline{second})
			answer(r, second)
			timer, _ := r.Timer()
			return strings.ReplaceAll(told(r.Step(Deadline{timer.Timer})), second, "SECOND")
		}, "halted: 1 nodes failed, SECOND the last of them: it did not answer within 3m0s: 0 may", Waiting},
	} {
		r, it := late(t, Settings{})
		if got := strings.ReplaceAll(c.after(r, it), it, "IT"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if state, _ := r.Node(it); state != c.state {
			t.Errorf("%s: it is %s, want %s", c.name, state, c.state)
		}
	}
}

// After the end nothing that is heard of who was delayed halts anything.
func TestTheEndOfARolloutIsNotHalted(t *testing.T) {
	r, it := late(t, Settings{})
	answer(r)
	answer(r)
	if said := r.Step(NodeAcked{it}); said != nil || r.IsHalted() || !r.Ended() {
		t.Errorf("%v, halted %v", said, r.IsHalted())
	}
}

// A node of the batch that is out and is pushed another change has not taken that one yet.
func TestWhatWasTakenWasTheChangeBefore(t *testing.T) {
	r := crowd(16, 5, Settings{OfflinePercent: 20})
	r.Step(Start{})
	answer(r)
	it := r.Unanswered()[0]
	r.Step(NodeAcked{it})
	r.Step(Changed{Nodes: []string{it}})
	r.Step(NodeOffline{it})
	answer(r, it)
	timer, _ := r.Timer()
	if said := told(r.Step(Deadline{timer.Timer})); said != "delayed#2 "+it {
		t.Errorf("%q", said)
	}
}

// A whole batch of one that is delayed is followed by the next one.
func TestABatchOfOneIsDelayed(t *testing.T) {
	r := crowd(4, 1, Settings{OfflinePercent: 5})
	r.Step(Start{})
	answer(r)
	r.Step(NodeOffline{"a01"})
	timer, _ := r.Timer()
	if got, want := tell(r.Step(Deadline{timer.Timer})), "delayed#2 a01, push#3 a02, timer 3m0s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What is known of who was delayed survives the leader, and what an older one stored is read: its
// first batch is the canary.
func TestWhoWasDelayedIsKept(t *testing.T) {
	r, it := late(t, Settings{FailuresPercent: 2})
	r.Step(NodeAcked{r.Unanswered()[0]})
	text, err := json.Marshal(r.Memory())
	if err != nil {
		t.Fatal(err)
	}
	var m Memory
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if next := FromMemory(m, nil, nil); !next.Delayed(it) || !reflect.DeepEqual(next.Memory(), r.Memory()) {
		t.Errorf("%+v\nwant %+v", next.Memory(), r.Memory())
	}
	old := Memory{Settings: Settings{Confirm: time.Minute, Stages: []int{100}, OfflinePercent: 50}, Phase: Forward,
		Number: 1, Timer: 1,
		Batch: []string{"a"}, Out: []string{"a"}, Gone: []string{"a"},
		Nodes: []Group{{State: Pushed, Batch: 1, Pushed: true, Names: []string{"a"}}}}
	if got, want := told(FromMemory(old, nil, nil).Step(Deadline{1})),
		"halted: 1 nodes failed, a the last of them: it did not answer within 1m0s: 0 may"; got != want {
		t.Errorf("a canary of an older release: %q, want %q", got, want)
	}
}
