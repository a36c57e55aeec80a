package probe

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// BenchmarkOutcome measures what one outcome costs one network, with four ports and 17 probes each.
func BenchmarkOutcome(b *testing.B) {
	config := Config{Method: ICMP}
	for i := range 16 {
		config.Targets = append(config.Targets, fmt.Sprintf("198.51.100.%d", i+1))
	}
	var ports []Port
	for i := range 4 {
		ports = append(ports, Port{Label: fmt.Sprint("p", i), IfName: fmt.Sprint("eth", i), Selectors: []string{"uplink"},
			Reach: Out, Cost: i, Gateway: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})})
	}
	c, now := New(Record{}), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c.Step(Configured{Config: config, Selectors: []string{"uplink"}, At: now})
	var id ID
	for _, e := range c.Step(PortsSeen{ports, now}) {
		if w, ok := e.(Watch); ok {
			id = w.IDs[1]
		}
	}
	o := Outcomes{ID: id}
	for b.Loop() {
		now = now.Add(time.Second)
		o = o.Add(Outcome{At: now, Took: time.Millisecond})
		c.Step(OutcomesSeen{o, now})
	}
}
