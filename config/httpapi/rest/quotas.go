package rest

import "edgespan/pubsub/ratelimit"

// Limits on the bytes that a caller who is no admin may store, for each replica: a config of 8 MB written each minute
// takes 140 KB a second, and a store of 2 GiB fills in two hours at least, not in two minutes.
const (
	StoredRate  = 256 << 10 // bytes a second
	StoredBurst = 64 << 20  // burst, in bytes
)

// NewStored returns the budgets of bytes that callers may store.
func NewStored() *ratelimit.Buckets { return ratelimit.NewBuckets(StoredRate, StoredBurst) }

// quotas bounds the bytes that callers hold at a time: an eighth is reserved for staff; one member of staff gets at
// most a quarter, another caller an eighth, a machine a thirty-second. Each may hold one item of any size for which
// there is room. Small items have an additional budget of a quarter.
type quotas struct {
	small            *Budget // for items up to smallSize: a large one can't keep them out
	all              *Budget
	others, machines *Budget // parts of all: for callers who are not staff, and for the machines among them
}

// smallSize is the largest small answer or body, in bytes.
const smallSize = 64 << 10

func newQuotas(limit int64) quotas {
	others := limit - limit/8
	return quotas{
		small: newBudget(limit/4, limit/32), all: NewBudget(limit), others: newBudget(others, limit/8),
		machines: newBudget(others, limit/32),
	}
}

// of returns the budgets that count the bytes of a caller, unless the item is small.
func (q *quotas) of(h Holder) []*Budget {
	switch {
	case h.Staff:
		return []*Budget{q.all}
	case h.Machine:
		return []*Budget{q.machines, q.others, q.all}
	}
	return []*Budget{q.others, q.all}
}
