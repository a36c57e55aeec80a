package proc

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The end of a watched process is told once, by its key; neither that of one that was left, nor that of one that another
// has replaced, nor anything after the guard was closed.
func TestAGuardTellsOnceOfAnEnd(t *testing.T) {
	run := New("")
	start := func() Ident {
		t.Helper()
		id, err := run.Start([]string{"sleep", "1000"}, filepath.Join(t.TempDir(), "out"), Confinement{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = id.Stop(context.Background(), time.Second) })
		return id
	}
	var g Guard[string]
	told := make(chan string, 8)
	watch := func(k string, id Ident) bool { return g.Watch(k, id, func() { told <- k }) }
	one, left, old, last := start(), start(), start(), start()
	if !watch("one", one) || watch("one", one) || !watch("left", left) || !watch("other", old) {
		t.Error("which are fresh is wrong")
	}
	if n := len(g.Running()); n != 3 {
		t.Errorf("%d run", n)
	}
	g.Leave("left")
	if !watch("other", last) {
		t.Error("another process of the same key is not fresh")
	}
	for _, id := range []Ident{left, old, one} {
		if err := id.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case k := <-told:
		if k != "one" {
			t.Errorf("told of %s", k)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("no end is told")
	}
	if watch("one", one) { // an observation that has not seen the end yet
		t.Error("an ended process is watched again")
	}
	if k := g.Running(); len(k) != 1 || k[0] != "other" {
		t.Errorf("%v run", k)
	}
	g.Close()
	if watch("late", start()) {
		t.Error("a closed guard watches")
	}
	if err := last.Stop(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	select {
	case k := <-told:
		t.Errorf("told of %s, too", k)
	default:
	}
}
