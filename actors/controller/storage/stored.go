package storage

import (
	"fmt"
	"math"
	"time"

	"edgespan/config/fleet/history"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/kv"
)

// Reserve charges what a write stores to its caller's budget. Admins have no limit: they must be able to prune history,
// restore a fleet and remove operators even if the store is nearly full. give refunds what the store surely did not
// keep.
func (wr *Writer) Reserve(by fleetapi.Caller, bytes int) (release func(), err error) {
	if by.Role.Includes(fleetapi.Admin) {
		return func() {}, nil
	}
	if err := wr.store.CheckSpace(); err != nil {
		return nil, fmt.Errorf("write: %w: only an admin may write: %w", fleetapi.ErrBusy, err)
	}
	if wait := wr.Stored.AllowN(by.ShareKey(), wr.Now(), bytes); wait > 0 {
		return nil, RateLimited(wait,
			"write: %s has stored too much: must be at most %d MiB at once and %d KiB a second, except for admins", by.Name,
			rest.StoredBurst>>20, rest.StoredRate>>10)
	}
	return func() { wr.Stored.AllowN(by.ShareKey(), wr.Now(), -bytes) }, nil
}

// RateLimited is the error for a caller who has to wait before storing more.
func RateLimited(wait time.Duration, format string, args ...any) error {
	return &fleetapi.TooManyError{Text: fmt.Sprintf(format, args...) +
		fmt.Sprintf(": try again in %d s", int(math.Ceil(wait.Seconds()))), Wait: wait}
}

// planSize estimates how many bytes the store keeps of a plan.
func planSize(p history.CommitPlan) (n int) {
	for _, txn := range p.Txns {
		n += kv.Txn{Then: txn.Then}.Size()
	}
	return n
}
