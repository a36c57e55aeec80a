package configdbapi

import (
	"errors"
	"fmt"
	"time"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
	"edgespan/pubsub/ratelimit"
)

// Limits on what a node may upload to its own data, in bytes that change something: the facts of a node have some 100
// KB, and are uploaded each half hour.
const (
	nodeRate  = 16 << 10 // bytes a second
	nodeBurst = 16 << 20 // burst, in bytes
	// maxNodes bounds the remembered nodes: some 170 bytes each.
	maxNodes = 100_000
	// eachWrite is the overhead of a write besides its documents: its record in the history, and keys.
	eachWrite = 1 << 10
)

// written calls the backend with a write, within the caller's budget.
func (a *api) written(c *call, w model.Write) (model.Written, error) {
	held, err := a.hold(c, w)
	if err != nil {
		return model.Written{}, err
	}
	done, err := a.backend.Write(c.Context(), WriteRequest{Author: c.caller.Name, Caller: c.Caller.ShareKey(),
		Own: c.own, Message: c.Entry.Message, Write: w, DryRun: c.Entry.DryRun, Reveal: c.reveals()})
	if held.of != nil && !isUnsure(err) { // a write with an unknown outcome may have been stored
		if done.Changed {
			held.bytes -= max(done.Stored, held.least) + eachWrite
		}
		held.of.AllowN(c.Caller.ShareKey(), time.Now(), -held.bytes)
	}
	c.changed = c.changed || done.Changed
	return done, err
}

// held is the part of a caller's budget that a write holds.
type held struct {
	of    *ratelimit.Buckets // nil: the caller has no limit
	bytes int
	least int // minimum cost of a write that changes something
}

// hold takes the maximum size of a write from the budget of its caller: of a node, or of any other caller who is no
// admin. written returns what was not stored: an upload without changes costs nothing.
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
	if wait := h.of.AllowN(c.Caller.ShareKey(), time.Now(), h.bytes); wait > 0 {
		no := rest.Refuse(rest.TypeTooMany, "%s", text)
		no.Retry = wait
		return held{}, no
	}
	return h, nil
}

// storedBy returns the maximum size of the versions that a write stores.
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
		return model.MaxDocument // each stores a complete version
	}
	return 0
}

// isUnsure reports that a write may have been stored although it failed.
func isUnsure(err error) bool {
	var f *model.RequestError
	return errors.As(err, &f) && f.Unsure
}
