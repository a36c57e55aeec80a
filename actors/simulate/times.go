package simulate

import (
	"slices"
	"sync"
	"time"
)

// Times are statistics of how long nodes took, over those that finished.
type Times struct {
	Nodes int     `json:"nodes"`
	P50   float64 `json:"p50Ms"`
	P99   float64 `json:"p99Ms"`
	Max   float64 `json:"mostMs"`
}

// NewTimes summarizes durations.
func NewTimes(took []time.Duration) Times {
	if len(took) == 0 {
		return Times{}
	}
	took = slices.Clone(took)
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	at := func(percent int) float64 { return ms(took[(len(took)*percent+99)/100-1]) }
	return Times{Nodes: len(took), P50: at(50), P99: at(99), Max: ms(took[len(took)-1])}
}

// round is the progress of one change, by node.
type round struct {
	mu      sync.Mutex
	begun   time.Time
	pushed  map[int]time.Time
	acked   map[int]time.Time
	applied map[int]time.Time
	stands  map[int]time.Time // when it was confirmed
}

func newRound(now time.Time) *round {
	return &round{begun: now, pushed: map[int]time.Time{}, acked: map[int]time.Time{}, applied: map[int]time.Time{},
		stands: map[int]time.Time{}}
}

// Round is how long nodes took, from the start of a change, until they got the push, stored its config (acked), applied
// it and had it confirmed.
type Round struct {
	Pushed    Times `json:"pushed"`
	Acked     Times `json:"acked"`
	Applied   Times `json:"applied"`
	Confirmed Times `json:"confirmed"`
}

// mark records the time of a node, unless it has one.
func (r *round) mark(of func(*round) map[int]time.Time, node int, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := of(r); m[node].IsZero() {
		m[node] = now
	}
}

func (r *round) progress() (pushed, acked, confirmed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pushed), len(r.acked), len(r.stands)
}

func (r *round) acks() (begun time.Time, took []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.acked {
		took = append(took, at.Sub(r.begun))
	}
	slices.Sort(took)
	return r.begun, took
}

func (r *round) times() Round {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := func(m map[int]time.Time) Times {
		var took []time.Duration
		for _, at := range m {
			took = append(took, at.Sub(r.begun))
		}
		return NewTimes(took)
	}
	return Round{sum(r.pushed), sum(r.acked), sum(r.applied), sum(r.stands)}
}
