package node

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// crowd returns a config of switch networks and inactive apps, each with an adapter on one of the networks.
func crowd(networks, apps int) string {
	var b strings.Builder
	b.WriteString("networkInstances:\n")
	for n := range networks {
		fmt.Fprintf(&b, "  10000000-0000-4000-8000-%012d: {displayName: n%d, type: switch, port: \"\"}\n", n, n)
	}
	b.WriteString("appNetworks:\n")
	for a := range apps {
		fmt.Fprintf(&b, "  a0000000-0000-4000-8000-%012d:\n    displayName: a%d\n    activate: false\n    adapters:\n      "+
			"0: {networkInstance: 10000000-0000-4000-8000-%012d, attach: {kind: tap}}\n", a, a, a%networks)
	}
	return b.String()
}

// The cost of a config is linear in its networks and apps: four times as many cost four times as much. The test counts
// allocations, which other load on the machine does not change.
func TestAStartIsLinear(t *testing.T) {
	cost := func(networks, apps int) (octets uint64) {
		onRig(t, func(r *rig) {
			config := crowd(networks, apps)
			r.settle(time.Second)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r.apply(config)
			r.settle(5 * time.Second)
			runtime.ReadMemStats(&after)
			octets = after.TotalAlloc - before.TotalAlloc
			for n := range networks {
				r.ready(0, fmt.Sprintf("ni/10000000-0000-4000-8000-%012d", n))
			}
			r.ready(0, fmt.Sprintf("app/a0000000-0000-4000-8000-%012d", apps-1))
		})
		return octets
	}
	small, large := cost(60, 240), cost(240, 960)
	if ratio := float64(large) / float64(small); ratio > 5.5 {
		t.Errorf("60 networks with 240 apps: %d KB, 240 with 960: %d KB, %.1f times as much", small>>10, large>>10, ratio)
	} else {
		t.Logf("%d KB, %d KB: %.1f times", small>>10, large>>10, ratio)
	}
}
