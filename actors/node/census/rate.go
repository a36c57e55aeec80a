package census

import (
	"sync"
	"time"
)

// rate is a token bucket.
type rate struct {
	mu        sync.Mutex
	perSecond float64
	burst     float64
	tokens    float64
	filled    time.Time
}

func newRate(perSecond, burst float64) *rate {
	return &rate{perSecond: perSecond, burst: burst, tokens: burst, filled: time.Now()}
}

// set changes the rate.
func (r *rate) set(perSecond, burst float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.perSecond, r.burst = perSecond, burst
	r.tokens = min(r.tokens, burst)
}

// admit takes a token, if there is one.
func (r *rate) admit() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.tokens = min(r.burst, r.tokens+now.Sub(r.filled).Seconds()*r.perSecond)
	r.filled = now
	if r.tokens < 1 {
		return false
	}
	r.tokens--
	return true
}
