package bench

import "testing"

func TestCrossedRulesAreThoseBeforeEachMatch(t *testing.T) {
	key := func(name string) chainKey { return chainKey{"ip", "filter", name} }
	rules := map[chainKey][]uint64{key("base"): {1, 2, 3, 4}, key("a"): {5, 6, 7}, key("b"): {8, 9}, key("nat"): {10, 11}}
	at := func(name string, rule uint64, code int32, target string) traceEvent {
		return traceEvent{chain: key(name), rule: rule, code: code, target: target}
	}
	accept := int32(1)
	for _, c := range []struct {
		name   string
		events []traceEvent
		want   int
	}{
		{"the first rule accepts", []traceEvent{at("base", 1, accept, "")}, 1},
		{"the last one does", []traceEvent{at("base", 4, accept, "")}, 4},
		{"only the policy does", []traceEvent{{chain: key("base"), kind: tracePolicy}}, 4},
		{"a chain is called, whose second rule accepts", []traceEvent{
			at("base", 2, nftJump, "a"), at("a", 6, accept, ""),
		}, 4},
		{"a called chain comes to its end", []traceEvent{
			at("base", 2, nftJump, "a"), at("a", 0, nftContinue, ""), at("base", 3, accept, ""),
		}, 6},
		{"a called chain returns early", []traceEvent{
			at("base", 2, nftJump, "a"), at("a", 5, nftReturn, ""), at("base", 4, accept, ""),
		}, 5},
		{"a rule changes a mark and the packet goes on", []traceEvent{
			at("base", 1, nftContinue, ""), at("base", 3, accept, ""),
		}, 3},
		{"goto leaves no way back", []traceEvent{
			at("base", 1, nftJump, "a"), at("a", 6, nftGoto, "b"), at("b", 0, nftContinue, ""), at("base", 2, accept, ""),
		}, 6},
		{"two hooks, the first ends at its end", []traceEvent{
			at("base", 2, nftJump, "a"), at("a", 0, nftContinue, ""), {chain: key("base"), kind: tracePolicy},
			at("nat", 11, accept, ""),
		}, 9},
		{"the same chain twice", []traceEvent{at("base", 1, accept, ""), at("base", 1, accept, "")}, 2},
	} {
		if got, err := countCrossed(rules, c.events); err != nil || got != c.want {
			t.Errorf("%s: %d rules crossed, %v; want %d", c.name, got, err, c.want)
		}
	}
	if n, err := countCrossed(rules, []traceEvent{at("base", 99, accept, "")}); err == nil {
		t.Errorf("a rule that is not listed: %d rules crossed, want an error", n)
	}
}
