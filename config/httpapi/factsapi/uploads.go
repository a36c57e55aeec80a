package factsapi

import (
	"errors"
	"net/http"
	"time"

	"edgespan/config/facts/ledger"
)

// What a node may upload of itself, by the bytes of what it changes: its facts have some 100 KB, and come each half hour.
const (
	nodeRate  = 16 << 10 // bytes a second, in the long run
	nodeBurst = 16 << 20 // and at once
	// mostNodes is how many are remembered: a hundred bytes each.
	mostNodes = 100_000
	// eachWrite is what a write costs beside its documents: its record in the history, and keys.
	eachWrite = 1 << 10
)

// written asks the backend for a write.
func (a *api) written(c *call, w ledger.Write) (ledger.Written, error) {
	held, err := a.holdUpload(c, w)
	if err != nil {
		return ledger.Written{}, err
	}
	done, err := a.backend.Write(c.Context(), WriteRequest{Author: c.caller.Name, Caller: c.who(), Own: c.own, Message: c.entry.Message, Write: w, DryRun: c.entry.DryRun, Reveal: c.reveals()})
	if held > 0 && !isUnsure(err) { // who goes away before the answer may have stored it
		if done.Changed {
			held -= float64(done.Stored + eachWrite)
		}
		a.uploads.Spend(c.who(), time.Now(), -held)
	}
	c.changed = c.changed || done.Changed
	return done, err
}

// holdUpload takes what a node's write may store from what it may upload. What it does not store is given back: what is there already costs nothing.
func (a *api) holdUpload(c *call, w ledger.Write) (float64, error) {
	if !c.own || c.entry.DryRun {
		return 0, nil
	}
	held := float64(storedBy(w) + eachWrite)
	if wait := a.uploads.Spend(c.who(), time.Now(), held); wait > 0 {
		return 0, &refusal{
			status: http.StatusTooManyRequests, retry: max(wait, time.Second),
			text: "node " + c.caller.itself() + " has uploaded too much: 16 MiB at once and 16 KiB a second that change something are allowed",
		}
	}
	return held, nil
}

// storedBy is the most that a write of a node may store.
func storedBy(w ledger.Write) int {
	switch w := w.(type) {
	case ledger.Put:
		return len(w.Value)
	case ledger.Bulk:
		size := 0
		for _, one := range w.Writes {
			size += storedBy(one)
		}
		return size
	case ledger.EditKeys, ledger.Rollback:
		return ledger.MaxDocument // each makes a whole version
	}
	return 0
}

// isUnsure says that a write may have taken place though it was refused.
func isUnsure(err error) bool {
	var f *ledger.Fault
	return errors.As(err, &f) && f.Unsure
}
