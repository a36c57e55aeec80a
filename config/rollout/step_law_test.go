package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edgespan/config/topology"
)

// watch judges a rollout by what goes in and out.
type watch struct {
	r            *Rollout
	pending      []string
	out          map[string]bool // sent and not answered for
	batch        []string
	pushed, back map[string]bool
	timer        int
	held, done   bool
	reverting    bool
	failed       map[string]bool // of those sent, since the last Resume
	bad          map[string]bool // the same since the start
	budget       int
	wrong        []string
}

func (w *watch) complain(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// answer notes that a node of the batch that is out has answered.
func (w *watch) answer(name string, failed bool) {
	if failed && w.pushed[name] && !w.bad[name] {
		w.failed[name], w.bad[name] = true, true
	}
	delete(w.out, name)
}

func (w *watch) before(e Event) {
	reverting := w.reverting
	switch e := e.(type) {
	case NodeConfirmed:
		if !reverting {
			delete(w.failed, e.Node)
			delete(w.bad, e.Node)
			w.answer(e.Node, false)
		}
	case NodeReverted:
		w.answer(e.Node, !reverting)
	case NodeFailed:
		w.answer(e.Node, !reverting)
	case Deadline:
		if e.Timer == w.timer {
			for name := range w.out {
				w.answer(name, !reverting)
			}
		}
	case Pause:
		w.held = true
	case Resume:
		w.held = false
		clear(w.failed)
	case Abort:
		if e.Revert && !reverting { // the batch is turned round as a whole
			w.reverting, w.held = true, false
			clear(w.out)
			clear(w.failed)
		}
	case TopologyChanged:
		for name := range w.out {
			if _, there := e.Topology.Node(name); !there {
				delete(w.out, name)
			}
		}
	}
}

func (w *watch) step(e Event) {
	if !w.done {
		w.before(e)
	} else if effects := w.r.Step(e); effects != nil {
		w.complain("after the end: %s", tell(effects))
		return
	}
	if len(w.failed) > w.budget {
		w.held = true
	}
	for _, e := range w.r.Step(e) {
		switch e := e.(type) {
		case Push:
			w.sent(e.Nodes, w.pushed, false)
		case Revert:
			w.sent(e.Nodes, w.back, true)
		case SetTimer:
			w.timer = e.Timer
		case Done:
			w.done = true
		}
	}
}

func (w *watch) sent(names []string, before map[string]bool, back bool) {
	if len(w.out) > 0 {
		w.complain("two batches out: %v and %v", w.out, names)
	}
	if w.held {
		w.complain("%v sent while held", names)
	}
	for _, name := range names {
		switch {
		case before[name]:
			w.complain("%s is sent twice", name)
		case back && !w.pushed[name]:
			w.complain("%s is reverted and was never pushed", name)
		case !slices.Contains(w.pending, name):
			w.complain("%s is not pending", name)
		}
		before[name], w.out[name] = true, true
	}
	w.batch = names
}

func anyEvent(t *rapid.T, w *watch, top *topology.Topology) Event {
	name := rapid.SampledFrom(append(all(top), w.batch...)).Draw(t, "node")
	switch rapid.IntRange(0, 15).Draw(t, "event") {
	case 0:
		return NodeGone{name}
	case 1:
		return NodeBack{name}
	case 2:
		return NodeFailed{name, "x"}
	case 3:
		return NodeReverted{name}
	case 4:
		return Deadline{rapid.IntRange(0, w.timer).Draw(t, "timer")}
	case 5:
		return Deadline{w.timer}
	case 6:
		return Pause{}
	case 7, 8:
		return Resume{}
	case 9:
		changed := *top
		changed.Nodes = slices.Clone(top.Nodes)
		i := rapid.IntRange(0, len(changed.Nodes)-1).Draw(t, "changed")
		if changed.Nodes[i].Status = topology.Offline; rapid.Bool().Draw(t, "gone") {
			changed.Nodes = slices.Delete(changed.Nodes, i, i+1)
		}
		return TopologyChanged{&changed}
	case 10:
		return Abort{Revert: rapid.IntRange(0, 9).Draw(t, "really") < 9}
	}
	return NodeConfirmed{name}
}

// Over any events: one batch out at a time, nobody pushed or reverted twice, nothing sent
// while paused or halted, and with the timers' help alone it comes to an end.
func TestPropertyARolloutHoldsItsBatchesAndEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := anyTopology(t)
		w := &watch{pending: someOf(t, all(top)), out: map[string]bool{}, pushed: map[string]bool{}, back: map[string]bool{}, failed: map[string]bool{}, bad: map[string]bool{}}
		s := Settings{
			Options: Options{Limit: rapid.IntRange(0, 3).Draw(t, "limit"), First: rapid.IntRange(0, 2).Draw(t, "first")},
			Confirm: time.Minute, Rest: time.Duration(rapid.IntRange(0, 1).Draw(t, "rest")) * time.Second,
			Failures: rapid.IntRange(0, 3).Draw(t, "failures"),
		}
		w.budget = s.Failures
		w.r = New(top, w.pending, s)
		w.step(Start{})
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			w.step(anyEvent(t, w, top))
		}
		for range 4 * (len(top.Nodes) + 1) {
			if w.step(Deadline{w.timer}); !w.done {
				w.step(Resume{})
			}
		}
		if !w.done {
			w.complain("it never ends")
		}
		if w.wrong != nil {
			t.Fatal(strings.Join(w.wrong, "\n"))
		}
	})
}
