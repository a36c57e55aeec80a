package firewall

import (
	"maps"
	"slices"
	"testing"
)

func TestCountersAreThoseOfTheRules(t *testing.T) {
	saved := "*filter\n:FORWARD ACCEPT [7:8]\n:ES1-1L - [0:0]\n[12:3456] -A ES1-1L -m connlimit --connlimit-above 16 -j " +
		"DROP\n[3:4] -A ES1-1L -j DROP\n" +
		"[1:2] -A ES1-2L -j DROP\n[5:6] -A ES1-2L ! -p tcp -j RETURN\n[x:1] -A ES1-3L -j DROP\n-A ES1-4L -j DROP\nCOMMIT\n"
	want := counters{"ES1-1L": {{Packets: 12, Bytes: 3456}, {Packets: 3, Bytes: 4}},
		"ES1-2L": {{Packets: 1, Bytes: 2}, {Packets: 5, Bytes: 6}}}
	if got := parseCounters(saved); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%v, want %v", got, want)
	}
}
