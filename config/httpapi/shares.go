package httpapi

import "sync"

// Shares bound how many requests of one caller are under way, so that nobody holds the places of
// all others.
type Shares struct {
	each int

	mu sync.Mutex
	of map[string]int
}

// NewShares gives each caller a quarter of all places, and 16 at least.
func NewShares(places int) *Shares {
	return &Shares{each: max(places/4, 16), of: map[string]int{}}
}

// Enter takes a place of a caller, if it has one left; leave gives it back.
func (s *Shares) Enter(caller string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[caller] >= s.each {
		return nil, false
	}
	s.of[caller]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.of[caller]--; s.of[caller] == 0 {
			delete(s.of, caller)
		}
	}, true
}
