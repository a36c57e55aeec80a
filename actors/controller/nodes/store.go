package nodes

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// Purposes of the saver's entries.
const (
	savedRead = iota
	savedMemory
	savedCount
	savedOwner
	savedGone
	savedShown
	savedStanding
	savedUnderlay
	savedNothing
)

// unstored is what waits for the store or is in flight.
type unstored struct {
	todo    []todo
	saving  []byte             // the memory in flight
	memory  kv.Revision        // that wrote the memory last
	other   *kv.Entry          // another replica's write of it meanwhile
	failed  [savedNothing]bool // writes that failed
	waiting bool               // a retry is scheduled
	holding bool               // effects must wait
}

// generations is the node's desired config, whose generation is stored first.
type generations struct {
	want                 Desired  // as the machine has it
	next                 *Desired // whose generation is being stored
	counting, superseded bool
	count                kv.Revision // that wrote the generation last
}

// setDesired handles a desired config. Its generation is stored before the machine gets it; a newer config replaces one
// whose generation is being stored.
func (n *node) setDesired(w Desired) {
	n.next = &w
	n.superseded = n.counting
	if w.Stored.ModRevision > n.count {
		n.count = w.Stored.ModRevision
	}
	n.counts()
}

func (n *node) counts() {
	w := n.next
	if n.counting || w == nil {
		return
	}
	var stored fleet.Counted
	if w.Stored.Exists() && json.Unmarshal(w.Stored.Value, &stored) != nil {
		stored = fleet.Counted{}
	}
	if w.Fault != "" || w.Stored.ModRevision == n.count && stored == w.Counted || n.want.Counted == w.Counted &&
		n.want.Fault == "" {
		n.counted()
		return
	}
	compare := kv.At(history.GenerationKey(n.id), n.count)
	n.counting = true
	n.d.Saver.Add(storage.Save{Op: kv.Put(compare.Key, storage.Encode(w.Counted)), Compare: &compare, To: n.self,
		What: savedCount, Of: &n.handle.spends})
}

// counted steps the machine with the config whose generation is stored.
func (n *node) counted() {
	n.want, n.next = *n.next, nil
	n.want.Stored = kv.Entry{}
	n.step(n.want.Desired)
	n.underlay()
	n.compareAgain()
}

// countSaved handles the result of storing a generation.
func (n *node) countSaved(m storage.Saved) {
	n.counting = false
	own := n.next != nil && m.Now.Exists() && bytes.Equal(m.Now.Value, storage.Encode(n.next.Counted))
	switch {
	case m.Err != nil:
		n.d.Log.Warn("number a generation", zap.String("node", n.id), zap.Error(m.Err))
		n.later(savedCount)
	case m.Done && n.next != nil && !n.superseded:
		n.count = m.Rev
		n.counted()
	case m.Done:
		n.count, n.superseded = m.Rev, false
		n.counts()
	case own: // stored, but the answer was lost
		n.count = m.Now.ModRevision
		n.counted()
	default:
		n.next, n.superseded = nil, false
		n.count = m.Now.ModRevision
		n.d.Tell(Recount{n.id, m.Now})
	}
}

// saved handles a result of the saver.
func (n *node) saved(m storage.Saved) {
	switch m.What {
	case savedRead:
		if n.machine == nil {
			n.wake(m)
		}
	case savedMemory:
		n.handleMemorySaved(m)
	case savedCount:
		n.countSaved(m)
	case savedOwner:
		n.ownerSaved(m)
	case savedShown:
		n.shownSaved(m)
	case savedGone:
		n.gone(m)
	case savedStanding:
		n.handleStandingSaved(m)
	case savedUnderlay:
		n.underlaySaved(m)
	}
}

// save stores a memory. The result identifies its writer by the value.
func (n *node) save(m fleet.Memory) {
	n.saving = storage.Encode(m)
	compare := kv.At(history.PushKey(n.id), n.memory)
	n.d.Saver.Add(storage.Save{Op: kv.Put(compare.Key, n.saving), Compare: &compare, To: n.self, What: savedMemory,
		Of: &n.handle.spends})
}

// handleMemorySaved continues with the effects that waited for the memory. If another replica wrote one meanwhile,
// both are merged, and a push that the other one knows, or whose number it has, is dropped.
func (n *node) handleMemorySaved(m storage.Saved) {
	text, other := n.saving, n.other
	n.saving, n.other = nil, nil
	switch {
	case errors.Is(m.Err, kv.ErrTooLarge) && n.shrinkMemory():
	case m.Err != nil:
		n.logAt(zap.WarnLevel, "store the state of a node", zap.Error(m.Err))
		n.saving, n.other = text, other // later retries it
		n.later(savedMemory)
		return
	case m.Done:
		n.memory = m.Rev
	case bytes.Equal(m.Now.Value, text): // stored, but the answer was lost
		n.memory = m.Now.ModRevision
	default:
		n.recall(m.Now)
	}
	if other != nil {
		n.remembered(*other)
	}
	n.runEffects()
}

// shrinkMemory replaces a memory that is too large for the store by a smaller one, and reports whether that was
// possible.
func (n *node) shrinkMemory() bool {
	waiting := n.todo
	n.todo, n.holding = nil, true
	n.step(fleet.TooLarge{})
	n.holding = false
	lighter := slices.ContainsFunc(n.todo, func(t todo) bool { _, is := t.effect.(fleet.Save); return is })
	for _, t := range waiting {
		if _, is := t.effect.(fleet.Save); !is || !lighter {
			n.todo = append(n.todo, t)
		}
	}
	return lighter
}

// recall merges the memory that another replica wrote.
func (n *node) recall(e kv.Entry) {
	theirs, err := n.parse(e)
	n.memory = e.ModRevision
	if err != nil {
		n.todo = slices.DeleteFunc(n.todo, func(t todo) bool { // nothing is sent that is not stored
			switch t.effect.(type) {
			case fleet.Save, fleet.Push, ack:
				return true
			}
			return false
		})
		n.step(fleet.Unread{Why: err.Error()})
		return
	}
	waiting := n.todo
	n.todo = nil
	n.holding = true
	n.step(fleet.Recalled{Memory: theirs})
	n.holding = false
	for _, t := range waiting {
		if p, is := t.effect.(fleet.Push); is && p.Whole && p.Attempt <= theirs.Push.Number {
			continue
		}
		if _, is := t.effect.(fleet.Save); is {
			continue // the merged memory includes it
		}
		n.todo = append(n.todo, t)
	}
}

// remembered handles another replica's write of the memory.
func (n *node) remembered(e kv.Entry) {
	switch {
	case n.saving != nil:
		if n.other == nil || n.other.ModRevision < e.ModRevision {
			n.other = &e
		}
	case e.ModRevision > n.memory:
		n.recall(e)
		n.runEffects()
	}
}

// later schedules a retry of a failed write.
func (n *node) later(what int) {
	n.failed[what] = true
	if n.waiting {
		return
	}
	n.waiting = true
	self := n.self
	n.d.After(storage.StoreBackoff, func() { n.d.Send(self, retry{}) })
}

// again retries the failed writes.
func (n *node) again() {
	failed := n.failed
	n.waiting, n.failed = false, [savedNothing]bool{}
	if failed[savedRead] && n.machine == nil {
		n.read()
	}
	if failed[savedMemory] && n.saving != nil {
		compare := kv.At(history.PushKey(n.id), n.memory)
		n.d.Saver.Add(storage.Save{Op: kv.Put(compare.Key, n.saving), Compare: &compare, To: n.self, What: savedMemory,
			Of: &n.handle.spends})
	}
	if failed[savedCount] {
		n.counts()
	}
	if failed[savedOwner] {
		n.own()
	}
	if failed[savedShown] {
		n.showAgain()
	}
	if failed[savedGone] {
		n.releaseOwnership()
	}
}

// setTimer replaces the machine's timer; a zero time removes it.
func (n *node) setTimer(at time.Time) {
	n.timers++
	if n.timer != nil {
		n.timer.Stop()
		n.timer = nil
	}
	if at.IsZero() {
		return
	}
	self, number := n.self, n.timers
	n.timer = time.AfterFunc(at.Sub(n.d.Now()), func() { n.d.Send(self, tick{number}) })
}
