package node

import (
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/netinst/probe"
	"edgespan/platform/fake"
)

// shotsOf counts the shots by a port, by target.
type shotsOf struct {
	mu sync.Mutex
	n  map[string]int
}

func (s *shotsOf) take() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.n
	s.n = map[string]int{}
	return n
}

func total(n map[string]int) (sum int) {
	for v := range maps.Values(n) {
		sum += v
	}
	return sum
}

// The probes of a metered port share a budget, over restarts. Quick probes do not exceed it, and it lasts all day.
func TestTheProbesOfAMeteredPortHaveABudget(t *testing.T) {
	onRig(t, func(r *rig) {
		const perDay, perHour = 500 * fake.ProbeBytes, 20 // an hour's share, and as much at once
		lte := &shotsOf{n: map[string]int{}}
		dead := false
		count := func() {
			r.host.SetProbes(func(id probe.ID) error {
				lte.mu.Lock()
				defer lte.mu.Unlock()
				if id.Port == "lte" {
					if lte.n[id.Target]++; dead {
						return silent
					}
				}
				return nil
			})
		}
		r.setUplinks()
		count()
		two := strings.ReplaceAll(withProbedUplinks(1), "port: uplink",
			"port: uplink, probe: {method: icmp, target: '198.51.100.8,198.51.100.9'}")
		metered := strings.Replace(two, "lte: {", "lte: {metered: true, probeBytesPerDay: 500000, ", 1)
		r.apply(metered)
		r.ready(5*time.Second, "ni/"+niID(1))
		r.settle(2 * time.Hour)
		first := lte.take()
		if n := total(first); n < 2*perHour || n > 3*perHour+2 {
			t.Errorf("%d shots in two hours, want %d to %d: %v", n, 2*perHour, 3*perHour, first)
		}
		if a, b := first["198.51.100.8"], first["198.51.100.9"]; min(a, b) < max(a, b)/2 {
			t.Errorf("one probe starves another: %v", first)
		}
		lte.mu.Lock()
		dead = true
		lte.mu.Unlock()
		r.settle(2 * time.Hour)
		if n := total(lte.take()); n < perHour || n > 2*perHour+2 {
			t.Errorf("%d shots in two hours in which none is answered, want at most %d", n, 2*perHour)
		}
		for range 10 {
			r.stop()
			r.start()
			count()
			r.ready(5*time.Second, "ni/"+niID(1))
		}
		r.settle(time.Hour)
		if n := total(lte.take()); n > perHour+2 {
			t.Errorf("%d shots in an hour and ten restarts, want at most %d", n, perHour)
		}
		x, err := r.node.Explain(t.Context(), "port", "lte")
		if err != nil || x.Port.ProbeBytesPerDay != perDay || x.Port.ProbeBytesLeft > perDay/25 {
			t.Errorf("%v: explained as %+v", err, x.Port)
		}
		r.apply(two)
		r.settle(time.Minute)
		if n := total(lte.take()); n < 100 {
			t.Errorf("%d shots in a minute by a port that is not metered", n)
		}
		if n := len(r.node.d.topics.ProbeBudgets.List("")); n > 0 {
			t.Errorf("%d budgets of ports that are not metered", n)
		}
	})
}
