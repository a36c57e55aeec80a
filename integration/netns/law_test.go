package netns_test

import (
	"maps"
	"slices"
	"testing"

	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
)

func TestEveryKindOfObjectIsObservedAsDesired(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	others := foreign(t, l)
	want := l.desiredStates(l.before(), desiredStates{})
	kinds := map[netstate.Kind]int{}
	for _, s := range append(slices.Collect(maps.Values(want.nets)), want.host()) {
		for id := range s {
			kinds[id.Kind]++
		}
	}
	if len(kinds) != 9 {
		t.Fatalf("the desired state has objects of kinds %v, want all nine", kinds)
	}
	l.turn(desiredStates{}, want)
	others.same(t)
	var owned []netstate.Owner
	for _, n := range slices.Sorted(maps.Keys(want.nets)) {
		owned = append(owned, owner(n))
		if p := netstate.Diff(l.observe(owner(n), true), want.nets[n]); len(p) > 0 {
			t.Errorf("a second plan has ops: %v", p)
		}
	}
	owners, err := l.host.Owners(t.Context())
	if d := cmp.Diff(owned, owners); err != nil || d != "" {
		t.Errorf("owners: %v (-want +got):\n%s", err, d)
	}
	// Another process, which only has the run folder and the kernel.
	l.open()
	l.turn(want, want)
	// Change, move or remove every object, and back.
	after := l.desiredStates(l.after(), want)
	for range 2 {
		l.turn(want, after)
		others.same(t)
		l.turn(after, want)
		others.same(t)
	}
}

func TestDeletingLeavesNothing(t *testing.T) {
	t.Parallel()
	t.Run("on a bare host", func(t *testing.T) { deleteLeavesNothing(t, newLab(t)) })
	t.Run("beside another firewall", func(t *testing.T) {
		l := newLab(t)
		others := foreign(t, l)
		deleteLeavesNothing(t, l)
		others.same(t)
	})
}

func deleteLeavesNothing(t *testing.T, l *lab) {
	before, appBefore := picture(t, l.ns), picture(t, l.app)
	files := fileTree(t, l.dir)
	a := l.desiredStates(l.before(), desiredStates{})
	l.turn(desiredStates{}, a)
	l.turn(a, desiredStates{})
	if d := cmp.Diff(before, picture(t, l.ns)); d != "" {
		t.Errorf("host differs (-before +after):\n%s", d)
	}
	if d := cmp.Diff(appBefore, picture(t, l.app)); d != "" {
		t.Errorf("application's namespace differs (-before +after):\n%s", d)
	}
	if d := cmp.Diff(files, fileTree(t, l.dir)); d != "" {
		t.Errorf("run directory differs (-before +after):\n%s", d)
	}
}
