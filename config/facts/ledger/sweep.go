package ledger

import (
	"edgespan/config/revision"
)

// Sweeper removes, in bounded steps, what nothing refers to: records out of sight, contents that no version has, what is left of large
// writes that never came to their end, and versions beyond those that are to be kept.
type Sweeper struct{}

// Sweep begins a sweep; keep is how many versions each half of a record keeps, 0: all.
func (s *State) Sweep(keep uint64) *Sweeper { panic("soon") }

// Next reads a part of the store and answers with a transaction for it, which may have nothing to do (no Then). It is nil at the
// end. State is the newest; a transaction that did not succeed ends the sweep: begin anew some time.
func (w *Sweeper) Next(s *State, r Reader) (*revision.Txn, error) { panic("soon") }
