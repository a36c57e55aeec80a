package ledger

import (
	"time"

	"edgespan/config/revision"
)

// Pending is a write that waits.
type Pending struct {
	Write   Write
	Author  string
	Time    time.Time
	Message string
}

// Result is what came of one write: Fault is nil if Written says it.
type Result struct {
	Written Written
	Fault   *Fault
}

// Prepared are contents that were stored for a write that is too large for one transaction and has lost a
// race. Planning it anew it need not store them again. The zero value is none.
type Prepared struct{}

// Plan is what is to be done for the first writes of a queue: transactions, to be carried out in
// their order until one does not succeed, each with a Get of HeadKey in its Else. Then nothing of this plan's
// writes took place: follow the store and plan them again.
type Plan struct {
	// Results are those of the first len(Results) of the entries; the others wait for the next
	// plan. None, with transactions: those are Forward's, and are to be done before.
	Results []Result
	// Txns are none if no write changes anything. The results are then those of the state that was asked.
	Txns []revision.Txn
	// Prepared is for the next Plan, if a transaction after the first did not succeed.
	Prepared Prepared
}

// Next is the state once all transactions are done; at is the revision of the last one's outcome.
func (p Plan) Next(at revision.Revision) *State { panic("soon") }

// Plan judges writes one after the other, each on what those before it leave behind, each a revision of its own; one
// that is refused takes no part. An error is of the source.
func (s *State) Plan(entries []Pending, src Source, have Prepared) (Plan, error) { panic("soon") }
