package nodestate

import (
	"time"

	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
	"edgespan/config/stateloop/peer/task"
)

// TaskConfig is what is desired of one executor or check, by the id of its parameter.
type TaskConfig struct {
	Kind       string
	Executor   peer.ExecutorValue
	Check      peer.CheckValue
	Generation uint64 // the generation in which it last changed
}

// TasksOf are the executors and checks of a configuration, by id.
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

// How executors and checks are looked after.
const (
	executorEvery  = 10 * time.Second // its end is told at once; this is for what nobody tells
	executorSettle = time.Second      // a process that ends sooner was never there
	executorStable = time.Minute
	checkEvery     = 10 * time.Second
)

// TaskSet is which executors and checks a node is to have: those of its config, and of the others that may be on the
// host their absence, once a config is known that says so. The zero value knows neither config nor host.
type TaskSet struct {
	configs  map[string]TaskConfig
	known    map[string]bool // executors of which something may be on the host
	listed   bool            // the host was asked
	valid    bool            // a config is known that may remove things
	source   uint64          // its generation
	removals map[string]bool // that were not tried yet
}

// Found is what the host has of executors.
func (t *TaskSet) Found(ids []string) {
	t.listed = true
	for _, id := range ids {
		t.mayBeThere(id)
	}
}

func (t *TaskSet) mayBeThere(id string) {
	if t.known == nil {
		t.known = map[string]bool{}
	}
	t.known[id] = true
}

// Desire takes what is desired of a task.
func (t *TaskSet) Desire(id string, c TaskConfig) {
	if t.configs == nil {
		t.configs = map[string]TaskConfig{}
	}
	t.configs[id] = c
	if c.Kind == peer.KindExecutor {
		t.mayBeThere(id)
	}
}

// Drop takes a task away that the config has no more.
func (t *TaskSet) Drop(id string) { delete(t.configs, id) }

// Published takes the generation of a config, whose tasks have come, and whether it may remove things.
func (t *TaskSet) Published(generation uint64, removes bool) { t.source, t.valid = generation, removes }

// Config is what is desired of a task.
func (t *TaskSet) Config(id string) TaskConfig { return t.configs[id] }

// Ready says whether the host was asked: before, nothing is known of what is to go.
func (t *TaskSet) Ready() bool { return t.listed }

// All are the tasks as they are to be looked after from now on.
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

// Changed takes what has become of a task. One that is gone is not told of: its set is another from now on.
func (t *TaskSet) Changed(s task.Status) (gone bool) {
	if s.State == stateloop.Absent && s.Target == stateloop.ToBeAbsent {
		delete(t.known, s.ID)
		delete(t.removals, s.ID)
		return true
	}
	if t.removals[s.ID] && s.Attempts > 0 {
		delete(t.removals, s.ID) // it was tried
	}
	return false
}

// Swept is up to which config all that is to be absent is gone, or was tried.
func (t *TaskSet) Swept() (generation uint64, is bool) {
	return t.source, t.listed && len(t.removals) == 0
}
