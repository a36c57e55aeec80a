package agent

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf/commitconfirm"
)

// The power goes at every write boundary, before the write or after it, in whatever a node
// is doing: it always comes up with a valid config, with the one that it had or the one that
// it was given, and never for good with one that nobody confirmed.
func TestPowerCutsLeaveNoNodeWithoutAValidConfig(t *testing.T) {
	cuts := 10_000
	if testing.Short() {
		cuts = 500
	}
	injected, lost := 0, 0
	for seed := uint64(1); injected < cuts; seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := &world{rig: newRig(t), rand: rand.New(rand.NewPCG(seed, 7))}
			w.start()
			for range 250 {
				cut, without := w.once()
				injected += cut
				lost += without
				if t.Failed() {
					break
				}
			}
			w.stop()
			w.settle(2 * time.Minute)
			w.system.Shutdown()
		})
		if t.Failed() {
			t.Fatalf("seed %d, after %d cuts", seed, injected)
		}
	}
	t.Logf("%d power cuts, %d nodes without a valid config", injected, lost)
	if lost > 0 {
		t.Errorf("%d of %d power cuts left a node without a valid config", lost, injected)
	}
}

type world struct {
	*rig
	rand  *rand.Rand
	next  int
	acked atomic.Bool // what was applied
}

// once does something while the power goes, and lets the node come up again.
func (w *world) once() (cut, lost int) {
	before := w.host.published()
	w.disk.cut, w.disk.kept = 1+w.rand.IntN(9), w.rand.IntN(2) == 0
	w.next++
	w.acked.Store(false)
	text := fmt.Sprintf(`{"a":%d}`, w.next)
	if w.rand.IntN(4) == 0 {
		text = fmt.Sprintf(`{"a":%d,"uplink":"bad"}`, w.next)
	}
	within := w.act(text)
	for range within { // until the power goes, or all is done
		if w.off() {
			break
		}
		w.settle(time.Second)
	}
	stays := w.kept(text)
	if w.off() {
		cut = 1
	}
	w.stop()
	w.disk.dead, w.disk.cut, w.disk.off, w.disk.spare, w.disk.gone = false, 0, make(chan struct{}), nil, nil
	w.machine++
	seen := len(w.host.all)
	w.start()
	w.settle(time.Second)
	if got := w.host.all[seen:]; len(got) == 0 {
		w.Errorf("nothing is published after the power came back")
		return cut, 1
	}
	for _, got := range w.host.all[seen:] {
		if got != before && got != short(doc(w, text)) &&
			(!w.hasFile || got != "{"+strings.ReplaceAll(strings.TrimSpace(string(w.file)), " ", "")+"}") {
			w.Errorf("published is %s, it ran %s and was given %s", got, before, text)
			lost = 1
		}
	}
	if got := w.host.published(); stays != "" && got != stays {
		w.Errorf("%s was acknowledged, and %s runs", stays, got)
		lost = 1
	}
	w.validate(text)
	return cut, lost
}

// act has one of the things begun that write.
func (w *world) act(text string) (seconds int) {
	switch w.rand.IntN(4) {
	case 0:
		go func() {
			if w.apply(text) == nil { // it may be answered, or not
				w.acked.Store(true)
			}
		}()
		return 61
	case 1:
		if w.rand.IntN(2) == 0 {
			w.hasFile, w.file = true, []byte(fmt.Sprintf("a: %d\n", w.next))
			w.agent.Reload()
		}
		return 2
	case 2:
		w.connect()
		w.ctl.set(func(c *controller) { c.deaf = true })
		w.push(text)
		return 125
	default:
		w.connect()
		w.push(text)
		return 125
	}
}

// kept is what the node has to run after the power came back, "" where nobody can say.
func (w *world) kept(text string) string {
	switch {
	case w.acked.Load():
		return short(doc(w, text))
	case w.off() || w.status().Pending:
		return ""
	}
	return w.host.published()
}

func (w *world) off() bool {
	select {
	case <-w.disk.off:
		return true
	default:
		return false
	}
}

// validate waits for the end of what is pending: a config that broke the uplink is never
// confirmed, and nothing is pending for ever.
func (w *world) validate(text string) {
	w.settle(commitconfirm.DefaultConfirm + time.Minute)
	s := w.status()
	if s.Pending {
		w.Errorf("after its time %s is still pending: %+v", text, s)
	}
	if s.Source == commitconfirm.Push && w.host.last.Document["uplink"] == "bad" {
		w.Errorf("%s is confirmed", text)
	}
	if s.Echo.MD5 != config.MD5(w.host.last.Document) {
		w.Errorf("in force is %s, published %s", s.Echo.MD5, w.host.published())
	}
}
