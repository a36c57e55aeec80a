package staged

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"edgespan/config/fleet/rollout"
)

func TestARolloutIsCounted(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := RolloutRecord{Machine: rollout.Memory{Out: []string{"e"}, Nodes: []rollout.Group{
		{State: rollout.Confirmed, Batch: 1, Names: []string{"a", "b"}},
		{State: rollout.Confirmed, Batch: 2, Names: []string{"c"}}, {State: rollout.Failed, Batch: 2, Names: []string{"d"}},
		{State: rollout.Pushed, Batch: 3, Names: []string{"e"}}, {State: rollout.Failed, Batch: 3, Names: []string{"f"}},
		{State: rollout.Waiting, Todo: true, Names: []string{"g", "h", "i"}},
		{State: rollout.Waiting, Batch: 2, Todo: true, Delayed: true, Names: []string{"j"}},
	}}}
	r.RecordDecision(at, "", "batch 1", "")
	r.RecordDecision(at.Add(time.Second), "", "batch 2", "")
	got := r.Summary()
	want := Summary{State: "running", Decided: at.Add(time.Second), Batches: map[string]int{"done": 1, "failed": 1, "out": 1},
		Nodes: map[rollout.State]int{"confirmed": 3, "failed": 2, "pushed": 1, "stuck": 0, "waiting": 4}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := (&RolloutRecord{}).Summary(); !got.Decided.IsZero() || len(got.Nodes) != 5 || len(got.Batches) != 3 {
		t.Errorf("of nothing: %+v", got)
	}
}

// Each state that a rollout may have is listed, so that a metric has it before it comes.
func TestEveryStateOfARolloutIsListed(t *testing.T) {
	states := map[string]bool{(&RolloutRecord{Machine: rollout.Memory{Paused: true}}).State(): true,
		(&RolloutRecord{Machine: rollout.Memory{Halted: true}}).State(): true, (&RolloutRecord{}).State(): true}
	for _, end := range []string{EndDone, EndFailed, EndAborted, EndSuperseded, EndReleased} {
		states[(&RolloutRecord{End: end}).State()] = true
	}
	if listed := slices.Sorted(slices.Values(States[:])); !slices.Equal(listed, slices.Sorted(maps.Keys(states))) {
		t.Errorf("States has %q", listed)
	}
}
