package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The seed, "Staged Rollout": each sub-test is a row of docs/seeds.md.
func TestSeed_StagedRollout(t *testing.T) {
	top := sketch(6, ring4+" 1-4 4-5", "0 3", "")
	plan, faults := Plan(top, all(top), Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	t.Run("TCM-R1", func(t *testing.T) { // "roll out configuration changes that affect multiple nodes in batches"
		var out []string
		for _, b := range plan.Batches {
			out = append(out, b...)
		}
		slices.Sort(out)
		if len(plan.Batches) < 2 || !slices.Equal(out, all(top)) {
			t.Errorf("%s", said(plan))
		}
	})
	t.Run("TCM-R2", func(t *testing.T) { // "protects against network-wide service disruption and network isolation"
		for _, b := range plan.Batches {
			if slices.Contains(b, "n0") && slices.Contains(b, "n3") {
				t.Errorf("both points of presence are out at once: %s", said(plan))
			}
		}
		for _, w := range breaches(top, all(top), false, plan) {
			t.Error(w)
		}
		together := Result{Batches: [][]string{all(top)}}
		if len(breaches(top, all(top), false, together)) == 0 {
			t.Error("all at once breaks no law")
		}
	})
	t.Run("TCM-R4", func(t *testing.T) { // "but will delay the propagation of configuration changes"
		r := New(top, all(top), Settings{Confirm: time.Minute})
		pushed := tell(r.Step(Start{}))
		for i, n := range plan.Batches[0] {
			if strings.Contains(pushed, "push#2") || !strings.Contains(pushed, "push#1 ") && i == 0 {
				t.Fatalf("%s before %s has confirmed", pushed, n)
			}
			pushed = tell(r.Step(NodeConfirmed{n}))
		}
		if !strings.HasPrefix(pushed, "push#2 ") {
			t.Errorf("%s when the first batch has confirmed", pushed)
		}
	})
}
