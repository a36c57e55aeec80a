package executor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

func sh(id, script string) netstate.Executor {
	return netstate.Executor{ID: "executor/" + id, Argv: []string{"/bin/sh", "-c", script}, Env: map[string]string{}}
}

// bench is one run directory and its daemon, which may be another one after a while.
type bench struct {
	*testing.T
	x        *Executors
	dir      string
	reported chan string
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, dir: t.TempDir(), reported: make(chan string, 100)}
	b.again()
	t.Cleanup(func() {
		ids, err := b.x.List(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, id := range ids {
			if err := b.x.Remove(context.Background(), id); err != nil {
				t.Error(err)
			}
		}
	})
	return b
}

// again is a start of another daemon.
func (b *bench) again() {
	if b.x != nil {
		b.x.Ended(func(string) {}) // it is dead
	}
	b.x = New(proc.New(""), b.dir)
	b.x.grace = 300 * time.Millisecond
	b.x.Ended(func(id string) { b.reported <- id })
}

func (b *bench) make(e netstate.Executor) {
	b.Helper()
	if err := b.x.Make(b.Context(), e); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) check(e netstate.Executor) string {
	b.Helper()
	ok, why, err := b.x.Check(b.Context(), e)
	if err != nil {
		return "error: " + err.Error()
	}
	out := map[netstate.Condition]string{
		netstate.Missing: "missing", netstate.Running: "running", netstate.AsDesired: "right",
		netstate.Failed: "spoilt"}[ok]
	if why != "" {
		out += ": " + why
	}
	return out
}

func (b *bench) pid(e netstate.Executor) proc.Ident {
	b.Helper()
	st, err := read(b.x.folder(e.ID))
	if err != nil {
		b.Fatal(err)
	}
	return st.Ident
}

func (b *bench) ended(e netstate.Executor) {
	b.Helper()
	select {
	case id := <-b.reported:
		if id != e.ID {
			b.Errorf("told of %s, want %s", id, e.ID)
		}
	case <-time.After(10 * time.Second):
		b.Fatalf("nobody tells of the end of %s", e.ID)
	}
}

func (b *bench) wait(what string, ok func() bool) {
	b.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("not within 10 s: %s", what)
		}
	}
}

func TestAProcessOutlivesItsDaemonAndIsStartedOnce(t *testing.T) {
	b := newBench(t)
	e := sh("a", "sleep 600")
	if got := b.check(e); got != "missing" {
		t.Errorf("before the start it is %q", got)
	}
	b.make(e)
	first := b.pid(e)
	if got := b.check(e); got != "right" {
		t.Errorf("it is %q", got)
	}
	b.again()
	if got := b.check(e); got != "right" || b.pid(e) != first {
		t.Errorf("to another daemon it is %q, as %v, started as %v", got, b.pid(e), first)
	}
	other := sh("a", "sleep 601")
	if got := b.check(other); got != "missing: another process has its number" {
		t.Errorf("of another config it is %q", got)
	}
	b.make(other)
	if first.Alive() || b.check(other) != "right" {
		t.Errorf("the one before lives: %v; the other one is %q", first.Alive(), b.check(other))
	}
	if err := b.pid(other).Signal(9); err != nil {
		t.Fatal(err)
	}
	b.ended(other)
	if got := b.check(other); got != "missing: exited with status 137" {
		t.Errorf("killed it is %q", got)
	}
}

func TestACrashBetweenAStartAndItsRecordStartsNothingTwice(t *testing.T) {
	b := newBench(t)
	e := sh("a", "sleep 600")
	b.make(e)
	first := b.pid(e)
	if err := write(b.x.folder(e.ID), state{Executor: normal(e)}); err != nil { // as it was before the start
		t.Fatal(err)
	}
	b.again()
	if got := b.check(e); got != "right" || b.pid(e) != first {
		t.Errorf("it is %q, as %v, started as %v", got, b.pid(e), first)
	}
	if err := first.Signal(9); err != nil {
		t.Fatal(err)
	}
	b.ended(e) // an adopted one is watched, too
}

func TestTheEndOfOneThatRunsOnceIsKnownToWhoeverLives(t *testing.T) {
	b := newBench(t)
	good, bad := sh("good", "exit 0"), sh("bad", "echo words; exit 7")
	runs := sh("runs", "sleep 600")
	good.Once, bad.Once, runs.Once = true, true, true
	for _, e := range []netstate.Executor{good, bad, runs} {
		b.make(e)
	}
	for _, e := range []netstate.Executor{good, bad} {
		b.wait(e.ID+" ends", func() bool { return !b.pid(e).Alive() })
	}
	for range 2 {
		if got := b.check(good); got != "right" {
			t.Errorf("one that ended with 0 is %q", got)
		}
		if got := b.check(bad); got != "spoilt: exited with status 7: words" {
			t.Errorf("one that ended with 7 is %q", got)
		}
		if got := b.check(runs); got != fmt.Sprintf("running: runs as process %d", b.pid(runs).Pid) {
			t.Errorf("one that runs is %q", got)
		}
		b.again()
	}
}

func TestAStopEndsAllThatWasStartedAndNothingElse(t *testing.T) {
	b := newBench(t)
	stubborn := sh("a", `trap "" TERM; setsid sleep 600 & while :; do sleep 1; done`)
	other := sh("other", "sleep 600")
	b.make(stubborn)
	b.make(other)
	folder := b.x.folder(stubborn.ID)
	marked := func() int {
		all, err := proc.Marked(mark + "=" + folder)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	b.wait("the child in a session of its own", func() bool { return marked() >= 3 })
	if err := b.x.Remove(t.Context(), stubborn.ID); err != nil {
		t.Fatal(err)
	}
	if n := marked(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	if has, err := b.x.Has(t.Context(), stubborn.ID); has || err != nil {
		t.Errorf("it is there: %v, %v", has, err)
	}
	if got := b.check(other); got != "right" {
		t.Errorf("another one is %q", got)
	}
	if ids, err := b.x.List(t.Context()); err != nil || len(ids) != 1 || ids[0] != other.ID {
		t.Errorf("listed are %v, %v", ids, err)
	}
	if err := b.x.Remove(t.Context(), stubborn.ID); err != nil {
		t.Errorf("removed twice: %v", err)
	}
	select {
	case id := <-b.reported:
		t.Errorf("an end that was wanted is told: %s", id)
	default:
	}
}

// What ran and was removed leaves nothing behind: a daemon that runs for years replaces executors again and again.
func TestARemovedOneIsForgotten(t *testing.T) {
	b := newBench(t)
	for range 3 {
		e := sh("a", "sleep 600")
		b.make(e)
		b.x.mu.Lock()
		p := b.x.watched[e.ID]
		b.x.mu.Unlock()
		if err := b.x.Remove(t.Context(), e.ID); err != nil {
			t.Fatal(err)
		}
		b.wait("its end is collected", func() bool { _, err := os.Stat(fmt.Sprintf("/proc/%d", p.Pid)); return err != nil })
	}
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	if n := len(b.x.codes) + len(b.x.watched); n > 0 {
		t.Errorf("%d entries are left: %v, %v", n, b.x.codes, b.x.watched)
	}
}

func TestItsWorldIsWhatItsDescriptionSays(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	t.Setenv("NOTIFY_SOCKET", "secret")
	e := sh("a", "env; pwd; sleep 600")
	e.Env, e.Dir = map[string]string{"KEY": "a b", mark: "stolen"}, dir
	b.make(e)
	out := filepath.Join(b.x.folder(e.ID), outFile)
	text := func() string {
		got, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	b.wait("its output", func() bool { return strings.Contains(text(), dir+"\n") && strings.Contains(text(), "KEY=") })
	if got := text(); !strings.Contains(got, "KEY=a b\n") || strings.Contains(got, "NOTIFY_SOCKET") ||
		strings.Contains(got, "stolen") {
		t.Errorf("its environment is\n%s", got)
	}
	if err := os.Truncate(out, maxOutput+1); err != nil {
		t.Fatal(err)
	}
	if got := b.check(e); got != "right" || len(text()) != 0 {
		t.Errorf("with much output it is %q, %d octets are kept", got, len(text()))
	}
	none := netstate.Executor{ID: "executor/none", Argv: []string{"/no/such/program"}}
	if err := b.x.Make(t.Context(), none); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("what is not there starts: %v", err)
	}
	if has, _ := b.x.Has(t.Context(), none.ID); has {
		t.Error("something of it is left")
	}
}

// A systemctl of our own says what it was asked.
func TestAUnitIsStartedAndStoppedOnlyWhereItDidNotRunBefore(t *testing.T) {
	b := newBench(t)
	unit := netstate.Executor{ID: "executor/u", Unit: "x.service"}
	b.x.systemd = filepath.Join(b.dir, "none")
	if got := b.check(unit); got != "missing" { // nothing of it is here
		t.Errorf("it is %q", got)
	}
	if err := b.x.Make(t.Context(), unit); err == nil ||
		!strings.Contains(err.Error(), "no systemd on this node") {
		t.Errorf("without systemd: %v", err)
	}
	b.x.systemd = b.dir
	active := filepath.Join(b.dir, "active")
	script := `#!/bin/sh
case "$1" in
is-active) test -e ACTIVE && echo active || { echo inactive; exit 3; };;
show) test -e ACTIVE && echo active || echo inactive;;
start) touch ACTIVE;;
stop) rm ACTIVE;;
esac
`
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte(strings.ReplaceAll(script, "ACTIVE", active)),
		0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	runs := func() bool { _, err := os.Stat(active); return err == nil }
	b.make(unit)
	if got := b.check(unit); got != "right" || !runs() {
		t.Errorf("started it is %q, runs: %v", got, runs())
	}
	if err := os.Remove(active); err != nil {
		t.Fatal(err)
	}
	if got := b.check(unit); got != "missing: unit x.service is inactive" {
		t.Errorf("stopped by somebody it is %q", got)
	}
	b.make(unit)
	if err := b.x.Remove(t.Context(), unit.ID); err != nil || runs() {
		t.Errorf("removed: %v, runs: %v", err, runs())
	}
	if err := os.WriteFile(active, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.make(unit)
	if err := b.x.Remove(t.Context(), unit.ID); err != nil || !runs() {
		t.Errorf("one that ran before: removed %v, runs: %v", err, runs())
	}
}

// Defect 17: what a process writes never makes it wait for a reader, whoever lives.
func TestDefect_17_MuchOutputHoldsUpNoProcess(t *testing.T) {
	b := newBench(t)
	e := sh("a", `head -c 300000 /dev/zero | tr '\0' x; echo; echo done; sleep 600`)
	b.make(e)
	b.again() // nobody holds what it writes to
	b.wait("its last word", func() bool {
		text, err := os.ReadFile(filepath.Join(b.x.folder(e.ID), outFile))
		return err == nil && strings.HasSuffix(string(text), "\ndone\n")
	})
}

// A check of one that runs.
func BenchmarkCheck(b *testing.B) {
	x := New(proc.New(""), b.TempDir())
	e := netstate.Executor{ID: "executor/a", Argv: []string{"/bin/sleep", "600"}}
	if err := x.Make(b.Context(), e); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if ok, why, err := x.Check(b.Context(), e); ok != netstate.AsDesired {
			b.Fatal(ok, why, err)
		}
	}
	if err := x.Remove(context.Background(), e.ID); err != nil {
		b.Fatal(err)
	}
}
