package netinst

import (
	"slices"
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

// observing is a network whose first adapter has Observe.
func observing(in Input) Input {
	in.Adapters = slices.Clone(in.Adapters)
	in.Adapters[0].Config.Spec.Observe = true
	return in
}

// Each rule of the kernel that decides by an access rule counts for that one, and nothing else counts.
func TestEveryKernelRuleCountsForItsAccessRule(t *testing.T) {
	rules := []ACLRule{
		{Name: "ports", Direction: Egress, Action: Allow, Ports: []PortRange{{80, 80}, {90, 99}}},
		{Name: "slow", Direction: Both, Action: Limit, IP: prefix("192.0.2.0/24"), Limit: RateLimit{10, "sec", 30}},
		{Name: "no", Direction: Both, Action: Drop, Protocol: "icmp"},
		{Name: "all", Direction: Both, Action: Allow},
	}
	a := adapter(appA, 0, 1, "10.1.0.128", "web", rules...)
	sw := input(a)
	sw.Config.Type, sw.Config.Port = Switch, ""
	bridged := sw
	bridged.Config.IPv6 = IPv6Config{Mode: Bridged}
	for name, in := range map[string]Input{"local": input6(a), "switch": sw, "bridged": bridged,
		"observed": observing(input6(a))} {
		counts := CountedChains(in)
		state := DesiredState(in).State
		hits := map[Hit]int{}
		for _, c := range counts(a.Config.Key()) {
			chain, ok := state[c.ID].(netstate.Chain)
			if !ok || len(chain.Rules) != len(c.Hits) {
				t.Errorf("%s: %s: %d hits for %q", name, c.ID, len(c.Hits), chain.Rules)
				continue
			}
			for i, h := range c.Hits {
				hits[h]++
				if drops := strings.HasSuffix(strings.ToLower(chain.Rules[i]), "drop"); h.Kind != NoHit &&
					drops != (h.Kind != Observed && (h.Rule == "no" || h.Rule == "" || h.Kind == Exceeded)) {
					t.Errorf("%s: %q of %s counts for %+v", name, chain.Rules[i], c.ID, h)
				}
			}
		}
		// slow and no: in E, I, N, M; ports: tcp and udp in E, of IPv6 each range by itself; all: toward the node it allows
		// nothing.
		want := map[string]map[Hit]int{
			"local": {{"ports", Matched}: 2 + 4, {"slow", Matched}: 4, {"slow", Exceeded}: 2 + 2, {"no", Matched}: 4 + 4,
				{"all", Matched}: 2 + 2, {"", Matched}: 4 + 4},
			"switch": {{"ports", Matched}: 2, {"slow", Matched}: 2, {"slow", Exceeded}: 2, {"no", Matched}: 2,
				{"all", Matched}: 2, {"", Matched}: 2},
			"bridged": {{"ports", Matched}: 2 + 4, {"slow", Matched}: 2, {"slow", Exceeded}: 2 + 2, {"no", Matched}: 2 + 2,
				{"all", Matched}: 2 + 2, {"", Matched}: 2 + 2},
			// toward the node the rules apply as ever, with buckets of their own
			"observed": {{"ports", Matched}: 2 + 4, {"slow", Matched}: 4, {"slow", Exceeded}: 2 + 2, {"slow", Observed}: 2 + 2,
				{"no", Matched}: 2 + 2, {"no", Observed}: 2 + 2, {"all", Matched}: 2 + 2, {"", Matched}: 2 + 2,
				{"", Observed}: 2 + 2},
		}[name]
		for h, n := range want {
			if hits[h] != n {
				t.Errorf("%s: %d rules count for %+v, want %d", name, hits[h], h, n)
			}
		}
		if other := counts(AdapterKey{AppUUID: appB}); len(other) > 0 {
			t.Errorf("%s: an adapter that is not there has %v", name, other)
		}
	}
}

func TestRatesOfLimits(t *testing.T) {
	for text, want := range map[string]RateLimit{
		"1/s": {1, "sec", 0}, "10/m": {10, "min", 0}, "10000/h": {10000, "hour", 0},
		"": {}, "10": {}, "/s": {}, "0/s": {}, "10001/s": {}, "70000/s": {}, "-1/s": {}, "10/d": {}, "10/": {}, "10/s/s": {},
		"010/s": {}, "+1/s": {}, " 1/s": {}, "1/sec": {},
	} {
		if got, ok := ParseRate(text); got != want || ok != (want != RateLimit{}) {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
	}
}

// A bucket is full again within a day, and no larger than iptables counts.
func TestTheLargestBurstOfARate(t *testing.T) {
	for limit, want := range map[RateLimit]int{
		{1, "hour", 0}: 24, {10, "hour", 7}: 240, {1, "min", 0}: 1440, {6, "min", 0}: 8640, {7, "min", 0}: maxLimit,
		{1, "sec", 0}: maxLimit, {1, "", 0}: maxLimit, {0, "hour", 0}: 0,
	} {
		if got := limit.MaxBurst(); got != want {
			t.Errorf("%+v: %d, want %d", limit, got, want)
		}
	}
}

// Packets to and from the node have buckets of their own where what exceeds the others passes.
func TestTheBucketsOfALimit(t *testing.T) {
	for w, want := range map[Way][2]string{Sent: {"EB3", "EB3"}, Received: {"IB3", "IB3"}, SentToNode: {"EB3", "NB3"},
		ReceivedFromNode: {"IB3", "MB3"}} {
		for i, in := range []Input{input(web()), observing(input(web()))} {
			nw, _ := newNetwork(in)
			if got := nw.bucket(nw.Adapters[0], w, 3); got != "ES1-1"+want[i] {
				t.Errorf("%s, observed %v: %s, want %s", w, i == 1, got, want[i])
			}
		}
	}
}
