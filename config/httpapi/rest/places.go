package rest

import "fmt"

// Places are those of what is under way at a time: of all callers and of each, and an eighth of them for staff.
type Places struct {
	all, others *Budget // others: of callers that are no staff, a part of all
}

// NewPlaces gives each caller a quarter of some places, and 16 at least.
func NewPlaces(n int) *Places {
	each := int64(max(n/4, 16))
	return &Places{all: newBudget(int64(n), each), others: newBudget(int64(n-n/8), each)}
}

// Acquire takes a place until give is called; the error says why there is none, of what there are places.
func (p *Places) Acquire(h Holder, what string) (give func(), err error) {
	of := []*Budget{p.all}
	if !h.Staff {
		of = []*Budget{p.others, p.all}
	}
	if give, free := acquireAll(h.Who, 1, of...); free {
		return give, nil
	}
	if of[0].has(h.Who) >= of[0].each {
		return nil, fmt.Errorf("too many %s of the same caller are under way already", what)
	}
	return nil, fmt.Errorf("%d %s are under way already", of[0].limit, what)
}
