package netns_test

import (
	"strings"
	"testing"

	"edgespan/netinst/netstate"
)

// A write relies on the state of the last write without observing first. If others removed objects meanwhile, it must
// observe and not fail.
func TestAWriteFindsOutWhatOthersTookAway(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	want := l.network(1)
	l.must(owner(1), want)
	l.ns.Exec(t, "iptables", "-D", "ES-NETS-FROM-1", "-i", "es1", "-j", "ES1-FWD")

	fwd := want[netstate.ID{Kind: netstate.KindChain, Name: "ipv4/filter/ES1-FWD"}]
	if fwd == nil {
		t.Fatalf("no chain ES1-FWD in %v", want.IDs())
	}
	changed := fwd.(netstate.Chain)
	changed.Hooks = changed.Hooks[:1]
	op := netstate.Op{Verb: netstate.Change, Kind: netstate.KindChain, Items: []netstate.Item{{Want: changed, Have: fwd}}}
	if err := l.do(t.Context(), owner(1), op); err != nil {
		t.Fatal(err)
	}
	if out := l.ns.Exec(t, "iptables", "-S", "ES-NETS-FROM-1"); strings.Count(out, "-j ES1-FWD") != 1 {
		t.Errorf("ES-NETS-FROM-1 holds not one jump:\n%s", out)
	}
	l.must(owner(1), want)
	l.must(owner(1), netstate.State{})
}

// A chain that was just written is reported as desired only if every rule of it and every jump into it exists.
func TestAChainThatOthersCutShortIsSeenAtOnce(t *testing.T) {
	for _, cut := range []string{"-D ES1-INP 1", "-D ES-NETS-IN-1 -i es1 -j ES1-INP", "-F ES1-INP"} {
		l := newLab(t)
		l.must(hostOwner, root())
		want := l.network(1)
		in := want[netstate.ID{Kind: netstate.KindChain, Name: "ipv4/filter/ES1-INP"}]
		op := netstate.Op{Verb: netstate.Change, Kind: netstate.KindChain}
		for id, o := range want {
			if id.Kind == netstate.KindChain {
				op.Items = append(op.Items, netstate.Item{Want: o})
			}
		}
		if err := l.do(t.Context(), owner(1), op); err != nil {
			t.Fatal(err)
		}
		l.ns.Exec(t, append([]string{"iptables"}, strings.Fields(cut)...)...)
		if got := l.observe(owner(1), false)[in.ID()]; got != nil && got.Text() == in.Text() {
			t.Errorf("after %s the chain is told as it was wanted", cut)
		}
	}
}
