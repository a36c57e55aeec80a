package netinst

import (
	"testing"

	"edgespan/netinst/netstate"
)

func TestMayDeny(t *testing.T) {
	c := func(name string, rules ...string) netstate.Chain {
		return netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: name, Rules: rules}
	}
	for name, x := range map[string]struct {
		it   netstate.Item
		want bool
	}{
		"a new network denies nothing that was":      {netstate.Item{Want: c("ES1-FWD", "-j DROP")}, false},
		"a new adapter's address may have old flows": {netstate.Item{Want: c("ES1-1E", "-j DROP")}, true},
		"an adapter's rules changed": {netstate.Item{Have: c("ES1-1E", "-j RETURN"),
			Want: c("ES1-1E", "-j DROP")}, true},
		"an adapter goes": {netstate.Item{Have: c("ES1-1E", "-j RETURN")}, true},
		"one more adapter to tell apart": {netstate.Item{Have: c("ES1-EGR", "a", "b"),
			Want: c("ES1-EGR", "a", "c", "b")}, false},
		"an adapter is told apart by another address": {netstate.Item{Have: c("ES1-ING", "a", "b"),
			Want: c("ES1-ING", "c", "b")}, true},
		"a port goes": {netstate.Item{Have: c("ES1-FWD", "a", "b"),
			Want: c("ES1-FWD", "a")}, true},
		"frames of a network that goes are not tracked": {netstate.Item{Have: netstate.Chain{Family: netstate.BridgeFamily,
			Name: "es1", Rules: []string{"a"}}}, false},
		"nor are those of an adapter": {netstate.Item{Have: netstate.Chain{Family: netstate.BridgeFamily,
			Table: GuardTable, Name: "ES1-1F", Rules: []string{"a"}}}, false},
		"a chain without a part is no adapter's":   {netstate.Item{Want: c("ES1-")}, false},
		"nor is one whose part has a number later": {netstate.Item{Want: c("ES1-A1")}, false},
		"frames are not tracked": {netstate.Item{
			Have: netstate.Chain{Family: netstate.BridgeFamily, Name: "es1", Rules: []string{"a"}},
			Want: netstate.Chain{Family: netstate.BridgeFamily, Name: "es1", Rules: []string{"b"}},
		}, false},
	} {
		op := netstate.Op{Kind: netstate.KindChain, Items: []netstate.Item{x.it}}
		if got := MayDeny(op); got != x.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if MayDeny(netstate.Op{Kind: netstate.KindFile, Items: []netstate.Item{{Want: netstate.File{Path: "ni/1-1/x"}}}}) {
		t.Error("a file denies flows")
	}
}
