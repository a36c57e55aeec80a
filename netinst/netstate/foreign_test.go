package netstate

import (
	"errors"
	"testing"
)

// lentState is a network with one foreign link in its bridge, filtered by chain E.
func lentState(rule string) State {
	e := Chain{Family: IPv4, Table: "filter", Name: "ES1-1E", Rules: []string{rule}}
	return NewState(e, Link{Name: "es1", Type: Bridge}, Port{Link: "es1"},
		Port{Link: "vm0", Master: "es1", Foreign: true, After: []ID{e.ID()}})
}

func TestAForeignLinkLeavesBeforeTheRulesThatHoldIt(t *testing.T) {
	have, want := lentState("old"), lentState("new")
	delete(want, ID{KindPort, "vm0"})
	plan := Diff(have, want)
	if len(plan) != 2 || plan[0].String() != "remove port vm0" || plan[1].String() != "change chain ipv4/filter/ES1-1E" {
		t.Fatalf("plan %v", plan)
	}
	run := NewRun(plan)
	op, _ := run.Next()
	run.Done(op, errors.New("busy"))
	if op, ok := run.Next(); ok {
		t.Errorf("%s is done while the link is still in the bridge", op)
	}
}

func TestAForeignLinkThatIsDownInTheBridgeIsPutUp(t *testing.T) {
	have, want := lentState("x"), lentState("x")
	p := have[ID{KindPort, "vm0"}].(Port)
	p.Down = true
	have.Add(p)
	if plan := Diff(have, want); len(plan) != 1 || plan[0].String() != "change port vm0" {
		t.Errorf("plan %v", plan)
	}
}

// Only a link that can't be released keeps the chains that filter it. A link that can't be brought up is filtered by
// its own chain.
func TestAForeignLinkThatCannotBePutUpHoldsNoChainBack(t *testing.T) {
	have, want := lentState("x"), lentState("x")
	p := have[ID{KindPort, "vm0"}].(Port)
	p.Down = true
	have.Add(p, Chain{Family: IPv4, Table: "filter", Name: "ES1-2E"})
	done, failures := walk(Diff(have, want), map[string]error{"change port vm0": errors.New("busy")})
	if done != "change port vm0\nremove chain ipv4/filter/ES1-2E" || len(failures) != 1 {
		t.Errorf("done:\n%s\nfailures %v", done, failures)
	}
}
