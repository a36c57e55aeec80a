package configdbapi

import (
	"errors"
	"fmt"
	"time"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
	"edgespan/pubsub/ratelimit"
)

// What a node may upload of itself, by the bytes of what it changes: its facts have some 100 KB, and come each half
// hour.
const (
	nodeRate  = 16 << 10 // bytes a second, in the long run
	nodeBurst = 16 << 20 // and at once
	// maxNodes is how many are remembered: some 170 bytes each.
	maxNodes = 100_000
	// eachWrite is what a write costs beside its documents: its record in the history, and keys.
	eachWrite = 1 << 10
)

// written asks the backend for a write.
func (a *api) written(c *call, w model.Write) (model.Written, error) {
	held, err := a.hold(c, w)
	if err != nil {
		return model.Written{}, err
	}
	done, err := a.backend.Write(c.Context(), WriteRequest{Author: c.caller.Name, Caller: c.Caller.Who(),
		Own: c.own, Message: c.Entry.Message, Write: w, DryRun: c.Entry.DryRun, Reveal: c.reveals()})
	if held.of != nil && !isUnsure(err) { // who goes away before the answer may have stored it
		if done.Changed {
			held.bytes -= max(done.Stored, held.least) + eachWrite
		}
		held.of.Spend(c.Caller.Who(), time.Now(), -held.bytes)
	}
	c.changed = c.changed || done.Changed
	return done, err
}

// held is what a write may store, taken from what its caller may.
type held struct {
	of    *ratelimit.Buckets // nil: the caller has no bound
	bytes int
	least int // that it costs if it changes something
}

// hold takes what a write may store from what its caller may have stored: a node of itself, and whoever else is no
// admin. What it does not store is given back: what is there already costs nothing.
func (a *api) hold(c *call, w model.Write) (held, error) {
	h := held{of: a.stored, least: int(c.Holds.Size())}
	text := fmt.Sprintf("%s has stored too much: %d MiB at once and %d KiB a second is the limit of all but admins",
		c.caller.Name, rest.StoredBurst>>20, rest.StoredRate>>10)
	switch {
	case c.Entry.DryRun, !c.own && c.caller.Role == Admin:
		return held{}, nil
	case c.own:
		h = held{of: a.uploads}
		text = "node " + c.caller.itself() +
			" has uploaded too much: 16 MiB at once and 16 KiB a second that change something is the limit"
	default:
		if err := a.scarce(); err != nil {
			no := rest.Refuse(rest.TypeBusy, "only an admin can write: %s", err)
			no.Retry = time.Minute
			return held{}, no
		}
	}
	h.bytes = max(storedBy(w), h.least) + eachWrite
	if wait := h.of.Spend(c.Caller.Who(), time.Now(), h.bytes); wait > 0 {
		no := rest.Refuse(rest.TypeTooMany, "%s", text)
		no.Retry = wait
		return held{}, no
	}
	return h, nil
}

// storedBy is the most that a write may store in versions.
func storedBy(w model.Write) int {
	switch w := w.(type) {
	case model.Put:
		return len(w.Value)
	case model.Bulk:
		size := 0
		for _, one := range w.Writes {
			size += storedBy(one)
		}
		return size
	case model.EditKeys, model.Rollback:
		return model.MaxDocument // each makes a whole version
	}
	return 0
}

// isUnsure says that a write may have taken place though it was refused.
func isUnsure(err error) bool {
	var f *model.Fault
	return errors.As(err, &f) && f.Unsure
}
