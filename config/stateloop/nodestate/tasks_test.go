package nodestate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
	"edgespan/config/stateloop/peer/task"
)

// What may be on the host goes once a config is known that says so, and not before.
func TestWhichTasksThereAre(t *testing.T) {
	executor := TaskConfig{Kind: peer.KindExecutor, Generation: 2}
	check := TaskConfig{Kind: peer.KindCheck, Generation: 2}
	gone := func(id string, attempts int, state stateloop.State) task.Status {
		return task.Status{ID: id, Target: stateloop.ToBeAbsent, State: state, Attempts: attempts}
	}
	for name, c := range map[string]struct {
		does func(s *TaskSet)
		want string // the tasks; and the generation up to which the host is swept, if it is
	}{
		"the host was not asked": {func(s *TaskSet) { s.RecordPublished(2, true) }, "; not swept"},
		"nothing is desired and nothing there": {func(s *TaskSet) {
			s.RecordPublished(2, true)
			s.RecordFound(nil)
		}, "; swept 2"},
		"no config is known that may remove things": {func(s *TaskSet) {
			s.RecordPublished(1, false)
			s.RecordFound([]string{"executor/old"})
		}, "; swept 1"},
		"one is desired, one is not": {func(s *TaskSet) {
			s.RecordFound([]string{"executor/old", "executor/a"})
			s.SetDesired("executor/a", executor)
			s.RecordPublished(2, true)
		}, "executor/a present 2, executor/old absent 0; not swept"},
		"one that was desired goes": {func(s *TaskSet) {
			s.RecordFound(nil)
			s.SetDesired("executor/a", executor)
			s.RecordPublished(2, true)
			s.RemoveDesired("executor/a")
			s.RecordPublished(3, true)
		}, "executor/a absent 0; not swept"},
		"a check leaves nothing behind": {func(s *TaskSet) {
			s.RecordFound(nil)
			s.SetDesired("check/a", check)
			s.RemoveDesired("check/a")
			s.RecordPublished(3, true)
		}, "; swept 3"},
		"what is gone is no task any more": {func(s *TaskSet) {
			s.RecordFound([]string{"executor/old"})
			s.RecordPublished(2, true)
			s.All()
			if !s.UpdateStatus(gone("executor/old", 1, stateloop.Absent)) {
				panic("it is not gone")
			}
		}, "; swept 2"},
	} {
		var s TaskSet
		c.does(&s)
		if got := spelled(&s); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func spelled(s *TaskSet) string {
	var words []string
	for _, x := range s.All() {
		words = append(words, fmt.Sprintf("%s %s %d", x.ID, x.Target, x.Version))
	}
	slices.Sort(words)
	text := strings.Join(words, ", ") + "; "
	if g, ok := s.SweptGeneration(); ok {
		return text + fmt.Sprintf("swept %d", g)
	}
	return text + "not swept"
}

func TestARemovalThatFailsWasTried(t *testing.T) {
	var s TaskSet
	s.RecordFound([]string{"executor/old"})
	s.RecordPublished(2, true)
	s.All()
	if _, ok := s.SweptGeneration(); ok {
		t.Error("swept before it was tried")
	}
	if s.UpdateStatus(task.Status{ID: "executor/old", Target: stateloop.ToBeAbsent, State: stateloop.Removing}) {
		t.Error("it counts as gone while it goes")
	}
	if _, ok := s.SweptGeneration(); ok {
		t.Error("swept while it goes")
	}
	s.UpdateStatus(task.Status{ID: "executor/old", Target: stateloop.ToBeAbsent, State: stateloop.RemovingFailed, Attempts: 1})
	if g, ok := s.SweptGeneration(); !ok || g != 2 {
		t.Errorf("swept %d, %v, want 2", g, ok)
	}
}
