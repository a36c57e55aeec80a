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
	savedProgress
	savedUnderlay
	savedBisect
	savedNothing
)

// storeQueue is what waits for the store or is in flight.
type storeQueue struct {
	effects        []queuedEffect
	saving         []byte             // the memory in flight
	memoryRevision kv.Revision        // that wrote the memory last
	otherMemory    *kv.Entry          // another replica's write of it meanwhile
	failed         [savedNothing]bool // writes that failed
	waiting        bool               // a retry is scheduled
	blocked        bool               // effects must wait
}

// generations is the node's desired config, whose generation is stored first.
type generations struct {
	desired              Desired  // as the machine has it
	by                   string   // the last revision that changed it, as far as this replica knows
	next                 *Desired // whose generation is being stored
	counting, superseded bool
	countRevision        kv.Revision // that wrote the generation last
}

// setDesired handles a desired config. Its generation is stored before the machine gets it; a newer config replaces one
// whose generation is being stored.
func (n *node) setDesired(w Desired) {
	if w.Trace == "" && w.Digest == n.desired.Digest { // the same config, computed again
		w.Trace = n.desired.Trace
	}
	n.next = &w
	if n.by == "" || w.Digest != n.desired.Digest {
		n.by = w.By
	}
	n.superseded = n.counting
	if w.Stored.ModRevision > n.countRevision {
		n.countRevision = w.Stored.ModRevision
	}
	n.countGeneration()
}

func (n *node) countGeneration() {
	w := n.next
	if n.counting || w == nil {
		return
	}
	var stored fleet.Counted
	if w.Stored.Exists() && json.Unmarshal(w.Stored.Value, &stored) != nil {
		stored = fleet.Counted{}
	}
	if w.Fault != "" || w.Stored.ModRevision == n.countRevision && stored == w.Counted || n.desired.Counted == w.Counted &&
		n.desired.Fault == "" {
		n.handleCounted()
		return
	}
	compare := kv.AtRevision(history.GenerationKey(n.id), n.countRevision)
	n.counting = true
	n.d.Saver.Add(storage.Save{Op: kv.Put(compare.Key, storage.Encode(w.Counted)), Compare: &compare, To: n.self,
		What: savedCount, Of: &n.handle.spends})
}

// handleCounted steps the machine with the config whose generation is stored.
func (n *node) handleCounted() {
	n.desired, n.next = *n.next, nil
	n.desired.Stored = kv.Entry{}
	n.step(n.desired.Desired)
	n.storeUnderlay()
	n.compareAgain()
}

// handleCountSaved handles the result of storing a generation.
func (n *node) handleCountSaved(m storage.Saved) {
	n.counting = false
	own := n.next != nil && m.Now.Exists() && bytes.Equal(m.Now.Value, storage.Encode(n.next.Counted))
	switch {
	case m.Err != nil:
		n.d.Log.Warn("number a generation", zap.String("node", n.id), zap.Error(m.Err))
		n.retryLater(savedCount)
	case m.Done && n.next != nil && !n.superseded:
		n.countRevision = m.Rev
		n.handleCounted()
	case m.Done:
		n.countRevision, n.superseded = m.Rev, false
		n.countGeneration()
	case own: // stored, but the answer was lost
		n.countRevision = m.Now.ModRevision
		n.handleCounted()
	default:
		n.next, n.superseded = nil, false
		n.countRevision = m.Now.ModRevision
		n.d.Notify(Recount{n.id, m.Now})
	}
}

// handleSaved handles a result of the saver. Until the memory is read, results are of writes of an actor that had this
// name before, of a node that was removed or an actor that crashed: what they have stored is there to be read.
func (n *node) handleSaved(m storage.Saved) {
	if n.machine == nil {
		if m.What == savedRead {
			n.wake(m)
		}
		return
	}
	switch m.What {
	case savedMemory:
		n.handleMemorySaved(m)
	case savedCount:
		n.handleCountSaved(m)
	case savedOwner:
		n.handleOwnerSaved(m)
	case savedShown:
		n.handleShownSaved(m)
	case savedGone:
		n.handleOwnerDeleted(m)
	case savedProgress:
		n.handleProgressSaved(m)
	case savedUnderlay:
		n.handleUnderlaySaved(m)
	case savedBisect:
		n.handleBisectSaved(m)
	}
}

// saveMemory stores a memory. The result identifies its writer by the value.
func (n *node) saveMemory(m fleet.Memory) {
	n.saving = storage.Encode(m)
	compare := kv.AtRevision(history.PushKey(n.id), n.memoryRevision)
	n.d.Saver.Add(storage.Save{Op: kv.Put(compare.Key, n.saving), Compare: &compare, To: n.self, What: savedMemory,
		Of: &n.handle.spends})
}

// handleMemorySaved continues with the effects that waited for the memory. If another replica wrote one meanwhile,
// both are merged, and a push that the other one knows, or whose number it has, is dropped.
func (n *node) handleMemorySaved(m storage.Saved) {
	text, other := n.saving, n.otherMemory
	n.saving, n.otherMemory = nil, nil
	switch {
	case errors.Is(m.Err, kv.ErrTooLarge) && n.shrinkMemory():
	case m.Err != nil:
		n.logAt(zap.WarnLevel, "store the state of a node", zap.Error(m.Err))
		n.saving, n.otherMemory = text, other // later retries it
		n.retryLater(savedMemory)
		return
	case m.Done:
		n.memoryRevision = m.Rev
	case bytes.Equal(m.Now.Value, text): // stored, but the answer was lost
		n.memoryRevision = m.Now.ModRevision
	default:
		n.loadMemory(m.Now)
	}
	if other != nil {
		n.handleMemory(*other)
	}
	n.runEffects()
}

// shrinkMemory replaces a memory that is too large for the store by a smaller one, and reports whether that was
// possible.
func (n *node) shrinkMemory() bool {
	waiting := n.effects
	n.effects, n.blocked = nil, true
	n.step(fleet.TooLarge{})
	n.blocked = false
	lighter := slices.ContainsFunc(n.effects, func(t queuedEffect) bool { _, ok := t.effect.(fleet.Save); return ok })
	for _, t := range waiting {
		if _, ok := t.effect.(fleet.Save); !ok || !lighter {
			n.effects = append(n.effects, t)
		}
	}
	return lighter
}

// loadMemory merges the memory that another replica wrote.
func (n *node) loadMemory(e kv.Entry) {
	theirs, err := n.parse(e)
	n.memoryRevision = e.ModRevision
	if err != nil {
		n.effects = slices.DeleteFunc(n.effects, func(t queuedEffect) bool { // nothing is sent that is not stored
			switch t.effect.(type) {
			case fleet.Save, fleet.Push, ack:
				return true
			}
			return false
		})
		n.step(fleet.Unread{Why: err.Error()})
		return
	}
	waiting := n.effects
	n.effects = nil
	n.blocked = true
	n.step(fleet.Recalled{Memory: theirs})
	n.blocked = false
	for _, t := range waiting {
		if p, ok := t.effect.(fleet.Push); ok && p.Whole && p.Attempt <= theirs.Push.Number {
			continue
		}
		if _, ok := t.effect.(fleet.Save); ok {
			continue // the merged memory includes it
		}
		n.effects = append(n.effects, t)
	}
}

// handleMemory handles another replica's write of the memory.
func (n *node) handleMemory(e kv.Entry) {
	switch {
	case n.saving != nil:
		if n.otherMemory == nil || n.otherMemory.ModRevision < e.ModRevision {
			n.otherMemory = &e
		}
	case e.ModRevision > n.memoryRevision:
		n.loadMemory(e)
		n.runEffects()
	}
}

// retryLater schedules a retry of a failed write.
func (n *node) retryLater(what int) {
	n.failed[what] = true
	if n.waiting {
		return
	}
	n.waiting = true
	self := n.self
	n.d.After(storage.StoreBackoff, func() { n.d.Send(self, retry{}) })
}

// retry retries the failed writes.
func (n *node) retry() {
	failed := n.failed
	n.waiting, n.failed = false, [savedNothing]bool{}
	if failed[savedRead] && n.machine == nil {
		n.read()
	}
	if failed[savedMemory] && n.saving != nil {
		compare := kv.AtRevision(history.PushKey(n.id), n.memoryRevision)
		n.d.Saver.Add(storage.Save{Op: kv.Put(compare.Key, n.saving), Compare: &compare, To: n.self, What: savedMemory,
			Of: &n.handle.spends})
	}
	if failed[savedCount] {
		n.countGeneration()
	}
	if failed[savedBisect] && n.inFlight != nil {
		n.saveBisect()
	}
	if failed[savedOwner] {
		n.announceOwnership()
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
