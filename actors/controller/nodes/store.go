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

// What an entry of the saver was for.
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

// unstored is what waits for the store, and what is on its way there.
type unstored struct {
	todo    []todo
	saving  []byte             // the memory on its way to the store
	memory  kv.Revision        // that wrote it last
	other   *kv.Entry          // another's write of it, while ours is under way
	failed  [savedNothing]bool // what the store could not do
	waiting bool               // to try it again
	holding bool               // effects wait
}

// generations is what the node wants, which is counted in the store first.
type generations struct {
	want                 Desired  // as the machine has it
	next                 *Desired // that is being counted
	counting, superseded bool
	count                kv.Revision // that wrote the generation last
}

// wants takes what the node shall have. It is counted in the store before the machine hears
// of it; what is newer goes before what is on its way.
func (n *node) wants(w Desired) {
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

// counted gives the machine what was counted.
func (n *node) counted() {
	n.want, n.next = *n.next, nil
	n.want.Stored = kv.Entry{}
	n.step(n.want.Desired)
	n.underlay()
	n.compareAgain()
}

// countSaved is the answer of the store to a count.
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
	case own: // it was done, and the answer got lost
		n.count = m.Now.ModRevision
		n.counted()
	default:
		n.next, n.superseded = nil, false
		n.count = m.Now.ModRevision
		n.d.Tell(Recount{n.id, m.Now})
	}
}

// saved takes an answer of the saver.
func (n *node) saved(m storage.Saved) {
	switch m.What {
	case savedRead:
		if n.machine == nil {
			n.wake(m)
		}
	case savedMemory:
		n.memorySaved(m)
	case savedCount:
		n.countSaved(m)
	case savedOwner:
		n.ownerSaved(m)
	case savedShown:
		n.shownSaved(m)
	case savedGone:
		n.gone(m)
	case savedStanding:
		n.standingSaved(m)
	case savedUnderlay:
		n.underlaySaved(m)
	}
}

// written is a memory as the store has it: whose write it was is known by its text.
func (n *node) save(m fleet.Memory) {
	n.saving = storage.Encode(m)
	compare := kv.At(history.PushKey(n.id), n.memory)
	n.d.Saver.Add(storage.Save{Op: kv.Put(compare.Key, n.saving), Compare: &compare, To: n.self, What: savedMemory,
		Of: &n.handle.spends})
}

// memorySaved goes on with what waited for the memory to be stored. Where another replica
// wrote one meanwhile the two are merged, and a push that it knows of, or of its number, is
// not made.
func (n *node) memorySaved(m storage.Saved) {
	text, other := n.saving, n.other
	n.saving, n.other = nil, nil
	switch {
	case errors.Is(m.Err, kv.ErrTooLarge) && n.lighten():
	case m.Err != nil:
		n.logAt(zap.WarnLevel, "store the state of a node", zap.Error(m.Err))
		n.saving, n.other = text, other // it is tried again
		n.later(savedMemory)
		return
	case m.Done:
		n.memory = m.Rev
	case bytes.Equal(m.Now.Value, text): // it was done, and the answer got lost
		n.memory = m.Now.ModRevision
	default:
		n.recall(m.Now)
	}
	if other != nil {
		n.remembered(*other)
	}
	n.work()
}

// lighten plans a memory that the store may take in place of one that is too large for it, if there
// is anything that it can do without.
func (n *node) lighten() bool {
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
		n.todo = slices.DeleteFunc(n.todo, func(t todo) bool { // nothing goes out that is not stored
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
			continue // the merged one has it
		}
		n.todo = append(n.todo, t)
	}
}

// remembered is a write of the memory that the store tells of.
func (n *node) remembered(e kv.Entry) {
	switch {
	case n.saving != nil:
		if n.other == nil || n.other.ModRevision < e.ModRevision {
			n.other = &e
		}
	case e.ModRevision > n.memory:
		n.recall(e)
		n.work()
	}
}

// later tries again what the store could not do: what was to be saved for, by its number.
func (n *node) later(what int) {
	n.failed[what] = true
	if n.waiting {
		return
	}
	n.waiting = true
	self := n.self
	n.d.After(storage.StoreBackoff, func() { n.d.Send(self, retry{}) })
}

// again does what the store could not do before.
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
		n.disown()
	}
}

// setTimer sets the machine's timer in place of the one before; zero is none.
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
