package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edgespan/config/fleet/topology"
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
	waits, twice map[string]bool // of those pushed, who is delayed, or was
	gone, took   map[string]bool
	batches      int
	s            Settings
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
	delete(w.waits, name)
}

// delayed judges who waits for a later batch, by the words of the rule.
func (w *watch) delayed(names []string) {
	for _, name := range names {
		switch {
		case w.batches < 2 || w.reverting:
			w.complain("%s is delayed in batch %d, reverting %v", name, w.batches, w.reverting)
		case !w.out[name] || !w.gone[name] || w.took[name] || w.twice[name]:
			w.complain("%s is delayed: out %v, gone %v, took %v, before %v", name, w.out[name], w.gone[name], w.took[name],
				w.twice[name])
		}
		delete(w.out, name)
		w.waits[name], w.twice[name] = true, true
	}
	if n := len(names); n > max(1, len(w.batch)*w.s.OfflinePercent/100) ||
		len(w.waits) > max(1, len(w.pushed)*w.s.OfflinePercent/100) || w.s.OfflinePercent == 0 {
		w.complain("%d of %d are delayed, %d of %d in all", n, len(w.batch), len(w.waits), len(w.pushed))
	}
}

func (w *watch) before(e Event) {
	reverting := w.reverting
	switch e := e.(type) {
	case NodeConfirmed:
		if !reverting {
			delete(w.failed, e.Node)
			delete(w.bad, e.Node)
			delete(w.gone, e.Node)
			w.answer(e.Node, false)
		}
	case NodeReverted:
		w.answer(e.Node, !reverting)
	case NodeFailed:
		w.answer(e.Node, !reverting)
	case Deadline:
		if e.Timer == w.timer {
			for name := range w.out {
				w.gone[name] = true
				w.answer(name, !reverting)
			}
		}
	case NodeAcked:
		if w.took[e.Node] = true; w.waits[e.Node] && !reverting {
			w.answer(e.Node, true)
		}
	case NodeOffline:
		w.gone[e.Node] = true
	case NodeOnline:
		delete(w.gone, e.Node)
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
			clear(w.waits)
		}
	case TopologyChanged:
		clear(w.gone)
		for name := range w.out {
			if _, there := e.Topology.Node(name); !there {
				delete(w.out, name)
			}
		}
	}
}

func (w *watch) step(e Event) {
	effects := w.r.Step(e)
	if w.done {
		if effects != nil {
			w.complain("after the end: %s", tell(effects))
		}
		return
	}
	for _, e := range effects {
		if e, ok := e.(Delayed); ok {
			w.delayed(e.Nodes)
		}
	}
	w.before(e)
	if len(w.failed) > max(w.s.Failures, len(w.pushed)*w.s.FailuresPercent/100) {
		w.held = true
	}
	for _, e := range effects {
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
		case before[name] && !w.waits[name]:
			w.complain("%s is sent twice", name)
		case back && !w.pushed[name]:
			w.complain("%s is reverted and was never pushed", name)
		case !slices.Contains(w.pending, name):
			w.complain("%s is not pending", name)
		}
		before[name], w.out[name] = true, true
		delete(w.waits, name)
		delete(w.took, name)
	}
	w.batch = names
	w.batches++
}

func anyEvent(t *rapid.T, w *watch, top *topology.Topology) Event {
	name := rapid.SampledFrom(append(all(top), w.batch...)).Draw(t, "node")
	switch rapid.IntRange(0, 18).Draw(t, "event") {
	case 0, 16:
		return NodeOffline{name}
	case 17:
		return NodeAcked{name}
	case 1:
		return NodeOnline{name}
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
		w := &watch{pending: someOf(t, all(top)), out: map[string]bool{}, pushed: map[string]bool{}, back: map[string]bool{},
			failed: map[string]bool{}, bad: map[string]bool{},
			waits: map[string]bool{}, twice: map[string]bool{}, gone: map[string]bool{}, took: map[string]bool{}}
		s := Settings{
			Options: Options{Limit: rapid.IntRange(0, 3).Draw(t, "limit"), First: rapid.IntRange(0, 2).Draw(t, "first")},
			Confirm: time.Minute, Rest: time.Duration(rapid.IntRange(0, 1).Draw(t, "rest")) * time.Second,
			Failures:        rapid.IntRange(0, 3).Draw(t, "failures"),
			FailuresPercent: rapid.SampledFrom([]int{0, 20, 50}).Draw(t, "failures in percent"),
			OfflinePercent:  rapid.SampledFrom([]int{0, 5, 50}).Draw(t, "offline in percent"),
		}
		w.s = s
		w.r = New(top, w.pending, s)
		w.step(Start{})
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			w.step(anyEvent(t, w, top))
		}
		for range 8 * (len(top.Nodes) + 1) {
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
