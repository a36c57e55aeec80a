package nodestate

import (
	"time"

	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
	"edgespan/config/stateloop/peer/task"
)

// TaskConfig is the desired state of one executor or check.
type TaskConfig struct {
	Kind       string
	Executor   peer.ExecutorValue
	Check      peer.CheckValue
	Generation uint64 // the generation in which it last changed
}

// TasksOf returns the executors and checks of a configuration, by ID.
func TasksOf(c peer.Configuration) map[string]TaskConfig {
	out := map[string]TaskConfig{}
	for id, v := range c.Executors() {
		out[id] = TaskConfig{Kind: peer.KindExecutor, Executor: v}
	}
	for id, v := range c.Checks() {
		out[id] = TaskConfig{Kind: peer.KindCheck, Check: v}
	}
	return out
}

// Intervals of executors and checks.
const (
	executorEvery  = 10 * time.Second // only a fallback: the end of a process is reported at once
	executorSettle = time.Second      // a process that ends sooner counts as never started
	executorStable = time.Minute
	checkEvery     = 10 * time.Second
)

// TaskSet decides which executors and checks a node has: those of its config, and the removal of other executors that
// may be on the host, once the node has a config that may remove things. The zero value knows neither config nor host.
type TaskSet struct {
	configs  map[string]TaskConfig
	known    map[string]bool // executors that may have left something on the host
	listed   bool            // the host's executors are listed
	valid    bool            // a config is published that may remove things
	source   uint64          // its generation
	removals map[string]bool // removals that have not been tried yet
}

// RecordFound records the executors that the host has.
func (t *TaskSet) RecordFound(ids []string) {
	t.listed = true
	for _, id := range ids {
		t.notePossible(id)
	}
}

func (t *TaskSet) notePossible(id string) {
	if t.known == nil {
		t.known = map[string]bool{}
	}
	t.known[id] = true
}

// SetDesired sets the desired state of a task.
func (t *TaskSet) SetDesired(id string, c TaskConfig) {
	if t.configs == nil {
		t.configs = map[string]TaskConfig{}
	}
	t.configs[id] = c
	if c.Kind == peer.KindExecutor {
		t.notePossible(id)
	}
}

// RemoveDesired removes a task that the config no longer has.
func (t *TaskSet) RemoveDesired(id string) { delete(t.configs, id) }

// RecordPublished records the generation of a config, after its tasks, and whether it may remove things.
func (t *TaskSet) RecordPublished(generation uint64, removes bool) {
	t.source, t.valid = generation, removes
}

// Config returns the desired state of a task.
func (t *TaskSet) Config(id string) TaskConfig { return t.configs[id] }

// Ready reports whether the host's executors are listed; before that, the removals are unknown.
func (t *TaskSet) Ready() bool { return t.listed }

// All returns the tasks to run from now on.
func (t *TaskSet) All() []task.Task {
	var tasks []task.Task
	for id, c := range t.configs {
		x := task.Task{ID: id, Target: stateloop.ToBePresent, Version: c.Generation, Every: checkEvery, Watched: true}
		if c.Kind == peer.KindExecutor {
			x.Watched, x.Every = false, executorEvery
			if c.Executor.Restart != peer.RestartNever {
				x.Settle, x.Stable = executorSettle, executorStable
			}
		}
		tasks = append(tasks, x)
	}
	t.removals = map[string]bool{}
	for id := range t.known {
		if _, desired := t.configs[id]; !desired && t.valid {
			tasks = append(tasks, task.Task{ID: id, Target: stateloop.ToBeAbsent, Every: executorEvery})
			t.removals[id] = true
		}
	}
	return tasks
}

// UpdateStatus processes the status of a task. It returns true for a task that is removed, which leaves the set.
func (t *TaskSet) UpdateStatus(s task.Status) (gone bool) {
	if s.State == stateloop.Absent && s.Target == stateloop.ToBeAbsent {
		delete(t.known, s.ID)
		delete(t.removals, s.ID)
		return true
	}
	if t.removals[s.ID] && s.Attempts > 0 {
		delete(t.removals, s.ID) // tried
	}
	return false
}

// SweptGeneration returns the generation of the config and reports whether all tasks to remove are gone or were tried.
func (t *TaskSet) SweptGeneration() (generation uint64, ok bool) {
	return t.source, t.listed && len(t.removals) == 0
}
