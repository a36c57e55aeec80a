package rest

import "edgespan/pubsub/ratelimit"

// What a caller who is no admin may have stored, at each replica: a config of 8 MB that is written each minute takes
// 140 KB a second, and one of 2 GiB is full after two hours at least, not two minutes.
const (
	StoredRate  = 256 << 10 // bytes a second, in the long run
	StoredBurst = 64 << 20  // and at once
)

// NewStored are the budgets of bytes that callers may have stored.
func NewStored() *ratelimit.Buckets { return ratelimit.NewBuckets(StoredRate, StoredBurst) }

// quotas are bytes that are held at a time, so that nobody takes what staff needs: an eighth of them is for staff, a
// quarter is the most of one of staff, an eighth of another caller, and a thirty-second of a machine. Each may hold one
// thing of any size that is free. What is small has as much as a quarter of that beside it.
type quotas struct {
	small            *Budget // of what is up to smallSize: a large one keeps none of them out
	all              *Budget
	others, machines *Budget // parts of all: of callers that are no staff, and of these that are machines
}

// smallSize is the most bytes of an answer or a body that is small.
const smallSize = 64 << 10

func newQuotas(limit int64) quotas {
	others := limit - limit/8
	return quotas{
		small: newBudget(limit/4, limit/32), all: NewBudget(limit), others: newBudget(others, limit/8),
		machines: newBudget(others, limit/32),
	}
}

// of are the budgets that count what a caller holds, unless it is small.
func (q *quotas) of(h Holder) []*Budget {
	switch {
	case h.Staff:
		return []*Budget{q.all}
	case h.Machine:
		return []*Budget{q.machines, q.others, q.all}
	}
	return []*Budget{q.others, q.all}
}
