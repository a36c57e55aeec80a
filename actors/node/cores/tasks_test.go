package cores

import (
	"bytes"
	"testing"
	"time"

	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer/task"
	"edgespan/pubsub/tape"
)

// memory is a disk for a recording.
type memory struct{ bytes.Buffer }

func (m *memory) Append(lines []byte) (bool, error) { m.Write(lines); return false, nil }
func (m *memory) Next() error                       { return nil }

// recorder returns a recorder, and what ends it.
func recorder(to *memory) (r *tape.Recorder, end func()) {
	r = tape.NewRecorder(Codec(), tape.Head{})
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(done, to, func(error) {})
	}()
	return r, func() {
		close(done)
		<-ended
	}
}

// The machine of tasks has each of them in several places.
func TestTasksReplay(t *testing.T) {
	var disk memory
	r, end := recorder(&disk)
	m, l := &task.Machine{}, r.Reel(Tasks, "")
	now := time.Now()
	var due []task.Do
	step := func(e task.Event) {
		due = append(due, tape.Step(l, m, e)...)
		m.Changed()
	}
	step(task.Desired{At: now, Tasks: []task.Task{
		{ID: "a", Target: stateloop.ToBePresent, Version: 1, Every: time.Second},
		{ID: "b", Target: stateloop.ToBePresent, Version: 1, Every: time.Second, Needs: []string{"a"}},
	}})
	for i := range 1200 {
		now = now.Add(time.Second)
		if len(due) == 0 {
			step(task.Tick{At: now})
			continue
		}
		x := due[0]
		due = due[1:]
		found := task.Present
		if i%3 == 0 {
			found = task.Absent
		}
		step(task.Answered{At: now, ID: x.ID, Seq: x.Seq, Found: found})
	}
	end()
	p := tape.NewPlayer(Codec(), Kinds())
	steps := 0
	if _, err := p.Play(&disk, func(m tape.Moment) bool {
		if m.Core != "" {
			steps++
		}
		if m.Differs || m.State != "" || m.Skip != "" {
			t.Errorf("step %d: %s%s%s", m.N, p.Difference(m), m.State, m.Skip)
		}
		return steps < 1000
	}); err != nil || steps < 1000 {
		t.Errorf("%d steps, %v", steps, err)
	}
}
