package firewall

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/dump"
	"edgespan/platform/proc"
)

var hookedChain = netstate.Chain{
	Family: netstate.IPv4, Table: "filter", Name: "ES1-FWD", Rules: []string{"-j DROP"},
	Hooks: []netstate.Hook{{Parent: "ES-FORWARD", Match: "-i es1"}},
}

// standing is a Firewall over a kernel that shows a filter table; its store is sure
// that hookedChain stands. during runs within each listing of that table.
func standing(t *testing.T, kernel table, during func(*store)) (*Firewall, *store) {
	t.Helper()
	dir := t.TempDir()
	f := New(proc.New(""), nil, func(int) string { return dir })
	f.age.known = true // legacy: nothing is asked by netlink
	st := f.store(1)
	for name := range f.dumps {
		f.dumps[name] = dump.New(time.Minute, func(context.Context) (view, error) {
			if name != "filter" {
				return table{}.view(), nil
			}
			if during != nil {
				during(st)
			}
			return kernel.view(), nil
		})
	}
	f.native = dump.New(time.Minute, func(context.Context) (native, error) { return native{}, nil })
	_, version := st.at()
	if err := st.saw(observation{version: version, full: true,
		seen: []entry{read(hookedChain, "-j DROP\nES-FORWARD> -i es1 -j ES1-FWD")}}); err != nil {
		t.Fatal(err)
	}
	if !st.isSure() || len(st.all()) != 1 {
		t.Fatalf("the store holds %v", st.all())
	}
	return f, st
}

var hookedTable = table{"ES1-FWD": {"-j DROP"}, "ES-FORWARD": {"-i es1 -j ES1-FWD"}}

// A plan looks while the applier removes: what it saw before must not come back into
// the store, or the next write would leave out a jump that has gone.
func TestALookThatAWriteOvertookIsNotTakenOver(t *testing.T) {
	f, st := standing(t, hookedTable, func(st *store) {
		if err := st.change(func(m map[netstate.ID]entry) { clear(m) }); err != nil {
			t.Error(err)
		}
	})
	seen, err := f.Observe(t.Context(), 1, true)
	if err != nil || seen[hookedChain.ID()] == nil {
		t.Errorf("it is told %v, %v, want what was seen", seen, err)
	}
	if left := st.all(); len(left) != 0 {
		t.Errorf("the store holds what is gone: %v", left)
	}
}

func TestALookBesideAFailedWriteMakesNothingSure(t *testing.T) {
	f, st := standing(t, hookedTable, (*store).markUncertain)
	if _, err := f.Observe(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	if st.isSure() {
		t.Error("the store is sure of what was seen before the write failed")
	}
}

// The old state may be desired again: the store agrees, the kernel may not.
func TestAfterAFailedWriteTheKernelIsAsked(t *testing.T) {
	f, st := standing(t, table{"ES1-FWD": {"-j ACCEPT"}, "ES-FORWARD": nil}, nil)
	seen, err := f.Observe(t.Context(), 1, false)
	if err != nil || seen[hookedChain.ID()].Text() != hookedChain.Text() {
		t.Fatalf("before, it is told %v, %v", seen, err)
	}
	st.markUncertain()
	seen, err = f.Observe(t.Context(), 1, false)
	if err != nil || seen[hookedChain.ID()].Text() == hookedChain.Text() {
		t.Errorf("it is told as the store has it: %v, %v", seen, err)
	}
}

func TestAWriteThatWasKilledLeavesDoubt(t *testing.T) {
	f, st := standing(t, hookedTable, nil)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "iptables-restore"), []byte("#!/bin/sh\nsleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	changed := hookedChain
	changed.Rules = []string{"-j ACCEPT"}
	if err := f.Apply(ctx, 1, []netstate.Item{{Want: changed}}); err == nil {
		t.Fatal("a write that was killed is no error")
	}
	if st.isSure() {
		t.Error("the store is sure after a write that was killed")
	}
}

// What is known is told without a listing, in a State of the caller's own, until a chain is written.
func TestWhatIsKnownIsNotListed(t *testing.T) {
	f, st := standing(t, hookedTable, func(*store) { t.Error("it is listed") })
	observe := func() netstate.State {
		s, err := f.Observe(t.Context(), 1, false)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := observe()
	if len(first) != 1 || !netstate.Same(first[hookedChain.ID()], hookedChain) {
		t.Errorf("it is told %v", first)
	}
	clear(first)
	if again := observe(); len(again) != 1 {
		t.Errorf("after the caller has changed what it got: %v", again)
	}
	err := st.change(func(m map[netstate.ID]entry) {
		e := m[hookedChain.ID()]
		e.Rules = []string{"-j ACCEPT"}
		m[hookedChain.ID()] = e
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := observe(); s[hookedChain.ID()].Text() != "first in ES-FORWARD: -i es1\n-j ACCEPT" {
		t.Errorf("after a write: %v", s)
	}
	err = st.change(func(m map[netstate.ID]entry) { m[hookedChain.ID()] = written(hookedChain) })
	if _, all := st.shown(); err != nil || all {
		t.Errorf("%v; a chain that was not read back is told: %v", err, all)
	}
}
