package proc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"edgespan/netinst/netstate"
)

// kernelGroups is a folder that looks like a hierarchy of cgroups with a group and some controllers.
func kernelGroups(t *testing.T, g *Groups, has string, files ...string) string {
	t.Helper()
	top := t.TempDir()
	g.open = func() (string, error) { return top, nil }
	folder := filepath.Join(top, "edgespan", g.prefix+"ni-1")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(folder, f), []byte("max\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{top, filepath.Join(top, "edgespan")} {
		if err := os.WriteFile(filepath.Join(at, "cgroup.subtree_control"), []byte(has), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

var someLimits = netstate.ProcessLimits{Memory: 64, Processor: 50, Processes: 9}

func TestAGroupHasTheLimitsAndTheProcess(t *testing.T) {
	g := NewGroups("/run/x")
	folder := kernelGroups(t, g, "", "memory.max", "cpu.max", "pids.max", "cgroup.procs")
	if err := g.Put("ni/1", Ident{Pid: 4711}, someLimits); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"memory.max": "67108864", "cpu.max": "50000 100000", "pids.max": "9",
		"cgroup.procs": "4711"} {
		if got, err := os.ReadFile(filepath.Join(folder, file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", file, got, err, want)
		}
	}
	other := NewGroups("/run/y")
	other.open = g.open
	if other.ready(); g.path("ni/1") == other.path("ni/1") || g.path("ni/1") == g.path("ni/11") {
		t.Error("two run directories or networks share a group")
	}
}

func TestAProcessJoinsItsGroupWithoutControllers(t *testing.T) {
	g := NewGroups("/run/x")
	folder := kernelGroups(t, g, "pids other", "cgroup.procs")
	if err := g.Put("ni/1", Ident{Pid: 4711}, someLimits); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "memory.max")); err == nil {
		t.Error("a file was made that the kernel does not have")
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(folder), "cgroup.subtree_control"), []byte("pids other\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := g.Missing(); err != nil || !slices.Equal(got, []string{"memory", "cpu"}) {
		t.Errorf("missing: %q, %v", got, err)
	}
}

func TestWhatHasReachedALimitIsListed(t *testing.T) {
	g := NewGroups("/run/x")
	folder := kernelGroups(t, g, "")
	for file, text := range map[string]string{"memory.events": "low 0\nmax 9\noom 2\noom_kill 2\n", "pids.events": "max 0\n"} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := g.Reached(); !slices.Equal(got, []string{"ni-1: memory (2 times)"}) {
		t.Errorf("reached: %q", got)
	}
	if err := os.WriteFile(filepath.Join(folder, "pids.events"), []byte("max 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := g.Reached(); len(got) != 2 || got[1] != "ni-1: processes (5 times)" {
		t.Errorf("reached: %q", got)
	}
}

func TestWithoutCgroupsNothingFails(t *testing.T) {
	g := NewGroups("/run/x")
	g.open = func() (string, error) { return "", errors.New("not permitted") }
	if err := g.Put("ni/1", Ident{Pid: os.Getpid()}, someLimits); err == nil {
		t.Error("a process joins a group that is not there")
	}
	if err := g.Remove("ni/1"); err != nil || !g.Has("ni/1", Ident{Pid: os.Getpid()}) {
		t.Errorf("remove: %v", err)
	}
	if got, err := g.Missing(); err == nil {
		t.Errorf("missing: %q", got)
	}
}

// A process that can't join is not tried again, and the doctor says why.
func TestAGroupThatNobodyMayJoinIsGivenUp(t *testing.T) {
	g := NewGroups("/run/x")
	kernelGroups(t, g, "")
	st, err := readStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	own := Ident{Pid: os.Getpid(), Start: st.start}
	if g.Has("ni/1", own) {
		t.Error("it is in a group before it was put there")
	}
	if err := g.Put("ni/1", Ident{Pid: 1 << 30}, someLimits); err != nil || g.Has("ni/1", own) {
		t.Errorf("a process that has ended: %v", err)
	}
	if err := g.Put("ni/1", own, someLimits); err == nil || !g.Has("ni/1", own) {
		t.Errorf("put: %v, and it would be put there again", err)
	}
	if _, err := g.Missing(); err == nil {
		t.Error("nothing is missing")
	}
}

// The kernel's own groups: a process joins, leaves by force, and its group goes with all that is left in it.
func TestAProcessInAGroupOfTheKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: making cgroups needs root")
	}
	g := NewGroups(t.TempDir())
	if err := g.ready(); err != nil {
		t.Skip("skipped: the kernel gives no cgroups:", err)
	}
	t.Cleanup(g.Close)
	id, err := New("").Start([]string{"sleep", "60"}, filepath.Join(t.TempDir(), "out"), Confinement{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = id.Signal(9) })
	if g.Has("ni/1", id) {
		t.Error("it is in a group before it was put there")
	}
	if err := g.Put("ni/1", id, someLimits); err != nil || !g.Has("ni/1", id) || g.Has("ni/2", id) {
		t.Fatalf("put: %v", err)
	}
	top := filepath.Dir(g.root)
	if err := set(filepath.Join(top, "cgroup.procs"), strconv.Itoa(id.Pid)); err != nil || g.Has("ni/1", id) {
		t.Fatalf("taken out: %v", err)
	}
	if err := g.Put("ni/1", id, someLimits); err != nil {
		t.Fatal(err)
	}
	if err := g.Remove("ni/1"); err != nil || id.Alive() {
		t.Errorf("remove: %v, alive: %v", err, id.Alive())
	}
	if _, err := os.Stat(g.path("ni/1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group is still there: %v", err)
	}
}
