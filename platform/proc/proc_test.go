package proc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestRunGivesOutputAndTakesInput(t *testing.T) {
	out, err := New("").Run(t.Context(), "hello\n", "cat")
	if err != nil || out != "hello\n" {
		t.Fatalf("out %q err %v", out, err)
	}
}

func TestAFailedCommandTellsItsLastWords(t *testing.T) {
	_, err := New("").Run(t.Context(), "", "sh", "-c", "echo first >&2; echo bad rule >&2; exit 3")
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Error(), "first; bad rule") || !strings.HasPrefix(e.Command(), "sh -c") {
		t.Fatalf("err %v", err)
	}
	if _, err := New("").Run(t.Context(), "", "no-such-command-here"); !errors.As(err, &e) {
		t.Fatalf("err %v", err)
	}
}

func TestAHangingCommandDiesAtItsDeadlineWithItsWholeGroup(t *testing.T) {
	pidfile := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := New("").Run(ctx, "", "sh", "-c", "sleep 1000 & echo $! > "+pidfile+"; wait")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("err %v", err)
	}
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("took %v", d)
	}
	b, err := os.ReadFile(pidfile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(3 * time.Second)
	for {
		st, err := readStat(pid)
		if err != nil || st.state == 'Z' {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("grandchild %d still runs", pid)
		}
		time.Sleep(5 * time.Millisecond) // polls a condition
	}
}

func TestStopEndsOnlyTheIdentifiedProcess(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	id, err := New("").Start([]string{"sleep", "1000"}, out, Confinement{})
	if err != nil {
		t.Fatal(err)
	}
	if sid, err := unix.Getsid(id.Pid); err != nil || sid != id.Pid {
		t.Errorf("session %d err %v, want its own %d", sid, err, id.Pid)
	}
	other := Ident{Pid: id.Pid, Start: id.Start + 1}
	if err := other.Stop(t.Context(), 0); err != nil || !id.Alive() {
		t.Fatalf("stopping another start time: err %v alive %v", err, id.Alive())
	}
	if got := id.Cmdline(); strings.Join(got, " ") != "sleep 1000" {
		t.Errorf("cmdline %q", got)
	}
	all, err := List()
	if i := slices.IndexFunc(all, func(p Process) bool { return p.Ident == id }); err != nil || i < 0 ||
		strings.Join(all[i].Argv, " ") != "sleep 1000" {
		t.Errorf("process %d is not in the list: %v", id.Pid, err)
	}
	if err := id.Stop(t.Context(), time.Second); err != nil || id.Alive() {
		t.Fatalf("stop: err %v alive %v", err, id.Alive())
	}
	if err := id.Stop(t.Context(), time.Second); err != nil {
		t.Errorf("stopping again: %v", err)
	}
}

func TestStopKillsWhatIgnoresSIGTERM(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	id, err := New("").Start([]string{"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"}, out,
		Confinement{})
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(3 * time.Second)
	for b := []byte(nil); len(b) == 0 && time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		b, _ = os.ReadFile(out)
	}
	if err := id.Stop(t.Context(), 50*time.Millisecond); err != nil || id.Alive() {
		t.Fatalf("err %v alive %v", err, id.Alive())
	}
}

func TestWatchTellsOnceWhenAProcessEnds(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	var ids []Ident
	for range 3 {
		id, err := New("").Start([]string{"sleep", "1000"}, out, Confinement{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = id.Stop(context.Background(), 0) }()
		ids = append(ids, id)
	}
	reported := make(chan int, 10)
	watch := func(n int, id Ident) (stop func()) {
		stop, err := id.Watch(func() { reported <- n })
		if err != nil {
			t.Fatal(err)
		}
		return stop
	}
	next := func() int {
		select {
		case n := <-reported:
			return n
		case <-time.After(5 * time.Second):
			t.Fatal("nobody tells of the end")
			return 0
		}
	}
	watch(0, ids[0])
	defer watch(1, ids[1])()
	watch(2, ids[2])() // nobody cares any more
	for _, n := range []int{2, 0} {
		if err := ids[n].Stop(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := next(); n != 0 {
		t.Errorf("told of %d, want 0", n)
	}
	watch(3, ids[0])
	if n := next(); n != 3 {
		t.Errorf("told of %d, want of the one that was gone already", n)
	}
	if len(reported) > 0 {
		t.Errorf("told of %d too", <-reported)
	}
}

func TestAChildHoldsNoThreadAndIsReaped(t *testing.T) {
	const children = 40
	before := threads(t)
	var ids []Ident
	for range children {
		id, err := New("").Start([]string{"sleep", "1000"}, filepath.Join(t.TempDir(), "out"), Confinement{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = id.Stop(context.Background(), 0) }()
		ids = append(ids, id)
	}
	time.Sleep(50 * time.Millisecond) // a wait(2) takes its thread some time after the start
	if n := threads(t) - before; n > children/2 {
		t.Errorf("%d children hold %d threads", children, n)
	}
	for _, id := range ids {
		if err := id.Stop(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		left := slices.DeleteFunc(slices.Clone(ids), func(id Ident) bool {
			st, err := readStat(id.Pid)
			return err != nil || st.start != id.Start
		})
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d children stay zombies", len(left), children)
		}
	}
}

// threads counts the threads of this process.
func threads(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// A command dies with the thread that forked it (PR_SET_PDEATHSIG): that one must do nothing
// else meanwhile, least of all start a confined helper, with which a thread ends.
func TestACommandOutlivesTheThreadsOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to enter a network namespace needs root")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	for range 8 {
		go func() {
			r := New("/proc/self/ns/net")
			for {
				if _, err := r.Run(t.Context(), "", "sleep", "0.01"); err != nil || ctx.Err() != nil {
					done <- err
					return
				}
			}
		}()
	}
	for range 2000 {
		if err := (Confinement{}).start("", func() error { return nil }); err != nil {
			t.Error(err)
			break
		}
	}
	cancel()
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestParseStat(t *testing.T) {
	rest := " S 1 5 5 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 9 9"
	for in, want := range map[string]uint64{"7 (dnsmasq)" + rest: 4242, "7 (a b) (c))" + rest: 4242} {
		if st, err := parseStat(in); err != nil || st.start != want || st.state != 'S' {
			t.Errorf("%q: %+v %v", in, st, err)
		}
	}
	for _, in := range []string{"", "7 (x) S 1", "7 x S"} {
		if _, err := parseStat(in); err == nil {
			t.Errorf("%q: no error", in)
		}
	}
}

func TestACommandDiesWithTheDaemon(t *testing.T) {
	const child = "EDGESPAN_TEST_PIDFILE"
	if pidfile := os.Getenv(child); pidfile != "" { // we are the one to be killed
		_, err := New("").Run(t.Context(), "", "sh", "-c", "echo $$ >"+pidfile+".new; mv "+pidfile+".new "+pidfile+
			"; exec sleep 60")
		t.Fatalf("the command ended first: %v", err)
	}
	pidfile := filepath.Join(t.TempDir(), "pid")
	daemon := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	daemon.Env = append(os.Environ(), child+"="+pidfile)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	pid, killed := 0, false
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		b, err := os.ReadFile(pidfile)
		if err == nil && !killed {
			if pid, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
				t.Fatal(err)
			}
			killed = true
			if err := daemon.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = daemon.Wait() // killed
		}
		if killed {
			if st, err := readStat(pid); err != nil || st.state == 'Z' {
				return
			}
		}
		if time.Now().After(until) {
			_ = daemon.Process.Kill() // at worst it has ended
			t.Fatalf("command %d of a killed daemon, %v, still runs", pid, killed)
		}
	}
}
