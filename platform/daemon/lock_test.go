package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func lockNames(t *testing.T) (folder, socket string) {
	return filepath.Join(t.TempDir(), "lock"), fmt.Sprintf("@edgespan-lock-%d-%s", os.Getpid(), t.Name())
}

func TestASecondDaemonOfANamespaceIsRefused(t *testing.T) {
	folder, socket := lockNames(t)
	first, warnings, err := LockNamespace(t.Context(), folder, socket)
	if err != nil || warnings != nil {
		t.Fatal(warnings, err)
	}
	for what, second := range map[string][2]string{
		"of this release":              {folder, socket},
		"of this release, by file":     {folder, socket + "-other"},
		"that knows the name alone":    {t.TempDir(), socket},
		"with a run folder of its own": {folder, socket},
	} {
		if _, _, err := LockNamespace(t.Context(), second[0], second[1]); !errors.Is(err, ErrTaken) {
			t.Errorf("one %s: %v", what, err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	again, warnings, err := LockNamespace(t.Context(), folder, socket)
	if err != nil || warnings != nil {
		t.Fatal(warnings, err)
	}
	_ = again.Close()
}

// A file that a killed daemon left locks nobody out, and goes.
func TestACrashLeavesNoLock(t *testing.T) {
	folder, socket := lockNames(t)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(folder, "netns-1-2.lock")
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, _, err := LockNamespace(t.Context(), folder, socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := os.Lstat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the stale file: %v", err)
	}
	if s, err := os.Stat(l.path); err != nil || s.Mode().Perm() != 0o600 {
		t.Errorf("the lock's file: %v %v", s, err)
	}
}

// A program that is not root's can take an abstract name, and keeps nobody out by it.
func TestAForeignHolderOfTheNameIsIgnored(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to be somebody else")
	}
	for _, how := range []string{"listens", "lets nobody in"} {
		t.Run(how, func(t *testing.T) {
			folder, socket := lockNames(t)
			backlog := 5
			if how == "lets nobody in" {
				backlog = 0
			}
			foreign(t, socket, backlog)
			l, warnings, err := LockNamespace(t.Context(), folder, socket)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if want := map[string]string{"listens": "uid 65534 holds"}[how]; len(warnings) != 1 ||
				!strings.Contains(warnings[0], want) {
				t.Errorf("warnings %q", warnings)
			}
			if _, _, err := LockNamespace(t.Context(), folder, socket); !errors.Is(err, ErrTaken) {
				t.Errorf("a second daemon: %v", err)
			}
		})
	}
}

// foreign has uid 65534 listen on a name; with a backlog of 0 connections fill it up.
func foreign(t *testing.T, socket string, backlog int) {
	t.Helper()
	cmd := exec.Command("python3", "-c", `
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind("\0" + sys.argv[1])
s.listen(int(sys.argv[2]))
full = []
while int(sys.argv[2]) == 0:
    c = socket.socket(socket.AF_UNIX)
    c.setblocking(False)
    try:
        c.connect("\0" + sys.argv[1])
    except BlockingIOError:
        break
    full.append(c)
print("ready", flush=True)
sys.stdin.read()
`, strings.TrimPrefix(socket, "@"), fmt.Sprint(backlog))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("needs python3: ", err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
}

// A folder that others can write to is no place for a lock: the name is what counts then.
func TestAFolderOfOthersIsNoPlaceForALock(t *testing.T) {
	folder, socket := lockNames(t)
	if err := errors.Join(os.Mkdir(folder, 0o755), os.Chmod(folder, 0o777)); err != nil {
		t.Fatal(err)
	}
	l, warnings, err := LockNamespace(t.Context(), folder, socket)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "others must not be able to write there") {
		t.Fatal(warnings, err)
	}
	defer l.Close()
	if _, _, err := LockNamespace(t.Context(), folder, socket); !errors.Is(err, ErrTaken) {
		t.Errorf("a second daemon: %v", err)
	}
}

func TestAFormerReleaseKeepsUsOut(t *testing.T) {
	folder, socket := lockNames(t)
	var lc net.ListenConfig
	former, err := lc.Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := LockNamespace(t.Context(), folder, socket); !errors.Is(err, ErrTaken) {
		t.Fatalf("beside it: %v", err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = former.Close() }) // it is about to end
	l, warnings, err := LockNamespace(t.Context(), folder, socket)
	if err != nil || warnings != nil {
		t.Fatal(warnings, err)
	}
	_ = l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if former, err = lc.Listen(t.Context(), "unix", socket); err != nil {
		t.Fatal(err)
	}
	defer former.Close()
	if _, _, err := LockNamespace(ctx, folder, socket); !errors.Is(err, context.Canceled) {
		t.Errorf("when told to end: %v", err)
	}
}
