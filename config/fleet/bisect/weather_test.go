package bisect

import (
	"fmt"
	"testing"

	"edgespan/config/fleet/nodeproto"
)

// A snapshot lists the first bad items only. What it does not list is not taken for good.
func TestBadItemsThatASnapshotDoesNotListAreNotGood(t *testing.T) {
	t.Parallel()
	report := func(bad ...string) *nodeproto.Report {
		r := &nodeproto.Report{}
		for _, name := range bad {
			r.Health = append(r.Health, nodeproto.HealthReport{Name: name})
		}
		return r
	}
	var names []string
	for i := range 150 {
		names = append(names, fmt.Sprintf("item-%03d", i))
	}
	good := SnapshotOf(report(names...), Healthy)
	if v, why := evaluate(Healthy, &good, SnapshotOf(report(names[1:]...), Healthy)); v == Bad {
		t.Errorf("one fewer: %s %s", v, why)
	}
	if v, why := evaluate(Healthy, &good, SnapshotOf(report(append(names, "z")...), Healthy)); v == Good {
		t.Errorf("one more: %s %s", v, why)
	}
}
