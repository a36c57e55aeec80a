package rest

import "fmt"

// Places bounds concurrent work, for each caller and for all together, and reserves an eighth for staff.
type Places struct {
	all, others *Budget // others: part of all, for callers who are not staff
}

// NewPlaces returns n places, of which each caller may use a quarter, and at least 16.
func NewPlaces(n int) *Places {
	each := int64(max(n/4, 16))
	return &Places{all: newBudget(int64(n), each), others: newBudget(int64(n-n/8), each)}
}

// Acquire takes a place until give is called; what names the work in the error.
func (p *Places) Acquire(h Holder, what string) (release func(), err error) {
	of := []*Budget{p.all}
	if !h.Staff {
		of = []*Budget{p.others, p.all}
	}
	if release, free := acquireAll(h.Who, 1, of...); free {
		return release, nil
	}
	if of[0].has(h.Who) >= of[0].each {
		return nil, fmt.Errorf("too many %s of the same caller are under way already", what)
	}
	return nil, fmt.Errorf("%d %s are under way already", of[0].limit, what)
}
