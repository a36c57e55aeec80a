package underlay

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

func port(label, address string, mtu int) Port {
	p := Port{Label: label, MTU: mtu}
	if address != "" {
		p.Addresses = []netip.Addr{netip.MustParseAddr(address)}
	}
	return p
}

// What counts of the ports of a node: each for itself, once it stands, by what is stored.
func TestWhichPortsCount(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	var p Paces
	var stored Ports
	for i, step := range []struct {
		at     time.Duration
		said   []Port
		stored []Port // by another; nil: what counted
		want   []Port
		wait   time.Duration
	}{
		{at: 0, said: []Port{port("a", "192.0.2.1", 1500), port("b", "192.0.2.2", 1500)},
			want: []Port{port("a", "192.0.2.1", 1500), port("b", "192.0.2.2", 1500)}},
		{at: 10, said: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.2", 1500)},
			want: []Port{port("a", "192.0.2.1", 1500), port("b", "192.0.2.2", 1500)}, wait: 3},
		{at: 12, said: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500)},
			want: []Port{port("a", "192.0.2.1", 1500), port("b", "192.0.2.2", 1500)}, wait: 1},
		{at: 13, said: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500)},
			want: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.2", 1500)}, wait: 2},
		// a flaps on, and b is not held up by it
		{at: 14, said: []Port{port("a", "192.0.2.1", 1500), port("b", "192.0.2.3", 1500)},
			want: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.2", 1500)}, wait: 1},
		{at: 15, said: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500)},
			want: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500)}},
		// another replica stored something else meanwhile: that counts, until what is said stands
		{at: 100, said: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500)},
			stored: []Port{port("a", "192.0.2.7", 1500), port("b", "192.0.2.3", 1500)},
			want:   []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500)}},
		// a port that comes is new at once, one that goes as others change
		{at: 110, said: []Port{port("a", "192.0.2.9", 1500), port("c", "192.0.2.4", 1500)},
			want: []Port{port("a", "192.0.2.9", 1500), port("b", "192.0.2.3", 1500), port("c", "192.0.2.4", 1500)},
			wait: 3},
		{at: 113, said: []Port{port("a", "192.0.2.9", 1500), port("c", "192.0.2.4", 1500)},
			want: []Port{port("a", "192.0.2.9", 1500), port("c", "192.0.2.4", 1500)}},
	} {
		if step.stored != nil {
			stored = Ports{Ports: step.stored}
		}
		got, wait := p.Of(noon.Add(step.at*time.Second), Ports{Ports: step.said}, stored)
		if string(encoded(got)) != string(encoded(Ports{Ports: step.want})) ||
			wait != step.wait*time.Second {
			t.Errorf("%d: %s in %v", i, encoded(got), wait)
		}
		stored = got
	}
	// One that brings new ports all the time has no more of them than fit.
	changes := 0
	for i := range 10 * maxPorts {
		got, _ := p.Of(noon.Add(time.Duration(200+i)*time.Second/20),
			Ports{Ports: []Port{port(fmt.Sprint("x", i), "192.0.2.1", 1500)}}, stored)
		if string(encoded(got)) != string(encoded(stored)) {
			changes++
		}
		stored = got
	}
	if len(p) > maxPorts || changes > 3*maxPorts {
		t.Errorf("%d ports are known, %d changes", len(p), changes)
	}
}
