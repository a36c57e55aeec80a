package probe

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// In any history of two to four ports: a port that fails is not in use while one works that is not held, a network does
// not return to a port within its hold-down while another one works, and two choosers with one history choose alike.
func TestAChooserInAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		for range rapid.IntRange(1, 60).Draw(t, "rounds") {
			for i := range h.ports {
				h.faults[i] = rapid.SampledFrom([]string{h.faults[i], h.faults[i], h.faults[i], "", "far", "link"}).Draw(t,
					"fault of "+h.ports[i].Label)
			}
			for range rapid.SampledFrom([]int{1, 3, 15}).Draw(t, "seconds") {
				h.second()
			}
		}
	})
}

// history drives two choosers with one sequence of events.
type history struct {
	*rapid.T
	choosers [2]*Chooser
	ports    []Port
	faults   []string
	watch    []ID
	runs     map[ID]Outcomes
	streak   map[string]int // successes in a row, or failures if negative
	now      time.Time
	left     map[string]time.Time // when a port that failed was left
	port     string
}

func newHistory(t *rapid.T) *history {
	h := &history{T: t, runs: map[ID]Outcomes{}, streak: map[string]int{}, left: map[string]time.Time{},
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for i, label := range []string{"a", "b", "c", "d"}[:rapid.IntRange(2, 4).Draw(t, "ports")] {
		h.ports = append(h.ports, Port{Label: label, IfName: "eth" + label, Selectors: []string{"uplink"}, Reach: Out,
			Cost: rapid.IntRange(0, 2).Draw(t, "cost"), Servers: []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})}})
		h.faults = append(h.faults, "")
	}
	for i := range h.choosers {
		h.choosers[i] = New(Record{})
	}
	h.step(Configured{Selectors: []string{"uplink"}, At: h.now})
	h.step(PortsSeen{append([]Port{}, h.ports...), h.now})
	return h
}

func (h *history) step(e Event) {
	var effects [2][]Effect
	for i, c := range h.choosers {
		effects[i] = c.Step(e)
	}
	if !reflect.DeepEqual(effects[0], effects[1]) {
		h.Fatalf("%+v and %+v", effects[0], effects[1])
	}
	for _, eff := range effects[0] {
		switch eff := eff.(type) {
		case Watch:
			h.watch = eff.IDs
		case Choose:
			if to := eff.Choices["uplink"].Port; to != h.port {
				h.moved(to)
			}
		}
	}
}

func (h *history) moved(to string) {
	if at, failed := h.left[to]; failed && h.now.Sub(at) < DefaultHold && h.works(h.port) {
		h.Fatalf("back to %s %v after it failed, while %s works", to, h.now.Sub(at), h.port)
	}
	if h.port != "" && !h.works(h.port) {
		h.left[h.port] = h.now
	}
	h.port = to
}

// works reports whether a port has shown nothing else for longer than its chooser needs to notice.
func (h *history) works(label string) bool {
	for i, p := range h.ports {
		if p.Label == label {
			return h.faults[i] == "" && h.streak[label] > DefaultFailAfter
		}
	}
	return false
}

func (h *history) second() {
	h.now = h.now.Add(time.Second)
	for i := range h.ports {
		reach := Out
		if h.faults[i] == "link" {
			reach = Down
			h.streak[h.ports[i].Label] = 0
		}
		if h.ports[i].Reach != reach {
			h.ports[i].Reach = reach
			h.step(PortsSeen{append([]Port{}, h.ports...), h.now})
		}
	}
	for i, p := range h.ports {
		for _, id := range h.watch {
			if id.Port != p.Label {
				continue
			}
			o := Outcome{At: h.now, Took: time.Millisecond}
			if n := h.streak[p.Label]; h.faults[i] == "" {
				h.streak[p.Label] = max(n, 0) + 1
			} else {
				h.streak[p.Label], o.Error = min(n, 0)-1, "no answer"
			}
			run := h.runs[id]
			run.ID = id
			h.runs[id] = run.Add(o)
			h.step(OutcomesSeen{h.runs[id], h.now})
		}
	}
	h.step(TimerDue{h.choosers[0].token, h.now})
	for i, p := range h.ports {
		if p.Label != h.port || h.faults[i] == "" || h.faults[i] == "far" && h.streak[p.Label] > -quickShots {
			continue
		}
		for _, other := range h.ports {
			if h.works(other.Label) {
				h.Fatalf("%s, which fails (%s), is in use; %s works", p.Label, h.faults[i], other.Label)
			}
		}
	}
}
